"""Whether the levels of a study's factors do what their names say; what a file reads back doesn't tell that.

Each level is tried before the study on the processor that it measures on, and what was seen is kept beside
the results: a governor that moves no clock and a limit that throttles nobody explain a factor without effect.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from latlab.bench.measuring.conditions import Knobs, closed, hogs
from latlab.errors import LatlabError
from latlab.model.evidence.bench import ConditionSaid
from latlab.model.evidence.said import said
from latlab.system.settings.tuning import PROBES

__all__ = ["FactorFinding", "busy_shares", "loop_ns", "probe", "processor_share"]

PREEMPTS, SHARES = 0.9, 0.75  # of the processor beside one busy process: a class above it, and its own
LOADED = 0.9  # of every core's time
THROTTLED_MS = 20.0  # a limit takes 50 ms at once; nothing else of a sane machine does
MOVED = 1.03  # ratio of a loop's times under two governors

_Judged = tuple[Mapping[str, str], bool | None, str]
_SPIN = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass"
_SHARE = """
import os, sys, time
cpu, priority = map(int, sys.argv[1:3])
os.sched_setaffinity(0, {cpu})
policy = os.SCHED_FIFO if priority else os.SCHED_OTHER
os.sched_setscheduler(0, policy, os.sched_param(priority))
for _ in range(5):
    spent, begin = time.process_time(), time.monotonic()
    while time.monotonic() - begin < 0.03: pass
    print((time.process_time() - spent) / (time.monotonic() - begin))
"""
_LOOP = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
steps, least, end = range(20000), 1e9, time.monotonic() + 0.25
while time.monotonic() < end:
    begin = time.perf_counter_ns()
    for _ in steps: pass
    least = min(least, (time.perf_counter_ns() - begin) / 20000)
print(least)
"""


@dataclass(frozen=True)
class FactorFinding:
    """What the levels of one factor were seen to do.

    Attributes:
        levels: a sentence for each level.
        figures: the figure behind it, by level.
        effective: whether the levels differ as their names say; None where that can't be told.
        why: one sentence.
    """

    levels: Mapping[str, str]
    figures: dict[str, float]
    effective: bool | None
    why: str


def _script(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-S", "-c", code, *map(str, arguments)]


def processor_share(cpu: int, priority: int) -> float:
    """The share of a processor that a process gets beside a busy one of the ordinary class.

    Args:
        cpu: where both are.
        priority: of SCHED_FIFO; 0 for the ordinary class.

    Raises:
        LatlabError: the class was refused.
    """
    with subprocess.Popen(_script(_SPIN, cpu), stdout=subprocess.PIPE) as hog:
        try:
            assert hog.stdout is not None
            hog.stdout.readline()
            done = subprocess.run(
                _script(_SHARE, cpu, priority), capture_output=True, text=True, check=False, timeout=60
            )
        finally:
            hog.kill()
    if done.returncode != 0:
        raise LatlabError(f"SCHED_FIFO was refused ({done.stderr.strip().splitlines()[-1]})")
    return statistics.median(map(float, done.stdout.split()))


def loop_ns(cpu: int) -> float:
    """The least time of a step of a fixed loop on a processor: its clock, up to a factor."""
    done = subprocess.run(_script(_LOOP, cpu), capture_output=True, text=True, check=True, timeout=60)
    return float(done.stdout)


def busy_shares(seconds: float = 0.3) -> dict[int, float]:
    """How busy each core that this process may use was in the next so many seconds, from /proc/stat."""

    def read() -> dict[int, tuple[int, int]]:
        out = {}
        for line in Path("/proc/stat").read_text().splitlines():
            name, *words = line.split()
            if name.startswith("cpu") and name != "cpu":
                ticks = [int(w) for w in words[:8]]
                out[int(name[3:])] = (sum(ticks), ticks[3] + ticks[4])
        return out

    before = read()
    time.sleep(seconds)
    after = read()
    shares = {}
    for core in sorted(os.sched_getaffinity(0)):
        whole, idle = (after[core][i] - before[core][i] for i in (0, 1))
        shares[core] = 1 - idle / max(1, whole)
    return shares


def probe(factor: str, levels: Sequence[str], knobs: Knobs, cpu: int, priority: int) -> FactorFinding:
    """Try every level of a factor.

    Args:
        factor: its name.
        levels: its two levels.
        knobs: the files behind it, whose contents are put back by their owner.
        cpu: where the study measures.
        priority: of SCHED_FIFO that it measures at.
    """
    if factor == "scheduling":
        return _of(levels, lambda level: processor_share(cpu, priority if level == "fifo" else 0), _preempts)
    if factor == "load":
        return _of(levels, _load, _loaded)
    if factor == "input":
        return FactorFinding({}, {}, None, said(ConditionSaid.SEED_GIVEN))

    def with_file(measure: Callable[[int], float]) -> Callable[[str], float]:
        def at(level: str) -> float:
            if (why := knobs.write(factor, level)) is not None:
                raise LatlabError(why)
            return measure(cpu)

        return at

    if factor == "governor":
        return _of(levels, with_file(loop_ns), _moved)
    # One of the two would hide the other: this one is tried with the other out of the way, where it can be.
    other, off = {"rt_limit": ("fair_server", "0"), "fair_server": ("rt_limit", "-1")}[factor]
    with Knobs([other] if closed(other) is None else []) as others:
        others.write(other, off)
        return _of(levels, with_file(_gap_ms), _throttles)


def _of(
    levels: Sequence[str],
    measure: Callable[[str], float],
    judge: Callable[[dict[str, float]], _Judged],
) -> FactorFinding:
    figures: dict[str, float] = {}
    for level in levels:
        try:
            figures[level] = measure(level)
        except LatlabError as error:
            return FactorFinding(
                {}, figures, None, said(ConditionSaid.NOT_TRIED, level=level, why=str(error))
            )
    sentences, effective, why = judge(figures)
    return FactorFinding(sentences, figures, effective, why)


def _gap_ms(cpu: int) -> float:
    gap = PROBES["real-time limit"].measure([cpu])
    if gap is None:
        raise LatlabError("SCHED_FIFO was refused")
    return gap


def _load(level: str) -> float:
    """The busy share of the least busy core beside the hogs, of the busiest one without them."""
    if level == "idle":
        return max(busy_shares().values())
    with hogs() as load:
        time.sleep(0.05)  # the scheduler spreads them
        spent, share = load.spent_s(), min(busy_shares().values())
        idlers = [core for core, s in load.spent_s().items() if s <= spent[core]]
        if idlers or load.running() < len(load.processes):
            raise LatlabError(f"the load generator did not run on cores {idlers}")
        return share


def _preempts(shares: dict[str, float]) -> _Judged:
    sentences = {k: said(ConditionSaid.PROCESSOR, part=v) for k, v in shares.items()}
    works = shares["fifo"] >= PREEMPTS and shares["other"] <= SHARES
    return sentences, works, said(ConditionSaid.PREEMPTS if works else ConditionSaid.NOT_PREEMPTING)


def _loaded(shares: dict[str, float]) -> _Judged:
    sentences: dict[str, str] = {
        "idle": said(ConditionSaid.BUSIEST, part=shares["idle"]),
        "hog": said(ConditionSaid.LEAST_BUSY, part=shares["hog"]),
    }
    if shares["hog"] < LOADED:
        return sentences, False, said(ConditionSaid.CORE_IDLE)
    if shares["idle"] > 0.5:
        return sentences, False, said(ConditionSaid.NOT_IDLE)
    return sentences, True, said(ConditionSaid.LOADED)


def _throttles(gaps: dict[str, float]) -> _Judged:
    limited, free = gaps  # the level that limits stands first
    sentences = {k: said(ConditionSaid.LOST_AT_ONCE, ms=v) for k, v in gaps.items()}
    if gaps[free] > THROTTLED_MS:
        return sentences, False, said(ConditionSaid.THROTTLED_ANYWAY)
    works = gaps[limited] > THROTTLED_MS
    return sentences, works, said(ConditionSaid.THROTTLES if works else ConditionSaid.NOT_THROTTLING)


def _moved(loops: dict[str, float]) -> _Judged:
    sentences = {k: said(ConditionSaid.STEP_TOOK, ns=v) for k, v in loops.items()}
    ratio = loops["powersave"] / loops["performance"]
    works = ratio >= MOVED
    moved = said(ConditionSaid.CLOCK_MOVED, ratio=ratio) if works else said(ConditionSaid.CLOCK_STOOD)
    return sentences, works, moved
