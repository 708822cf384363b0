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
from pathlib import Path
from typing import Any

import numpy as np

from latlab._core import jitter as native

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
    lost = f"a real-time thread lost at most {before:.1f} ms at once before, {after:.1f} ms after"
    if after > _AT_ONCE_MS:
        return f"{lost}: a limit (this one, or the fair server) is still in force"
    if before > _AT_ONCE_MS:
        return f"{lost}: the limit is gone"
    return f"{lost}: none was in force before either"


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
    same = "one layout" if after == 1 else "different layouts still"
    return f"three processes had {before:.0f} layouts before, and have {same}"


def _preemptions(cpus: Sequence[int]) -> float | None:
    core = _watched(cpus, _COUNT_S, native.automatic_threshold(2.5e9, 1000), 0)
    if core is None:
        return None
    return float(np.count_nonzero(core["gap_preempted"] == 1))


def _fewer(before: float, after: float) -> str:
    """Whether a count became smaller, in as much time: given the sum, each event is as likely in either."""
    if before == after == 0:
        return "there were none before either"
    change = after - before
    deviations = max(0.0, abs(change) - 1.0) / math.sqrt(before + after)
    if math.erfc(deviations / math.sqrt(2.0)) / 2.0 >= _CHANCE:
        return "no effect was detected"
    return "it helps" if change < 0 else "it does not help: there are more"


def _preemption_verdict(before: float, after: float) -> str:
    rates = f"{before / _COUNT_S:.0f} times a second before, {after / _COUNT_S:.0f} after"
    return f"{_fewer(before, after)}: a measuring thread was preempted {rates}"


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


def _interrupt_verdict(before: float, after: float) -> str:
    rates = f"{before / _COUNT_S:.0f} times a second before, {after / _COUNT_S:.0f} after"
    return f"{_fewer(before, after)}: devices interrupted the measuring CPUs {rates}"


_REAL_TIME = Probe(_longest_real_time_gap_ms, _real_time_verdict)
PROBES: Mapping[str, Probe] = {
    "real-time limit": _REAL_TIME,
    "fair server": _REAL_TIME,
    "address layout (ASLR)": Probe(_layouts, _layout_verdict),
    "shield": Probe(_preemptions, _preemption_verdict),
    "interrupt affinity": Probe(_device_interrupts, _interrupt_verdict),
}

# What `tune --measure` judges groups of settings by.
MEASURES: Mapping[str, Callable[[Sequence[int]], float | None]] = {
    "": _gap_time,
    "limits of real time": _longest_real_time_gap_ms,
}
