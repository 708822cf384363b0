"""From a run's raw outcome to what it means: sources, periods and warnings. Pure, after the measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from latlab.jitter._attribution import (
    HYPERVISOR,
    LIMIT_NS,
    OWN,
    Attribution,
    attribute,
    count_only,
    disturbances,
)
from latlab.jitter._beat import find_periods
from latlab.jitter._measure import MeasuredRun
from latlab.model.evidence.jitter import BeatCause, BeatSaid, JitterSaid
from latlab.model.evidence.said import Said, kind_of, said
from latlab.model.machine.jitter import CoreJitter, Exceeded, JitterResult, JitterWarning, Period, WarningKind
from latlab.words import period

__all__ = ["OWN_NAME", "analyse", "name_period"]

OWN_NAME = "latlab-jitter"  # the measuring threads' name
_TICK_RATES = (100, 250, 300, 1000)
_TICK = "local_timer"
_TICK_SOURCES = (_TICK, "timer", "sched", "rcu")
_TICK_NEAR = 0.002  # of a rate
_ON_BEAT = 0.03  # of the period to both sides
_MOSTLY, _SELDOM = 0.8, 0.4  # of the gaps on the beat, and of those beside it


def analyse(measured: MeasuredRun, *, periodic: bool = True) -> JitterResult:
    """Sources, periods, warnings.

    Args:
        periodic: look for periods: it takes more time than all else, and a short run has few.
    """
    cores = measured.cores
    seconds = max(core.ns(core.wall_ticks) for core in cores) / 1e9
    warnings = list(measured.warnings)
    found: Attribution | None = None
    share: float | None = None
    joined: float | None = None
    if measured.events is not None:
        found = attribute(
            cores,
            measured.events,
            OWN_NAME,
            seconds,
            interrupts=measured.interrupts,
            hypervisor=measured.hypervisor,
            real_time=measured.fifo,
            throttled=_throttled(measured),
            own_tids=measured.own_tids,
        )
        sources, layers, share, joined = found.sources, dict(found.layers_ns), found.share, found.joined
        if measured.events.lost:
            text = said(JitterSaid.EVENTS_LOST, events=measured.events.lost)
            warnings.append(JitterWarning(WarningKind.EVENTS_LOST, text))
    else:
        sources, layers = count_only(cores, measured.interrupts, seconds)
        text = said(JitterSaid.NOT_JOINED, why=measured.trace_refused)
        warnings.append(JitterWarning(WarningKind.NOT_JOINED, text))
    for core in cores:
        if core.outliers > len(core.gap_start_ns) > 0:
            kept, outliers = len(core.gap_start_ns), core.outliers
            text = said(JitterSaid.RING_WRAPPED, cpu=core.cpu, kept=kept, outliers=outliers)
            warnings.append(JitterWarning(WarningKind.RING_WRAPPED, text))
    quota = measured.throttled
    if quota is not None and quota.count:
        ms = quota.time_ns / 1e6
        text = said(JitterSaid.QUOTA, quota=quota.quota, times=quota.count, ms=ms)
        warnings.append(JitterWarning(WarningKind.QUOTA, text))
    warnings += _real_time_gaps(cores, measured.fifo)
    periods = [one for core in cores for one in _periods(core, found, measured.tick_hz)] if periodic else []
    periods.sort(key=lambda one: one.p_value)
    return JitterResult(
        cores,
        sources,
        tuple(periods),
        tuple(warnings),
        share,
        layers,
        joined=joined,
        own_ns=0.0 if found is None else found.own_ns,
        exceeded=_exceeded(measured),
        whole=measured.whole and not (measured.events is not None and measured.events.lost),
        others_busy=measured.others_busy,
    )


def _throttled(measured: MeasuredRun) -> bool:
    return measured.throttled is not None and measured.throttled.count > 0


def _exceeded(measured: MeasuredRun) -> Exceeded | None:
    """The last gap of the core that ended the run, and what ran in it."""
    core = next((one for one in measured.cores if one.cpu == measured.stopped_cpu), None)
    if core is None or not len(core.gap_start_ns):
        return None
    start, length = float(core.gap_start_ns[-1]), float(core.gap_each_ns[-1])
    ran: list[tuple[str, str, float, float]] = []
    if measured.events is not None:
        end = int(start + length) + 1
        for one in disturbances(
            measured.events,
            core.cpu,
            OWN_NAME,
            end,
            throttled=_throttled(measured),
            own_tids=measured.own_tids,
        ):
            if one.end_ns > start and one.start_ns < end:
                kind = "latlab" if one.kind == OWN else one.kind
                within = min(one.end_ns, end) - max(one.start_ns, start)
                ran.append((kind, one.name, float(one.start_ns - start), float(within)))
    known = None if measured.events is None else tuple(ran)
    return Exceeded(core.cpu, start - core.start_ns, length, known, measured.trace_stopped)


def _real_time_gaps(cores: Sequence[CoreJitter], fifo: bool) -> list[JitterWarning]:
    """Under SCHED_FIFO the kernel takes 50 ms of each second for others: not the machine's jitter."""
    if not fifo:
        return []
    each = np.concatenate([core.gap_each_ns for core in cores])
    count = int(np.count_nonzero((each > LIMIT_NS[0]) & (each < LIMIT_NS[1])))
    if not count:
        return []
    return [JitterWarning(WarningKind.REAL_TIME_LIMIT, said(JitterSaid.REAL_TIME_LIMIT, gaps=count))]


def _periods(core: CoreJitter, found: Attribution | None, tick_hz: int | None) -> list[Period]:
    if found is None:
        each = find_periods(core.gap_start_ns, lengths_ns=core.gap_each_ns, start_ns=core.start_ns)
        return [_named(core, one, one.cause, tick_hz) for one in each]
    # A beat that latlab's own threads made says nothing about this machine.
    theirs = ~found.ours[core.cpu]
    place = np.cumsum(theirs) - 1
    filled = {
        name: (place[which[theirs[which]]], part[theirs[which]])
        for name, (which, part) in found.filled[core.cpu].items()
    }
    times = core.gap_start_ns[theirs]
    each = find_periods(
        times,
        lengths_ns=core.gap_each_ns[theirs],
        sources=found.came[core.cpu],
        filled=filled,
        start_ns=core.start_ns,
    )
    ticks = filled.get(_TICK, (np.zeros(0, dtype=np.int64),))[0]
    return [
        _named(
            core,
            one,
            _TICK
            if isinstance(kind_of(one.cause), BeatCause)
            and (_ticks_alone(one, tick_hz) or _tick_begins(times - core.start_ns, ticks, one, tick_hz))
            else one.cause,
            tick_hz,
        )
        for one in each
    ]


def _named(core: CoreJitter, one: Period, cause: str, tick_hz: int | None) -> Period:
    return replace(one, cpu=core.cpu, cause=name_period(one.period_ns, cause, tick_hz=tick_hz))


def _ticks_alone(beat: Period, tick_hz: int | None) -> bool:
    """Whether only what the tick itself raises keeps a beat of its rate."""
    if tick_hz is None or abs(1e9 / beat.period_ns / tick_hz - 1.0) > _TICK_NEAR:
        return False
    cause = beat.cause
    if not (isinstance(cause, Said) and cause.kind is BeatCause.UNDECIDED):
        return False
    candidates = cause.values["candidates"]
    return all(name in _TICK_SOURCES for name in candidates)


def _tick_begins(
    times_ns: np.ndarray[Any, Any], ticks: np.ndarray[Any, Any], beat: Period, tick_hz: int | None
) -> bool:
    """Whether the kernel's own tick is in the gaps on a beat of its rate, and seldom in others.

    What fills those gaps may be anything that the tick lets run, so that no single source's removal takes the
    beat away.

    Args:
        times_ns: of all gaps, after the start.
        ticks: the gaps that the timer's interrupt had a part in.
    """
    if tick_hz is None or abs(1e9 / beat.period_ns / tick_hz - 1.0) > _TICK_NEAR:
        return False
    turns = (times_ns - beat.phase_ns) / beat.period_ns
    on = np.abs(turns - np.round(turns)) <= _ON_BEAT
    held = np.zeros(len(times_ns), dtype=bool)
    held[ticks] = True
    beside = float(held[~on].mean()) if (~on).any() else 0.0
    return bool(on.any()) and float(held[on].mean()) >= _MOSTLY and beside <= _SELDOM


def name_period(period_ns: float, source: str = "", *, tick_hz: int | None = None) -> str:
    """A likely cause of a beat.

    Args:
        period_ns: its length.
        source: what filled the gaps on it; "" where that is not known.
        tick_hz: the rate of this kernel's tick; None where it is not known.
    """
    length = period(period_ns)
    rate = 1e9 / period_ns
    if isinstance(kind_of(source), BeatCause):
        return said(BeatSaid.SOURCE, length=length, source=source)
    near = next((hz for hz in _TICK_RATES if abs(rate / hz - 1.0) < _TICK_NEAR), None)
    if source in ("", *_TICK_SOURCES) and near is not None and tick_hz in (None, near):
        return said(BeatSaid.TICK, length=length, hz=near)
    if near is not None and near == tick_hz and source != HYPERVISOR[2]:
        # The tick is when the kernel switches threads.
        return said(BeatSaid.TICK_BRINGS, length=length, hz=near, source=source)
    if source == HYPERVISOR[2]:
        kind = BeatSaid.HYPERVISOR_TICK if near else BeatSaid.HYPERVISOR
        return said(kind, length=length, hz=rate)
    if source:
        return said(BeatSaid.SOURCE, length=length, source=source)
    if abs(period_ns - 1e9) < 5e6:
        return said(BeatSaid.EACH_SECOND, length=length)
    return said(BeatSaid.TIMER, length=length, hz=rate)
