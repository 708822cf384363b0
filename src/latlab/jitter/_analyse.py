"""From a run's raw outcome to what it means: sources, periods and warnings. Pure, after the measurement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from latlab.jitter._attribution import Attribution, attribute, count_only
from latlab.jitter._beat import find_periods
from latlab.jitter._measure import Measured
from latlab.model.jitter import CoreJitter, JitterResult, Period

__all__ = ["OWN_NAME", "analyse", "name_period"]

OWN_NAME = "latlab-jitter"  # the measuring threads' name
_TICK_RATES = (100, 250, 300, 1000)


def analyse(measured: Measured) -> JitterResult:
    """Sources, periods, warnings."""
    cores = measured.cores
    seconds = max(core.ns(core.wall_ticks) for core in cores) / 1e9
    warnings = list(measured.warnings)
    found: Attribution | None = None
    if measured.events is not None:
        found = attribute(cores, measured.events, OWN_NAME, seconds)
        sources, layers, share = found.sources, dict(found.layers_ns), found.share
        if measured.events.lost:
            warnings.append(f"the trace lost {measured.events.lost} events: sources are incomplete")
    else:
        sources, layers = count_only(cores, measured.interrupts, seconds)
        share = None
        warnings.append(f"gaps are not joined to their sources: {measured.trace_refused}")
    for core in cores:
        if core.outliers > len(core.gap_start_ns) > 0:
            warnings.append(
                f"CPU {core.cpu}: the ring wrapped: the last {len(core.gap_start_ns)} of {core.outliers}"
                " outliers are kept; raise -o or -k"
            )
    if measured.throttled:
        warnings.append(
            f"a CPU quota stopped us {measured.throttled} times: gaps of its period are the container's"
        )
    warnings += _real_time_gaps(cores, measured.fifo)
    periods = [one for core in cores for one in _periods(core, found)]
    periods.sort(key=lambda one: one.p_value)
    return JitterResult(cores, sources, tuple(periods), tuple(warnings), share, layers)


def _real_time_gaps(cores: Sequence[CoreJitter], fifo: bool) -> list[str]:
    """Under SCHED_FIFO the kernel takes 50 ms of each second for others: that is no jitter of the machine."""
    if not fifo:
        return []
    each = np.concatenate([core.gap_each_ns for core in cores])
    count = int(np.count_nonzero((each > 40e6) & (each < 60e6)))
    if not count:
        return []
    return [
        f"{count} gaps of about 50 ms are the real-time limit (sched_rt_runtime_us) or the fair server"
        " that replaced it, which give the core to others; see `latlab system check`"
    ]


def _periods(core: CoreJitter, found: Attribution | None) -> list[Period]:
    out = []
    for one in find_periods(core.gap_start_ns, start_ns=core.start_ns):
        turns = (core.gap_start_ns - core.start_ns - one.phase_ns) / one.period_ns
        on = np.abs(turns - np.round(turns)) < 0.1
        names = (
            []
            if found is None
            else [name for name, beat in zip(found.main[core.cpu], on, strict=True) if beat]
        )
        out.append(replace(one, cpu=core.cpu, cause=name_period(one.period_ns, names)))
    return out


def name_period(period_ns: float, names: Sequence[str] = ()) -> str:
    """A likely cause of a beat, from its length and from what filled the gaps on it."""
    common = Counter(name for name in names if name).most_common(1)
    main = common[0][0] if common else None
    for rate in _TICK_RATES:
        if abs(period_ns * rate / 1e9 - 1.0) < 0.002 and main in (
            None,
            "local_timer",
            "timer",
            "sched",
            "rcu",
        ):
            return f"{period_ns / 1e6:.3f} ms: the scheduler tick, HZ={rate}, or a timer of that rate"
    length = f"{period_ns / 1e6:.3f} ms" if period_ns < 1e9 else f"{period_ns / 1e9:.3f} s"
    if main is not None:
        return f"{length}: {main}"
    if abs(period_ns - 1e9) < 5e6:
        return f"{length}: a once-a-second job (statistics, the real-time limit)"
    return f"{length}: a timer of {1e9 / period_ns:.4g} Hz"
