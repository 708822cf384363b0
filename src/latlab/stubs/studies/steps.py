"""What each step of the method says, from what was measured: pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from latlab.errors import UsageError
from latlab.model.evidence.said import said
from latlab.model.evidence.studies import StepSaid
from latlab.model.stubs import SpeedupForecast, StudyStep, WorkingPeriod
from latlab.stubs.studies import levels as _levels
from latlab.stubs.studies.forecast import NOT_TOLD
from latlab.stubs.studies.levels import Parts
from latlab.stubs.studies.question import StudyPlan
from latlab.stubs.studies.runner import Unit, Units, rows_in_parallel
from latlab.words import duration

# A component that waits for less than this part of its work is one that works.
WAITS = 0.02
# What a thread's sleep and wake-up cost that a busy call doesn't have.
_WAKE_UP_NS = 80_000
# A difference of the system's time that is none, whatever its interval.
_SMALL = 0.01
# Half the width of the unmodified system's 95 % interval, beyond which its time is said to be unsteady.
UNSTEADY = 0.03


@dataclass(frozen=True)
class Facts:
    """What the study measured; times in ns.

    Attributes:
        python: the component's calls exclude each other within a process, by Python's global lock.
        base: the unmodified system, a round each; points, idle: as in the study.
        fastest: the speedup that the stub without time stands for.
        scatter: half the width of the 95 % interval of t_sut, relative to it.
        usage: (wall, user, system) of the unmodified system's runs.
    """

    units: Units
    python: bool
    t_sut: float
    scatter: float
    base: Sequence[float]
    points: Sequence[Mapping[float, Parts]]
    idle: Sequence[tuple[float, float]]
    fastest: float
    system: Mapping[str, float]
    usage: Sequence[tuple[int, int, int]]
    waitless: bool
    periods: Sequence[WorkingPeriod] = ()
    asked: Units | None = None  # with the time that was made shorter as the busy one; None: its work was


def totals(units: Units) -> tuple[int, int]:
    """Busy and blocked time of all calls."""
    return sum(u.busy_ns for u in units.values()), sum(u.blocked_ns for u in units.values())


def require_waits(plan: StudyPlan, units: Units) -> None:
    """Refuse to ask what shorter waits buy of a component that has none.

    Raises:
        UsageError: the plan asks for faster waits, and no call waits.
    """
    busy, blocked = totals(units)
    if plan.faster != "work" and not blocked:
        raise UsageError(
            f"'{plan.component}' does not wait: its calls work for {duration(busy)}",
            remedy='faster = "work"',
        )


def steps(facts: Facts, found: SpeedupForecast, suspicion: StudyStep | None) -> tuple[StudyStep, ...]:
    """Steps 1 to 7."""
    flat = _flat(facts)
    result = [
        _measured(facts),
        suspicion,
        _waits(facts),
        flat,
        _idle(facts),
        _busy(facts, found),
        _last(found),
    ]
    return tuple(step for step in result if step is not None)


def _measured(facts: Facts) -> StudyStep:
    busy, blocked = totals(facts.units)
    calls = sum(len(unit.times) for unit in facts.units.values())
    user = float(np.median([one[1] for one in facts.usage]))
    kernel = float(np.median([one[2] for one in facts.usage]))
    walls = [float(one[0]) for one in facts.usage]
    half = len(walls) // 2
    trend, width = (0.0, 0.0)
    if half >= 2:
        fall, width = (each / facts.t_sut for each in _levels.difference(walls[:half], walls[half:]))
        trend = -fall
    steady = facts.scatter <= UNSTEADY and abs(trend) <= max(0.05, width)
    waits = said(StepSaid.WAITS_UNKNOWN)
    if facts.system:
        ready, asleep = facts.system["ready_ns"], facts.system["blocked_ns"]
        waits = said(StepSaid.SYSTEM_WAITS, ready_ns=ready, blocked_ns=asleep)
    unsteady = said(StepSaid.UNSTEADY, scatter=facts.scatter, trend=trend)
    text = said(
        StepSaid.MEASURED,
        busy_ns=busy,
        calls=calls,
        blocked=said(StepSaid.BLOCKED, blocked_ns=blocked) if blocked else "",
        system_ns=facts.t_sut,
        user_ns=user,
        kernel_ns=kernel,
        waits=waits,
        steady=said(StepSaid.STEADY) if steady else unsteady,
    )
    values = {"t_cus_ns": float(busy), "t_cus_blocked_ns": float(blocked), "t_sut_ns": facts.t_sut,
              "user_ns": user, "system_ns": kernel, "scatter": facts.scatter, "trend": trend}  # fmt: skip
    return StudyStep(1, "measure", "steady" if steady else "unsteady", text, values)


def suspicion(walls: Mapping[float, Sequence[float]], added: float) -> StudyStep:
    """Step 2, from the system's time with delays in front of the component.

    Args:
        walls: times by delay, as a part of the component's busy time.
        added: what the whole of it adds on the busiest CPU, ns.
    """
    zero = _levels.centre(walls[0.0])
    noise = max([_SMALL * zero, *(_levels.difference(walls[0.0], found)[1] for found in walls.values())])
    rises = {part: _levels.centre(found) - zero for part, found in walls.items()}
    expected = {part: part * added for part in walls}
    parts = sorted(part for part in walls if part > 0)
    values = {f"rise_{part:g}_ns": rises[part] for part in parts}
    least = next((part for part in parts if rises[part] > noise), None)
    if least is not None and rises[parts[-1]] > 0.5 * expected[parts[-1]] and least <= parts[1]:
        return StudyStep(2, "suspicion", "bottleneck", said(StepSaid.BOTTLENECK), values)
    if least is not None:
        text = said(StepSaid.NOT_YET, least=least)
        return StudyStep(2, "suspicion", "near", text, {**values, "t_limit": least})
    return StudyStep(2, "suspicion", "none", said(StepSaid.NO_BOTTLENECK), values)


def _waits(facts: Facts) -> StudyStep | None:
    busy, blocked = totals(facts.units)
    if blocked < WAITS * max(1, busy):
        return None
    if facts.waitless:
        text = said(StepSaid.WAITS_LEFT_OUT)
        return StudyStep(3, "waits", "others", text, {"blocked_ns": float(blocked)})
    longest = max(int(unit.times[:, 1].max()) for unit in facts.units.values())
    values = {"blocked_ns": float(blocked), "longest_ns": float(longest)}
    values |= {f"period_{one.number}_gain": one.gain for one in facts.periods}
    periods = "".join(_period(one) for one in facts.periods)
    text = said(StepSaid.WAITS_KEPT, blocked_ns=blocked, longest_ns=longest, periods=periods)
    return StudyStep(3, "waits", "by period" if facts.periods else "kept", text, values)


def _period(one: WorkingPeriod) -> str:
    low, high = one.interval
    which = {"number": one.number, "busy_ns": one.busy_ns}
    if one.component_class == "none":
        return said(StepSaid.PERIOD_NOTHING, most=max(0.0, high), **which)
    until = "" if one.t_limit is None else said(StepSaid.UNTIL, speedup=one.t_limit)
    return said(StepSaid.PERIOD_PAYS, until=until, gain=one.gain, low=low, high=high, **which)


def _flat(facts: Facts) -> StudyStep:
    """Step 4: t_reduced^CUS x iter against t_reduced^SUT."""
    units = facts.asked
    if units is None:
        units = under_one_lock(facts.units) if facts.python else facts.units
    busy, calls = rows_in_parallel(units, os.cpu_count() or 1)
    expected = busy * facts.fastest
    reduced, width = _levels.difference(
        [one[0.0] for one in facts.points], [one[facts.fastest] for one in facts.points]
    )
    tolerance = width + max(_SMALL * facts.t_sut, 0.05 * expected)
    every = facts.fastest * sum(unit.busy_ns + unit.lost_ns for unit in units.values())
    values = {"iter": float(calls), "t_reduced_cus_ns": expected / max(1, calls), "t_reduced_sut_ns": reduced,
              "expected_ns": expected, "uncertainty_ns": width}  # fmt: skip
    kind, verdict = StepSaid.INDEPENDENT, "independent"
    if reduced > expected + tolerance and reduced <= every + tolerance:
        kind, verdict = StepSaid.SERIALISED, "serialised"
    elif reduced > expected + tolerance:
        kind, verdict = StepSaid.FLAT_ANOMALY, "anomaly"
    elif reduced < expected - tolerance:
        kind, verdict = StepSaid.DEPENDENT, "dependent"
    numbers = said(StepSaid.FLAT, calls=calls, expected_ns=expected, reduced_ns=reduced)
    return StudyStep(4, "flat", verdict, said(kind, numbers=numbers), values)


def asked(units: Units, faster: str) -> Units:
    """The calls with what is made faster in the place of their work."""

    def rows(unit: Unit) -> Unit:
        times = unit.times.copy()
        times[:, 0] = times[:, 1] if faster == "wait" else times[:, 0] + times[:, 1]
        return Unit(times, unit.first_ns, unit.last_ns, 0)

    return units if faster == "work" else {key: rows(unit) for key, unit in units.items()}


def under_one_lock(units: Units) -> Units:
    """Threads of one Python process as one: its global lock lets one of them run at a time."""
    processes: dict[str, list[Unit]] = {}
    for (process, _), unit in units.items():
        processes.setdefault(process, []).append(unit)
    return {
        (process, 0): Unit(
            np.concatenate([unit.times for unit in found]),
            min(unit.first_ns for unit in found),
            max(unit.last_ns for unit in found),
            sum(unit.lost_ns for unit in found),
        )
        for process, found in processes.items()
    }


def _idle(facts: Facts) -> StudyStep | None:
    """Step 5: asleep for as long as it would be busy."""
    if len(facts.idle) < 2:
        return None
    saved, width = _levels.difference([busy for _, busy in facts.idle], [idle for idle, _ in facts.idle])
    _, calls = rows_in_parallel(facts.units, os.cpu_count() or 1)
    values = {"saved_ns": saved, "uncertainty_ns": width}
    if saved > width + _SMALL * facts.t_sut:
        text = said(StepSaid.OTHERS_READY, saved_ns=saved)
        return StudyStep(5, "idle", "others ready", text, values)
    if -saved > width + 2 * _SMALL * facts.t_sut + calls * _WAKE_UP_NS:
        return StudyStep(5, "idle", "anomaly", said(StepSaid.IDLE_ANOMALY, longer_ns=-saved), values)
    return StudyStep(5, "idle", "nothing waits", said(StepSaid.NOTHING_WAITS), values)


def _busy(facts: Facts, found: SpeedupForecast) -> StudyStep:
    most = found.curve[-1].interval[1]
    pays = {
        "total": said(StepSaid.ALL_PAYS),
        "limited": said(StepSaid.PAYS_UNTIL, speedup=found.t_limit or 0.0),
        "none": said(StepSaid.NOTHING_TOLD if most > NOT_TOLD else StepSaid.NONE_PAYS),
    }[found.component_class]
    low, high = found.drift_interval
    text = said(StepSaid.BUSY, pays=pays, drift=found.drift, low=low, high=high)
    values = {"drift": found.drift, "rounds": float(found.rounds)}
    return StudyStep(6, "busy", found.component_class, text, values)


def _last(found: SpeedupForecast) -> StudyStep:
    return StudyStep(7, "conclusion", found.component_class, found.sentence, {})
