"""What each step of the method says, from what was measured: pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from latlab.model.stubs import SpeedupForecast, StudyStep, WorkingPeriod
from latlab.stubs.studies import levels as _levels
from latlab.stubs.studies.levels import Parts
from latlab.stubs.studies.runner import Unit, Units, rows_in_parallel
from latlab.words import duration, share

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
    waits = f", and blocked for {duration(blocked)}" if blocked else ""
    text = (
        f"the component is busy for {duration(busy)} in {calls} calls{waits}, of the system's "
        f"{duration(facts.t_sut)}; "
        f"the system is busy for {duration(user)} as user and {duration(kernel)} in the kernel"
    )
    if facts.system:
        text += (
            f", waits {duration(facts.system['ready_ns'])} for a CPU and is blocked for "
            f"{duration(facts.system['blocked_ns'])}"
        )
    else:
        text += "; its waits are unknown without tracing rights"
    text += (
        "; steady"
        if steady
        else f"; NOT steady: known to {share(facts.scatter)}, trend {share(trend, signed=True)}"
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
        text = "a busy delay in front of it lengthens the run at once, in proportion: it is a bottleneck"
        return StudyStep(2, "suspicion", "bottleneck", text, values)
    if least is not None:
        text = (
            f"delays below {share(least, digits=0)} of its time cost nothing, larger ones do: "
            f"not a bottleneck yet"
        )
        return StudyStep(2, "suspicion", "near", text, {**values, "t_limit": least})
    return StudyStep(
        2, "suspicion", "none", "a busy delay in front of it costs nothing: no bottleneck", values
    )


def _waits(facts: Facts) -> StudyStep | None:
    busy, blocked = totals(facts.units)
    if blocked < WAITS * max(1, busy):
        return None
    if facts.waitless:
        text = "its waits are left out: the system makes it wait with the stub too"
        return StudyStep(3, "waits", "others", text, {"blocked_ns": float(blocked)})
    longest = max(int(unit.times[:, 1].max()) for unit in facts.units.values())
    text = (
        f"it blocks for {duration(blocked)} in all (up to {duration(longest)} a call): its "
        f"waits are kept as idle time"
    )
    values = {"blocked_ns": float(blocked), "longest_ns": float(longest)}
    for one in facts.periods:
        low, high = one.interval
        text += f"; its working period {one.number} ({duration(one.busy_ns)}) "
        if one.component_class == "none":
            text += f"gains nothing measurable (at most {share(max(0.0, high))})"
        else:
            until = "" if one.t_limit is None else f" until it is {share(one.t_limit, digits=0)} faster"
            text += (
                f"pays{until}: without it the system's time falls by {share(one.gain)} "
                f"[{share(low)}, {share(high)}]"
            )
        values[f"period_{one.number}_gain"] = one.gain
    return StudyStep(3, "waits", "by period" if facts.periods else "kept", text, values)


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
    numbers = (
        f"{calls} sequential calls on the busiest CPU save {duration(expected)}, the system "
        f"{duration(reduced)}"
    )
    if reduced > expected + tolerance and reduced <= every + tolerance:
        text = f"{numbers}: the calls of several threads exclude each other (a lock, or too few CPUs)"
        return StudyStep(4, "flat", "serialised", text, values)
    if reduced > expected + tolerance:
        text = f"ANOMALY: {numbers}, more than the component takes: it also disturbs others (caches, locks)"
        return StudyStep(4, "flat", "anomaly", text, values)
    if reduced < expected - tolerance:
        text = f"{numbers}: there are dependencies, others run beside it or wait for something else"
        return StudyStep(4, "flat", "dependent", text, values)
    return StudyStep(4, "flat", "independent", f"{numbers}: no dependencies", values)


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
        text = (
            f"when it leaves the CPU the system saves {duration(saved)}: others were ready, and "
            f"another CPU or an "
            "optimisation helps"
        )
        return StudyStep(5, "idle", "others ready", text, values)
    if -saved > width + 2 * _SMALL * facts.t_sut + calls * _WAKE_UP_NS:
        text = (
            f"ANOMALY: the system takes {duration(-saved)} longer when the component sleeps "
            f"instead of working"
        )
        return StudyStep(5, "idle", "anomaly", text, values)
    return StudyStep(
        5, "idle", "nothing waits", "nothing else waits for its CPU, so another core would not help", values
    )


def _busy(facts: Facts, found: SpeedupForecast) -> StudyStep:
    words = {
        "total": "every part of it pays",
        "limited": f"it pays until it is {share(found.t_limit or 0, digits=0)} faster",
        "none": "none of it pays",
    }
    text = (
        f"{words[found.component_class]}; the unmodified system simulated by the stub at full time: "
        f"{share(found.drift, signed=True)} ({share(found.drift_interval[0], signed=True)} to "
        f"{share(found.drift_interval[1], signed=True)})"
    )
    values = {"drift": found.drift, "rounds": float(found.rounds)}
    return StudyStep(6, "busy", found.component_class, text, values)


def _last(found: SpeedupForecast) -> StudyStep:
    return StudyStep(7, "conclusion", found.component_class, found.sentence, {})
