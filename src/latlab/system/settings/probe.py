"""Functional probes: whether a setting that was written really changed what the machine does.

Each measures before the write and after it; what a file reads back says only that the kernel took the text.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from latlab._core import jitter as native
from latlab.model.evidence.machine import ProbeSaid
from latlab.model.evidence.said import said

__all__ = ["MEASURES", "PROBES", "Probe"]

_AT_ONCE_MS = 20.0  # the limit and the fair server take 50 ms at once; nothing else of a sane machine does
_WATCH_S, _COUNT_S = 0.3, 1.0
_CHANCE = 0.01  # of a difference that is none


@dataclass(frozen=True)
class Probe:
    """One way to see an effect.

    Attributes:
        measure: a figure of the machine as it is now, on the measuring CPUs; None where it can't be had.
        verdict: what the figures before and after the write say.
    """

    measure: Callable[[Sequence[int]], float | None]
    verdict: Callable[[float, float], str]


def _watched(
    cpus: Sequence[int], seconds: float, threshold_ticks: int, priority: int
) -> dict[str, Any] | None:
    """A run of the collector on the first of `cpus` (else on the last that we may use)."""
    cpu = cpus[0] if cpus else max(os.sched_getaffinity(0))
    collector = native.Collector([cpu], int(seconds * 1e9), threshold_ticks, 20_000, 0, priority)
    collector.start()
    time.sleep(seconds + 0.05)
    [core] = collector.join()
    return None if core["affinity_error"] or core["scheduling_error"] else core


def _longest_real_time_gap_ms(cpus: Sequence[int]) -> float | None:
    """Spin under SCHED_FIFO for 1.3 s: the limit, or the fair server, takes 50 ms of each second."""
    cpu = cpus[0] if cpus else max(os.sched_getaffinity(0))
    # The fair server acts only when somebody waits: a spinning thread of the ordinary class does.
    code = "import os, sys, time\nos.sched_setaffinity(0, {int(sys.argv[1])})\nend = time.monotonic() + 5\n"
    code += "print(flush=True)\nwhile time.monotonic() < end: pass"
    with subprocess.Popen([sys.executable, "-c", code, str(cpu)], stdout=subprocess.PIPE) as waiting:
        try:
            assert waiting.stdout is not None
            waiting.stdout.readline()
            core = _watched([cpu], 1.3, 2_000_000, 10)
        finally:
            waiting.kill()
    if core is None:
        return None
    hz = (core["end"][0] - core["begin"][0]) * 1e9 / max(1, core["end"][1] - core["begin"][1])
    return float(core["max_ticks"] * 1e3 / hz)


def _real_time_verdict(before: float, after: float) -> str:
    state = ProbeSaid.NEVER_LIMITED
    if after > _AT_ONCE_MS:
        state = ProbeSaid.STILL_LIMITED
    elif before > _AT_ONCE_MS:
        state = ProbeSaid.LIMIT_GONE
    return said(ProbeSaid.REAL_TIME, before_ms=before, after_ms=after, state=said(state))


def _layouts(cpus: Sequence[int]) -> float | None:
    """How many different stack addresses three processes have."""
    del cpus
    code = "print([line.split('-')[0] for line in open('/proc/self/maps') if '[stack]' in line])"
    seen = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).stdout
        for _ in range(3)
    }
    return float(len(seen))


def _layout_verdict(before: float, after: float) -> str:
    return said(ProbeSaid.ONE_LAYOUT if after == 1 else ProbeSaid.LAYOUTS, before=before)


def _preemptions(cpus: Sequence[int]) -> float | None:
    core = _watched(cpus, _COUNT_S, native.automatic_threshold(2.5e9, 1000), 0)
    if core is None:
        return None
    return float(np.count_nonzero(core["gap_preempted"] == 1))


def _fewer(before: float, after: float) -> str:
    """Whether a count became smaller, in as much time: given the sum, each event is as likely in either."""
    if before == after == 0:
        return said(ProbeSaid.NONE_BEFORE)
    change = after - before
    deviations = max(0.0, abs(change) - 1.0) / math.sqrt(before + after)
    if math.erfc(deviations / math.sqrt(2.0)) / 2.0 >= _CHANCE:
        return said(ProbeSaid.NO_EFFECT)
    return said(ProbeSaid.HELPS if change < 0 else ProbeSaid.MORE)


def _rates(kind: ProbeSaid, before: float, after: float) -> str:
    effect = _fewer(before, after)
    return said(kind, effect=effect, before_hz=before / _COUNT_S, after_hz=after / _COUNT_S)


def _gap_time(cpus: Sequence[int]) -> float | None:
    """Of each second, the ns that gaps took from the measuring cores (none named: the last that is ours)."""
    watched = list(cpus) or [max(os.sched_getaffinity(0))]
    threshold = native.automatic_threshold(2.5e9, 1000)
    collector = native.Collector(watched, int(_WATCH_S * 1e9), threshold, 16, 0, 0)
    collector.start()
    time.sleep(_WATCH_S + 0.02)
    cores = collector.join()
    if any(core["affinity_error"] for core in cores):
        return None
    shares = [core["gap_ticks"] / max(1, core["last_ticks"] - core["first_ticks"]) for core in cores]
    return 1e9 * float(np.mean(shares))


def _device_interrupts(cpus: Sequence[int]) -> float | None:
    """How often devices interrupt the measuring CPUs: the numbered lines of /proc/interrupts."""
    if not cpus:
        return None

    def count() -> int:
        lines = Path("/proc/interrupts").read_text().splitlines()
        columns = [int(word[3:]) for word in lines[0].split()]
        total = 0
        for line in lines[1:]:
            label, _, rest = line.partition(":")
            if label.strip().isdigit():
                each = dict(zip(columns, rest.split(), strict=False))
                total += sum(int(each[cpu]) for cpu in cpus if cpu in each)
        return total

    first = count()
    time.sleep(_COUNT_S)
    return float(count() - first)


_REAL_TIME = Probe(_longest_real_time_gap_ms, _real_time_verdict)
PROBES: Mapping[str, Probe] = {
    "real-time limit": _REAL_TIME,
    "fair server": _REAL_TIME,
    "address layout (ASLR)": Probe(_layouts, _layout_verdict),
    "shield": Probe(_preemptions, partial(_rates, ProbeSaid.PREEMPTED)),
    "interrupt affinity": Probe(_device_interrupts, partial(_rates, ProbeSaid.INTERRUPTED)),
}

# What `tune --measure` judges groups of settings by.
MEASURES: Mapping[str, Callable[[Sequence[int]], float | None]] = {
    "": _gap_time,
    "limits of real time": _longest_real_time_gap_ms,
}
