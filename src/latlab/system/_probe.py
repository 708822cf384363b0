"""Functional probes: whether a setting that was written really changed what the machine does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from latlab._core import jitter as native

__all__ = ["PROBES"]


def _real_time_gaps(cpus: Sequence[int]) -> str:
    """Spin under SCHED_FIFO for 1.3 s: the limit, or the fair server, would take 50 ms of it."""
    cpu = cpus[0] if cpus else max(os.sched_getaffinity(0))
    # The fair server acts only when somebody waits: a spinning thread of the ordinary class does.
    code = "import os, sys, time\nos.sched_setaffinity(0, {int(sys.argv[1])})\nend = time.monotonic() + 5\n"
    code += "while time.monotonic() < end: pass"
    waiting = subprocess.Popen([sys.executable, "-c", code, str(cpu)])
    try:
        time.sleep(0.1)
        collector = native.Collector([cpu], 1_300_000_000, 2_000_000, 1000, 0, 10)
        collector.start()
        time.sleep(1.4)
        [core] = collector.join()
    finally:
        waiting.kill()
        waiting.wait()
    if core["affinity_error"] or core["scheduling_error"]:
        return f"not possible ({os.strerror(core['affinity_error'] or core['scheduling_error'])})"
    hz = (core["end"][0] - core["begin"][0]) * 1e9 / max(1, core["end"][1] - core["begin"][1])
    longest = core["max_ticks"] * 1e3 / hz
    if longest > 20:
        return f"a real-time thread still lost {longest:.0f} ms at once: the limit is in force"
    return f"a real-time thread lost at most {longest:.2f} ms at once: the limit is gone"


def _layout(cpus: Sequence[int]) -> str:
    """Two processes: the same addresses, or not."""
    del cpus
    code = "print([line.split('-')[0] for line in open('/proc/self/maps') if '[stack]' in line])"
    seen = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).stdout
        for _ in range(3)
    }
    return (
        "three processes had one layout" if len(seen) == 1 else "three processes still had different layouts"
    )


PROBES: Mapping[str, Callable[[Sequence[int]], str]] = {
    "real-time limit": _real_time_gaps,
    "fair server": _real_time_gaps,
    "address layout (ASLR)": _layout,
}
