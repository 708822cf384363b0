"""The settings of a machine that disturb measurements: one class each, with available, show and write.

Every setting works below a file-system root, so that tests run it on trees of machines that are not at hand.
Writing goes through the kernel's own files; nothing here knows a vendor's tool.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from latlab.errors import UnavailableError, UsageError
from latlab.system.tracing import parse_cpu_list

__all__ = ["PROFILES", "Finding", "Setting", "check", "settings"]


@dataclass(frozen=True)
class Finding:
    """What one setting is, and what that means for a measurement.

    Attributes:
        value: as the kernel writes it; None where it is unavailable.
        unavailable: why it can't be known.
        good: whether it leaves measurements alone; None where it is unavailable.
        cost: what it does to them.
        command: the exact command that mends it, "" where none is needed.
    """

    name: str
    value: str | None
    unavailable: str | None
    good: bool | None
    cost: str
    command: str

    def to_json(self) -> dict[str, object]:
        """The finding's entry of ``latlab system check --json``."""
        return {key: getattr(self, key) for key in self.__dataclass_fields__}


class Setting(Protocol):
    """One setting."""

    @property
    def name(self) -> str:
        """What it is called in `check` and in the profiles."""

    def available(self) -> str | None:
        """Why it isn't there; None where it is."""

    def show(self) -> Finding:
        """What it is."""

    def files(self) -> dict[Path, str]:
        """The files that `write` would change, with their present content."""

    def write(self) -> None:
        """Set it as measurements need it."""


@dataclass(frozen=True)
class FileSetting:
    """A setting in one file of the kernel, or in one a CPU.

    Attributes:
        patterns: globs below the root; the first that finds files is used.
        wanted: what to write; None for a setting that no file can mend.
        accept: whether a value is good.
        mend: the command for what `wanted` can't do; by default the `echo` that writes it.
        missing: what its absence means.
    """

    root: Path
    name: str
    patterns: tuple[str, ...]
    wanted: str | None
    cost: str
    accept: Callable[[str], bool]
    mend: str = ""
    missing: str = "this kernel has no such setting"

    def _paths(self) -> list[Path]:
        for pattern in self.patterns:
            found = sorted(self.root.glob(pattern))
            if found:
                return found
        return []

    def available(self) -> str | None:
        """Why it isn't there; None where it is."""
        paths = self._paths()
        if not paths:
            return self.missing
        try:
            _read(paths[0])
        except OSError as error:
            return f"{paths[0]} can't be read ({error.strerror})"
        return None

    def files(self) -> dict[Path, str]:
        """Each file and its content."""
        return {path: _chosen(_read(path)) for path in self._paths()}

    def show(self) -> Finding:
        """Its values, each once."""
        why = self.available()
        if why is not None:
            return Finding(self.name, None, why, None, self.cost, "")
        values = list(dict.fromkeys(self.files().values()))
        good = all(self.accept(value) for value in values)
        return Finding(self.name, ", ".join(values), None, good, self.cost, "" if good else self._command())

    def _command(self) -> str:
        if self.mend or self.wanted is None:
            return self.mend
        absolute = "/" + next(p for p in self.patterns if any(self.root.glob(p)))
        return f"echo {self.wanted} | sudo tee {absolute}"

    def write(self) -> None:
        """Write the wanted value into every file.

        Raises:
            UnavailableError: it is not there, can't be written, or reads back as something else.
        """
        if self.wanted is None:
            raise UnavailableError(f"{self.name} can't be changed while running", remedy=self.mend or None)
        why = self.available()
        if why is not None:
            raise UnavailableError(f"{self.name}: {why}")
        for path in self._paths():
            put(path, self.wanted)
            after = _chosen(_read(path))
            if not self.accept(after):
                raise UnavailableError(f"{path} still reads {after} after writing {self.wanted}")


@dataclass(frozen=True)
class FactSetting:
    """Something that no file of the kernel sets: it is read, judged and explained.

    Attributes:
        read: gives the value, and whether it is good; raises `UnavailableError` with the reason where it
            can't.
    """

    name: str
    cost: str
    mend: str
    read: Callable[[], tuple[str, bool]]

    def available(self) -> str | None:
        """Why it can't be known; None where it can."""
        try:
            self.read()
        except UnavailableError as error:
            return str(error)
        return None

    def files(self) -> dict[Path, str]:
        """None: nothing is written."""
        return {}

    def show(self) -> Finding:
        """The judged value."""
        try:
            value, good = self.read()
        except UnavailableError as error:
            return Finding(self.name, None, str(error), None, self.cost, "")
        return Finding(self.name, value, None, good, self.cost, "" if good else self.mend)

    def write(self) -> None:
        """Refuse.

        Raises:
            UnavailableError: always.
        """
        raise UnavailableError(f"{self.name} can't be changed while running", remedy=self.mend)


@dataclass(frozen=True)
class InterruptAffinity:
    """Which CPUs serve device interrupts: none of those that measure.

    Attributes:
        cpus: the measuring CPUs; empty to only look.
    """

    root: Path
    cpus: tuple[int, ...] = ()
    name: str = field(default="interrupt affinity", init=False)
    _cost = "device interrupts on a measuring core take 1 to 50 µs each"

    def available(self) -> str | None:
        """Why it isn't there; None where it is."""
        return None if any(self.root.glob("proc/irq/*/smp_affinity_list")) else "no /proc/irq here"

    def files(self) -> dict[Path, str]:
        """The affinity of every interrupt that may run on a measuring CPU."""
        found = {}
        for path in sorted(self.root.glob("proc/irq/*/smp_affinity_list")):
            try:
                text = _read(path)
                if set(parse_cpu_list(text)) & set(self.cpus):
                    found[path] = text
            except (OSError, UsageError):
                continue  # an interrupt that has just gone
        return found

    def show(self) -> Finding:
        """How many interrupts may come to the measuring CPUs."""
        why = self.available()
        if why is not None:
            return Finding(self.name, None, why, None, self._cost, "")
        count, whole = len(self.files()), len(list(self.root.glob("proc/irq/*/smp_affinity_list")))
        chosen = ",".join(map(str, self.cpus)) or "none chosen"
        command = "" if not count else f"sudo latlab system tune --apply --for jitter --cpus {chosen}"
        return Finding(
            self.name, f"{count} of {whole} may come to CPUs {chosen}", None, count == 0, self._cost, command
        )

    def write(self) -> None:
        """Send them to the other CPUs; an interrupt that can't be moved (per CPU, managed) stays.

        Raises:
            UnavailableError: all CPUs measure, or no interrupt could be moved.
        """
        online = set(parse_cpu_list(_read(self.root / "sys/devices/system/cpu/online")))
        others = sorted(online - set(self.cpus))
        if not others:
            raise UnavailableError(
                "every CPU measures: none is left for interrupts", remedy="name fewer with --cpus"
            )
        moved, refused = 0, 0
        for path in self.files():
            try:
                put(path, ",".join(map(str, others)))
                moved += 1
            except UnavailableError:
                refused += 1
        if refused and not moved:
            raise UnavailableError(f"none of {refused} interrupts could be moved", remedy="run as root")


def _read(path: Path) -> str:
    return path.read_text().strip()


def _chosen(text: str) -> str:
    """``always [madvise] never`` is madvise."""
    start, end = text.find("["), text.find("]")
    return text[start + 1 : end] if 0 <= start < end else text


def put(path: Path, text: str) -> None:
    """Write a kernel file in one call.

    Raises:
        UnavailableError: the kernel refused.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UnavailableError(f"{path} can't be written ({error.strerror})", remedy="run as root") from None


def _swap(root: Path) -> tuple[str, bool]:
    lines = _lines(root / "proc/swaps")[1:]
    return (f"{len(lines)} areas", False) if lines else ("none", True)


def _load(root: Path) -> tuple[str, bool]:
    words = _lines(root / "proc/loadavg")[0].split()
    running = int(words[3].split("/")[0])
    try:
        cpus = len(parse_cpu_list(_read(root / "sys/devices/system/cpu/online")))
    except OSError:
        cpus = 1
    return f"{words[0]} over 1 min, {running} running now, {cpus} CPUs", float(words[0]) < 0.25 * cpus


def _steal(root: Path) -> tuple[str, bool]:
    numbers = [int(word) for word in _lines(root / "proc/stat")[0].split()[1:9]]
    if len(numbers) < 8:
        raise UnavailableError("this kernel does not count stolen time")
    share = numbers[7] / max(1, sum(numbers))
    return f"{100 * share:.3f} % since boot", share < 1e-4


def _mitigations(root: Path) -> tuple[str, bool]:
    active = []
    for path in sorted((root / "sys/devices/system/cpu/vulnerabilities").glob("*")):
        if _read(path).startswith("Mitigation"):
            active.append(path.name)
    if not (root / "sys/devices/system/cpu/vulnerabilities").is_dir():
        raise UnavailableError("this kernel does not list its mitigations")
    return (", ".join(active) or "none active"), not active


def _isolation(root: Path) -> tuple[str, bool]:
    found = []
    if not any((root / f"sys/devices/system/cpu/{name}").exists() for name in ("isolated", "nohz_full")):
        raise UnavailableError("this kernel does not show what is isolated")
    for name in ("isolated", "nohz_full"):
        try:
            text = _read(root / f"sys/devices/system/cpu/{name}")
        except OSError:
            text = ""
        found.append(f"{name}: {text if text not in ('', '(null)') else 'none'}")
    return ", ".join(found), all(not one.endswith("none") for one in found)


def _siblings(root: Path) -> tuple[str, bool]:
    lists = {
        _read(p) for p in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
    }
    if not lists:
        raise UnavailableError("this kernel shows no topology")
    shared = sorted(text for text in lists if len(parse_cpu_list(text)) > 1)
    return (f"cores shared by {'; '.join(shared)}" if shared else "no core is shared"), not shared


def _timer_slack(root: Path) -> tuple[str, bool]:
    text = _lines(root / "proc/self/timerslack_ns")[0]
    return f"{text} ns", int(text) <= 1000


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise UnavailableError(f"{path} can't be read ({error.strerror})") from None
    if not lines:
        raise UnavailableError(f"{path} is empty")
    return lines


def _boot(parameter: str) -> str:
    return f"add {parameter} to the kernel's command line and boot again"


def settings(root: Path = Path("/"), cpus: Sequence[int] = ()) -> list[Setting]:
    """Every setting that is known, for a machine below `root`; `cpus` are those that measure."""

    def file(
        name: str,
        patterns: Sequence[str],
        wanted: str | None,
        cost: str,
        good: Sequence[str],
        mend: str = "",
        missing: str = "this kernel has no such setting",
    ) -> FileSetting:
        return FileSetting(
            root, name, tuple(patterns), wanted, cost, lambda value: value in good, mend, missing
        )

    cpu, virtual = "sys/devices/system/cpu", "no cpufreq (usual in a virtual machine): the host decides"
    found: list[Setting] = [
        file(
            "governor",
            [f"{cpu}/cpu[0-9]*/cpufreq/scaling_governor"],
            "performance",
            "the first ms after idle run slowly: up to 2 times",
            ["performance"],
            missing=virtual,
        ),
        file(
            "turbo (Intel)",
            [f"{cpu}/intel_pstate/no_turbo"],
            "1",
            "the frequency follows temperature and neighbours: some % a run",
            ["1"],
            missing="no intel_pstate",
        ),
        file(
            "turbo",
            [f"{cpu}/cpufreq/boost"],
            "0",
            "the frequency follows temperature and neighbours: some % from run to run",
            ["0"],
            missing=virtual,
        ),
        FactSetting(
            "SMT siblings",
            "a busy sibling takes up to half of a core's units",
            "echo off | sudo tee /sys/devices/system/cpu/smt/control",
            _of(_siblings, root),
        ),
        FactSetting(
            "isolation and nohz",
            "other threads, and 100 to 1000 ticks a second, come to a core that isn't",
            _boot("isolcpus=<cpus> nohz_full=<cpus> rcu_nocbs=<cpus>"),
            _of(_isolation, root),
        ),
        InterruptAffinity(root, tuple(cpus)),
        file(
            "real-time limit",
            ["proc/sys/kernel/sched_rt_runtime_us"],
            "-1",
            "a real-time thread that spins loses 50 ms of each second",
            ["-1"],
        ),
        file(
            "fair server",
            ["sys/kernel/debug/sched/fair_server/cpu[0-9]*/runtime"],
            "0",
            "since Linux 6.12 it gives others 50 ms of each second, in place of the real-time limit",
            ["0"],
            missing="no fair server here (Linux before 6.12, or debugfs is not mounted)",
        ),
        file(
            "transparent huge pages",
            ["sys/kernel/mm/transparent_hugepage/enabled"],
            "madvise",
            "khugepaged and faults of 2 MiB: stalls up to ms",
            ["madvise", "never"],
        ),
        FactSetting("swap", "a page that was swapped out takes ms", "sudo swapoff -a", _of(_swap, root)),
        file(
            "clock source",
            ["sys/devices/system/clocksource/clocksource0/current_clocksource"],
            "tsc",
            "a clock that is no TSC costs a system call or more: 0.2 to 2 µs a reading",
            ["tsc", "kvm-clock", "arch_sys_counter"],
        ),
        file(
            "address layout (ASLR)",
            ["proc/sys/kernel/randomize_va_space"],
            "0",
            "caches and branch predictors meet another layout each run: some % between runs",
            ["0"],
        ),
        FactSetting(
            "mitigations",
            "each system call and interrupt costs 0.1 to 1 µs more",
            _boot("mitigations=off"),
            _of(_mitigations, root),
        ),
        FactSetting(
            "timer slack",
            "each sleep ends up to so much later",
            "use latlab.system.context.measuring(timer_slack_ns=1)",
            _of(_timer_slack, root),
        ),
        file(
            "NMI watchdog",
            ["proc/sys/kernel/nmi_watchdog"],
            "0",
            "a non-maskable interrupt now and then, and one hardware counter less",
            ["0"],
        ),
        file(
            "automatic NUMA balancing",
            ["proc/sys/kernel/numa_balancing"],
            "0",
            "page faults of its own making",
            ["0"],
        ),
        file(
            "timer migration",
            ["proc/sys/kernel/timer_migration"],
            "0",
            "others' timers come to this core",
            ["0"],
        ),
        FactSetting(
            "load by other processes",
            "they preempt, and they empty the shared caches",
            "stop them, or shield cores: latlab system tune --apply --for jitter --cpus <cpus>",
            _of(_load, root),
        ),
        FactSetting(
            "steal time",
            "the host ran something else on our CPU",
            "ask for a dedicated host, or pin the virtual CPUs",
            _of(_steal, root),
        ),
    ]
    return found


def _of(read: Callable[[Path], tuple[str, bool]], root: Path) -> Callable[[], tuple[str, bool]]:
    return lambda: read(root)


# What `tune` writes for whom. Benchmarks want the same every time, jitter wants nobody else, messaging wants
# fast wake-ups.
PROFILES: dict[str, tuple[str, ...]] = {
    "bench": (
        "governor",
        "turbo (Intel)",
        "turbo",
        "address layout (ASLR)",
        "NMI watchdog",
        "automatic NUMA balancing",
        "transparent huge pages",
    ),
    "jitter": (
        "governor",
        "turbo (Intel)",
        "turbo",
        "real-time limit",
        "fair server",
        "interrupt affinity",
        "NMI watchdog",
        "automatic NUMA balancing",
        "transparent huge pages",
        "timer migration",
    ),
    "messaging": (
        "governor",
        "turbo (Intel)",
        "turbo",
        "NMI watchdog",
        "automatic NUMA balancing",
        "transparent huge pages",
        "timer migration",
    ),
}


def check(root: Path = Path("/"), cpus: Sequence[int] = ()) -> list[Finding]:
    """What every setting is."""
    return [setting.show() for setting in settings(root, cpus)]
