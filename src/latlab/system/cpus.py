"""Which CPUs there are, who uses them, and how this process keeps off those that measure."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from latlab.errors import UsageError

__all__ = [
    "OthersBusy",
    "ahead_of_others",
    "cpu_list",
    "online_cpus",
    "own_threads",
    "parse_cpu_list",
    "refused_cpus",
    "threads_off",
]

_IDLE, _IOWAIT, _STEAL = 3, 4, 7  # of the columns of /proc/stat: not work of this machine's programs
_COLUMNS = 8  # guests' time, behind them, stands in user's already


def online_cpus(root: Path = Path("/")) -> list[int]:
    """The CPUs that are running, from sysfs."""
    try:
        return parse_cpu_list((root / "sys/devices/system/cpu/online").read_text())
    except OSError:
        return sorted(os.sched_getaffinity(0))


def parse_cpu_list(text: str) -> list[int]:
    """``0-3,7`` and its like, as the kernel writes CPU lists and as users do (``0-6:2`` with a stride).

    Raises:
        UsageError: it is no such list.
    """
    cpus: set[int] = set()
    for part in filter(None, (piece.strip() for piece in text.strip().split(","))):
        bounds, _, step = part.partition(":")
        first, dash, last = bounds.partition("-")
        try:
            low, high, stride = int(first), int(last if dash else first), int(step or 1)
        except ValueError:
            raise UsageError(f"'{part}' is not a CPU list", remedy="write for example 0-3,7") from None
        if low < 0 or high < low or stride < 1 or high > 1 << 16:
            raise UsageError(f"'{part}' is not a CPU list", remedy="write for example 0-3,7")
        cpus.update(range(low, high + 1, stride))
    return sorted(cpus)


def cpu_list(cpus: Iterable[int]) -> str:
    """CPUs as the kernel writes them: ``0-3,7``."""
    spans: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if spans and spans[-1][1] == cpu - 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    return ",".join(f"{low}-{high}" if high > low else f"{low}" for low, high in spans)


def refused_cpus(cpus: Iterable[int]) -> list[int]:
    """Those that a thread of ours can't be pinned to: absent, offline, or outside of our cpuset.

    The process's own affinity does not say it: a CPU that isolcpus= keeps free is outside of it, and may be
    had.
    """
    refused = []
    usual = os.sched_getaffinity(0)
    try:
        for cpu in cpus:
            try:
                os.sched_setaffinity(0, {cpu})
            except OSError:
                refused.append(cpu)
    finally:
        os.sched_setaffinity(0, usual)
    return refused


def own_threads(proc: Path = Path("/proc")) -> frozenset[int]:
    """The threads of this process, by the kernel's numbers."""
    try:
        return frozenset(int(one.name) for one in (proc / "self/task").iterdir())
    except OSError:
        return frozenset({os.getpid()})


@contextmanager
def ahead_of_others() -> Iterator[None]:
    """Let this process's threads run before others inside the block (SCHED_RR), as far as we may.

    Beside two hundred threads that want the CPUs, one that sleeps 10 ms is woken seconds too late, whatever
    its nice value: who watches them would stop too late, and the rings that it empties would run over. It
    needs little, but needs it at once. What is started inside runs as usual.
    """
    before = {tid: _hurried(tid) for tid in own_threads()}
    try:
        yield
    finally:
        for tid, usual in before.items():
            if usual is not None:
                with suppress(OSError):  # it has ended
                    os.sched_setscheduler(tid, usual, os.sched_param(0))


def _hurried(tid: int) -> int | None:
    """How a thread was scheduled, where it is another way now."""
    try:
        usual = os.sched_getscheduler(tid)
        if usual & ~os.SCHED_RESET_ON_FORK not in (os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_IDLE):
            return None
        os.sched_setscheduler(tid, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:
        return None
    return usual


@contextmanager
def threads_off(cpus: Sequence[int]) -> Iterator[None]:
    """Keep this process's threads off `cpus` inside the block, as far as they may run on others.

    Threads that are started inside inherit it from who starts them.
    """
    moved: dict[int, set[int]] = {}
    try:
        for tid in own_threads():
            try:
                before = os.sched_getaffinity(tid)
                if (left := before - set(cpus)) and left != before:
                    os.sched_setaffinity(tid, left)
                    moved[tid] = before
            except OSError:
                continue  # it has ended, or the cpuset shrank under us
        yield
    finally:
        for tid, before in moved.items():
            try:
                os.sched_setaffinity(tid, before)
            except OSError:
                continue


@dataclass(frozen=True)
class OthersBusy:
    """How many CPUs other processes used, between two looks.

        before = OthersBusy.look()
        ...
        cpus = OthersBusy.look().since(before)

    Attributes:
        busy_s: CPU time of everybody, without what the host took (steal).
        own_s: of it this process's, and its ended children's.
        at_s: when.
    """

    busy_s: float
    own_s: float
    at_s: float

    @classmethod
    def look(cls, root: Path = Path("/")) -> OthersBusy | None:
        """Now; None where the kernel does not tell."""
        try:
            words = (root / "proc/stat").read_text().splitlines()[0].split()
            ticks = [int(word) for word in words[1 : 1 + _COLUMNS]]
        except (OSError, IndexError, ValueError):
            return None
        busy = sum(each for column, each in enumerate(ticks) if column not in (_IDLE, _IOWAIT, _STEAL))
        return cls(busy / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4]), time.monotonic())

    def since(self, before: OthersBusy) -> float:
        """CPUs that others used from then to now, at least 0."""
        others = (self.busy_s - before.busy_s) - (self.own_s - before.own_s)
        return max(0.0, others) / max(self.at_s - before.at_s, 1e-3)
