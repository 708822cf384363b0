"""The method, automated: what a component's optimisation would buy, measured before anyone writes it.

Over 400 lines: its steps are one sequence, in which each run is chosen by what those before have shown.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab import words
from latlab.errors import InputError, LatlabError, UnavailableError, UsageError
from latlab.model.evidence.said import said
from latlab.model.evidence.studies import Speedup, StudyWarning, ValidationSaid
from latlab.model.stubs import StudyPoint, StudyResult, StudyStep, WorkingPeriod
from latlab.stubs.components import plan as _plan
from latlab.stubs.studies import forecast as _forecast
from latlab.stubs.studies import levels as _levels
from latlab.stubs.studies import periods as _periods
from latlab.stubs.studies import runner as _lab
from latlab.stubs.studies import states as _states
from latlab.stubs.studies import steps as _steps
from latlab.stubs.studies import takes_over as _next
from latlab.stubs.studies.question import LEAST_ROUNDS, StudyPlan, least_seconds, load_plan, plan_of
from latlab.stubs.studies.sameness import outside as _outside
from latlab.system.scratch import scratch
from latlab.words import duration

__all__ = ["StudyPlan", "load_plan", "plan_of", "study"]

# Runs that measure the component before it is replaced.
_MEASURED = 5
# Parts of the time: measuring the component, and (at the end) finding what takes over.
_BEFORE, _AFTER = 0.25, 0.1
_SET_RIGHT = 0.35  # when a slow system has measured its stub often enough
# Two simulations of the unmodified system that differ by less than this part of its time are as good.
_ALIKE = 0.02
# Of the time, at most, for telling whose waits a component has.
_CHOOSING = 0.1
# Of a component that waits, and whose working periods are studied one by one.
_PERIODS = 0.25
# Rounds that the time should carry; where it carries fewer of all steps, steps of 20 % have to do at first.
_WANTED_ROUNDS = 10
_COARSE = (0.2, 0.4, 0.6, 0.8)
_MOVED = 0.06  # of a knee: its refinement goes with it
_BASE = -1.0  # the unmodified system among a round's segments
_ALL_STEPS = 14  # runs of a round of all of them
# A study that takes so many times the time that it has, and so many seconds more, is not begun.
_FAR_TOO_LONG, _LATE_S = 2.0, 5.0
_LATE = 0.2  # a part of its time that a study may last longer, to answer what else was asked


Segments = npt.NDArray[np.int64]


@dataclass
class _Rounds:
    """What the rounds measured, in ns of wall time; one element a round."""

    points: list[dict[float, float]] = field(default_factory=list)
    base: list[float] = field(default_factory=list)
    original: list[float] = field(default_factory=list)
    idle: list[tuple[float, float]] = field(default_factory=list)  # idle stub, busy stub at full time
    function_ns: list[float] = field(default_factory=list)
    # The same runs in segments, where the system has one thread: of each point, and of the base.
    segments: list[dict[float, Segments]] = field(default_factory=list)


def study(
    plan: StudyPlan,
    command: Sequence[str],
    *,
    output: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> StudyResult:
    """Forecast what a faster component buys.

    Args:
        plan: what STUDY.toml says; see `load_plan`.
        command: the system under study; it must end by itself, and do the same in each run.
        output: folder for the recording of the whole study.
        progress: told what is being done.

    Raises:
        LatlabError: the command fails, or the component can't be recorded and replayed.
        UsageError: there is no such command, the component is never called, or the time is far too short.
    """
    _lab.check_command(list(command))
    if output is not None:
        require_place(output)
    begin = time.monotonic()
    with scratch("study") as folder:
        lab = _lab.Lab(list(command), plan, folder)
        first = lab.run("original").wall_ns / 1e9
        if _far_too_long(plan, first):  # a first run is a cold one, and may have been held up: no reason yet
            first = min(first, lab.run("original").wall_ns / 1e9)
        progress(f"measuring the component; {_takes(plan, first)}")
        units = _measure(lab, begin + _BEFORE * plan.seconds)
        system = _system(command)
        if plan.kind != "command":
            single = system.get("threads") == 1
            if not single:
                _set_right(lab, units, begin + _SET_RIGHT * plan.seconds)
            lab.flags = (*lab.flags, "marks" if single else "opening")
        changes = _require_same(lab)
        suspicion = _suspicion(lab, units) if plan.suspicion else None
        _choose_waits(lab, units)
        periods = _periods_of(lab, units)
        calls = sum(len(unit.times) for unit in units.values())
        progress(f"{calls} calls; repeating the stubs, interleaved")
        end = begin + (1 - _AFTER) * plan.seconds
        rounds = _repeat(lab, units, end - (_PERIODS * plan.seconds if periods else 0), progress)
        by_period: tuple[WorkingPeriod, ...] = ()
        run_s = float(np.median([run.wall_ns for run in lab.runs])) / 1e9
        lacking = (_periods.least_seconds(periods, run_s) if periods else 0.0) - (
            end + _LATE * plan.seconds - time.monotonic()
        )
        if periods and lacking <= 0:
            progress("its working periods, one at a time")
            original = [float(run.wall_ns) for run in lab.runs if run.variant == "original"]
            by_period = _periods.study(lab, periods, end, _levels.centre(original))
        validated, verdict = _validated(plan, command, progress)
        result = _conclude(lab, units, rounds, system, suspicion, by_period)
        warnings = list(result.warnings)
        if not validated:
            warnings.append(said(StudyWarning.NOT_VALIDATED, verdict=verdict))
        if changes:
            warnings.append(changes)
        if periods and not by_period:
            wanted = math.ceil(plan.seconds + lacking)
            warnings.append(said(StudyWarning.NO_PERIODS, wanted=wanted))
        if lab.failed:
            failed, runs = len(lab.failed), len(lab.runs) + len(lab.failed)
            warnings.append(said(StudyWarning.FAILED_RUNS, failed=failed, runs=runs, first=lab.failed[0]))
        result = replace(
            result,
            validated=validated,
            warnings=tuple(warnings),
            seconds=time.monotonic() - begin,
            runs=tuple(lab.runs),
        )
        if output is not None:
            _save(lab, result, output, command)
    return result


def _far_too_long(plan: StudyPlan, run_s: float) -> bool:
    return least_seconds(run_s) > _FAR_TOO_LONG * plan.seconds + _LATE_S


def _takes(plan: StudyPlan, run_s: float) -> str:
    """How long the study takes, by its first run.

    Raises:
        UsageError: it can't be done in anything like the time that it has.
    """
    least = least_seconds(run_s)
    run = duration(run_s * 1e9)
    if _far_too_long(plan, run_s):
        raise UsageError(
            f"a run of the command takes {run}, so a study takes {duration(least * 1e9)} at least, and "
            f"{duration(plan.seconds * 1e9)} were given",
            remedy=f"--seconds {math.ceil(least)}, or a smaller input",
        )
    if least > plan.seconds:
        return f"a run takes {run}: the study takes about {duration(least * 1e9)}, more than was given"
    return f"a run takes {run}: the study takes {duration(plan.seconds * 1e9)}"


def require_place(path: str | Path, *, file: bool = False) -> None:
    """Refuse a place for a result before anything is measured; folders are made, but not for a `file`.

    Raises:
        InputError: nothing can be written there.
    """
    place = Path(path)
    if file and not place.parent.is_dir():
        raise InputError(path, "can't be written (there is no such folder)")
    folder = next(one for one in (place, *place.absolute().parents) if one.exists())
    if folder == place and place.is_file():
        folder = place.parent
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".latlab-"):
            pass
    except OSError as error:
        raise InputError(path, f"can't be written ({error.strerror})") from error


def _require_same(lab: _lab.Lab) -> str:
    """Refuse a stub with which the command says something else; what it lets go that the command doesn't say.

    Raises:
        LatlabError: it changes more than the component's time.
    """
    if lab.plan.kind == "command":
        return ""
    other = _outside.output_differs(lab)
    if other is not None:
        raise LatlabError(
            f"the stub of {lab.plan.component} changes more than its time: {other}",
            remedy=_outside.STATE[lab.plan.kind],
        )
    changes = _outside.changes_of(lab)
    return _outside.told(changes) if changes.lost else ""


def _measure(lab: _lab.Lab, until: float) -> _lab.Units:
    """Record the component's results, and measure its calls as often as time allows; it has run once."""
    lab.gauge()
    measured = [lab.measure()]
    if not measured[0]:
        hint = _outside.NEVER_CALLED[lab.plan.kind]
        raise UsageError(f"'{lab.plan.component}' is never called by the command", remedy=hint)
    longest = 0.0
    while len(measured) < _MEASURED or (len(measured) < 2 * _MEASURED and time.monotonic() + longest < until):
        start = time.monotonic()
        lab.run("original")
        lab.gauge()
        found = lab.measure()
        if not found:
            raise LatlabError(f"'{lab.plan.component}' is called in some runs and not in others")
        measured.append(found)
        longest = max(longest, time.monotonic() - start)
        if time.monotonic() > until and len(measured) >= 3:
            break
    units, same, works = _lab.combined(measured, lab.gauge_ns)
    if works:
        lab.flags = (*lab.flags, _work(lab))
    if not same and not lab.plan.keyed and lab.plan.kind != "command":
        totals = [sum(len(unit.times) for unit in one.values()) for one in measured]
        if len(set(totals)) > 1:
            raise LatlabError(
                f"'{lab.plan.component}' is called {min(totals)} times in one run and {max(totals)} times in "
                "another",
                remedy="the system has to do the same in each run: fix its seeds and its input",
            )
        # As many calls in all, but not in each thread: they take them from one queue.
        lab.flags = (*lab.flags, "shared")
    if lab.plan.kind == "python":
        _outside.kept(lab)
    elif lab.plan.kind == "c++":
        lab.run("record")
    lab.keep(units)
    return units


def _work(lab: _lab.Lab, factor: float = 1.0) -> str:
    return f"work={lab.work_per_ns() * factor:.6f}"


def _set_right(lab: _lab.Lab, units: _lab.Units, until: float) -> None:
    """Make the work of the stubs of a system with several threads take as long as the component's.

    The gauge ran alone. Beside the system's other threads, which may share a core with it, such work takes
    longer, as the component's does, whose times hold that already. Component and stub are measured in turn:
    a machine may be slow for longer than all runs of one of them take.
    """
    alone = _work(lab)
    if alone not in lab.flags or lab.plan.keyed:
        return
    asked, taken = [], []
    for _ in range(_MEASURED):
        asked.append(lab.measure())
        lab.keep(units)
        taken.append(lab.spent())
        if time.monotonic() > until:
            break
    right = _work(lab, min(1.0, _lab.fastest(asked) / max(1, _lab.fastest(taken))))
    lab.flags = tuple(right if flag == alone else flag for flag in lab.flags)


def _choose_waits(lab: _lab.Lab, units: _lab.Units) -> None:
    """Are the component's waits its own (I/O), or do they come from others and come again by themselves?

    A wait for Python's global lock or for the system's own threads is there with the stub as well: replayed
    as idle time it would count twice. Waits are kept where the unmodified system is clearly simulated better
    with them.
    """
    busy, blocked = _steps.totals(units)
    _steps.require_waits(lab.plan, units)
    if lab.plan.faster != "work":
        return
    if lab.plan.kind == "command" or blocked < _steps.WAITS * busy:
        return
    logs: dict[str, list[float]] = {"": [], "waitless": []}
    until = time.monotonic() + _CHOOSING * lab.plan.seconds
    while True:  # three rounds, and on a machine where these don't tell some more
        for _ in range(3):
            base = lab.run("off").wall_ns
            for name, found in logs.items():
                flags = (name,) if name else ()
                found.append(math.log(lab.run("busy", flags=flags).wall_ns / base))
        off = {name: abs(float(np.median(found))) for name, found in logs.items()}
        variance = sum(float(np.var(found, ddof=1)) for found in logs.values())
        noise = math.sqrt(variance / len(logs[""]))
        if abs(off["waitless"] - off[""]) > max(_ALIKE, noise) or time.monotonic() > until:
            break
    # Waits that are its own and matter are missed at once. Where both simulate the system alike, keeping
    # others' waits would hide what the component's work costs, and leaving out its own hides next to nothing.
    if off["waitless"] < off[""] + max(_ALIKE, noise):
        lab.flags = (*lab.flags, "waitless")


def _periods_of(lab: _lab.Lab, units: _lab.Units) -> dict[tuple[str, int], Segments]:
    """Where the component's own waits lie within its calls: then its stubs wait there too."""
    busy, blocked = _steps.totals(units)
    if blocked < _steps.WAITS * busy or lab.plan.faster != "work":
        return {}
    found = _periods.trace(lab, units)
    if found:
        lab.keep(units, found)
    return found


def _repeat(lab: _lab.Lab, units: _lab.Units, until: float, progress: Callable[[str], None]) -> _Rounds:
    """Rounds of every variant, in an order of their own each; the unmodified system stands in every round."""
    random = np.random.default_rng(lab.plan.seed)
    rounds = _Rounds()
    lab.run("flat")
    if lab.left():
        raise LatlabError(
            f"'{lab.plan.component}' is called less often with its stub than it was recorded",
            remedy="run 'latlab stubs validate': what does the system do with its results?",
        )
    rounds.function_ns.append(lab.function_ns())
    busy, _ = _steps.totals(_steps.asked(units, lab.plan.faster))
    fastest = _fastest(rounds, busy)
    typical = float(np.median([run.wall_ns for run in lab.runs if run.variant != "record"])) / 1e9
    seconds = max(0.0, until - time.monotonic())
    runs = seconds / typical / _WANTED_ROUNDS
    steps = _forecast.SPEEDUPS[1:-1] if runs >= _ALL_STEPS else _COARSE
    deck: list[float] = []
    more: tuple[float, ...] = ()
    longest = 0.0
    while len(rounds.points) < lab.plan.rounds:
        start = time.monotonic()
        if len(rounds.points) >= LEAST_ROUNDS and start + 0.9 * longest > until:
            break
        number = len(rounds.points)
        inner = [s for s in (*steps, *more) if s < fastest - 0.01]
        # A slow system's rounds hold some of the inner points each, so that the ends are measured often.
        wanted = len(inner) if runs >= _ALL_STEPS else min(len(inner), max(2, int(runs) - 4))
        while len(deck) < wanted:
            deck += list(random.permutation(inner))
        dealt, deck = sorted(set(deck[:wanted])), deck[wanted:]
        variants: list[tuple[str, float]] = [("busy", s) for s in (0.0, *dealt)]
        variants += [("flat", fastest), (_base_of(lab), 0.0)]
        if lab.plan.faster == "work" and (runs >= _ALL_STEPS or number % 2 == 0):
            variants.append(("idle", 0.0))
        if _base_of(lab) != "original":
            variants.append(("original", 0.0))
        random.shuffle(variants)
        points: dict[float, float] = {}
        segments: dict[float, Segments] = {}
        others: dict[str, float] = {}
        for mode, speedup in variants:
            wall = float(lab.run(mode, speedup, round_number=number).wall_ns)
            if mode == "flat":
                rounds.function_ns.append(lab.function_ns())
            if mode in ("busy", "flat"):
                points[float(speedup)] = wall
            else:
                others[mode] = wall
            if lab.segments is not None and mode != "idle":
                segments[_BASE if mode == "off" else float(speedup)] = lab.segments
        rounds.points.append(points)
        rounds.segments.append(segments)
        rounds.base.append(others[_base_of(lab)])
        rounds.original.append(others["original"])
        if "idle" in others:
            rounds.idle.append((others["idle"], points[0.0]))
        longest = max(longest, time.monotonic() - start)
        if len(rounds.points) >= LEAST_ROUNDS:
            found = _forecast.refinements(*_in_parts(rounds))
            # Points that are moved after each estimate of the knee would be run once each.
            if found and (not more or abs(np.mean(found) - np.mean(more)) > _MOVED):
                more = found
        left = max(0.0, until - time.monotonic())
        progress(f"round {len(rounds.points)}, {words.seconds(round(left))} left for more")
    return rounds


def _base_of(lab: _lab.Lab) -> str:
    """The unmodified system, started as its stub is; a command's stub starts as the command does."""
    return "original" if lab.plan.kind == "command" else "off"


def _fastest(rounds: _Rounds, busy: int) -> float:
    """The speedup that a stub without any time stands for: its function has a cost of its own."""
    cost = float(np.median(rounds.function_ns)) / max(1, busy)
    return 1.0 if cost < 0.005 else round(max(0.1, 1 - cost), 4)


def _suspicion(lab: _lab.Lab, units: _lab.Units) -> StudyStep:
    """Step 2: a delay in front of each call; does the system's time grow with it at once?"""
    calls = sum(len(unit.times) for unit in units.values())
    mean = max(1000, _steps.totals(units)[0] // calls)
    parts = (0.0, 0.25, 0.5, 0.75, 1.0)
    walls: dict[float, list[float]] = {part: [] for part in parts}
    random = np.random.default_rng(lab.plan.seed)
    for _ in range(4):
        for part in random.permutation(parts):
            walls[float(part)].append(float(lab.run("delay", float(part), delay_ns=int(mean * part)).wall_ns))
    added, _ = _lab.rows_in_parallel(units, os.cpu_count() or 1)
    return _steps.suspicion(walls, added)


def _system(command: Sequence[str]) -> dict[str, float]:
    """Busy, ready and blocked time of the unchanged system, where tracing is allowed."""
    from latlab.stubs.timelines import capture as _capture

    try:
        with tempfile.TemporaryDirectory() as folder:
            timeline, _ = _capture.capture(command, folder, quiet=True)
    except (UnavailableError, InputError):
        return {}
    return {
        "busy_ns": float(sum(thread.run_ns for thread in timeline.threads)),
        "ready_ns": float(sum(thread.ready_ns for thread in timeline.threads)),
        "blocked_ns": float(sum(thread.blocked_ns for thread in timeline.threads)),
        "threads": float(len(timeline.threads)),
    }


def _validated(plan: StudyPlan, command: Sequence[str], progress: Callable[[str], None]) -> tuple[bool, str]:
    """Whether the stub passed the system's own test, and what was said."""
    from latlab.stubs.studies.sameness import validate as _validate

    if plan.validation:
        return _validate.accepted(plan, plan.validation)
    if not plan.test:
        return False, said(ValidationSaid.NO_TEST)
    import shlex

    progress("running the system's own test with the stub")
    found = _validate.validate(
        plan.component, shlex.split(plan.test), kind=plan.kind, keyed=plan.keyed, mutates=plan.mutates
    )
    return bool(found["valid"]), str(found["verdict"])


def _part(rounds: _Rounds) -> tuple[float, float]:
    """The system under the laboratory over the system alone, and half the width of its 95 % interval.

    Of runs of the same rounds: those that came before may have found the machine at another speed.
    """
    base, original = np.array(rounds.base), np.array(rounds.original)
    values = [(s, wall) for one in rounds.points for s, wall in one.items()]
    states = _states.split(values, rounds.base, rounds.original)
    if states is not None:
        base, original = base / states.factors[1], original / states.factors[2]
    part, unsure = _levels.ratio(base.tolist(), original.tolist())
    return part, unsure * _forecast.few_rounds(len(rounds.base))


def _conclude(
    lab: _lab.Lab,
    units: _lab.Units,
    rounds: _Rounds,
    system: dict[str, float],
    suspicion: StudyStep | None,
    periods: tuple[WorkingPeriod, ...],
) -> StudyResult:
    original = [float(run.wall_ns) for run in lab.runs if run.variant == "original"]
    t_sut = _levels.centre(original)
    scatter = _levels.error(original)
    faster = lab.plan.faster
    asked = _steps.asked(units, faster)
    blocked = _steps.totals(units)[1]
    busy = _steps.totals(asked)[0]
    fastest = _fastest(rounds, busy)
    measured, base = _in_parts(rounds)
    points = [{(fastest if s == max(one) else s): wall for s, wall in one.items()} for one in measured]
    name = lab.plan.component
    found = _forecast.forecast(points, baseline=base, name=name)
    takes_over = None
    if found.component_class == "limited":
        takes_over = _next.takes_over(lab)
    warnings = list(found.warnings)
    if scatter > _steps.UNSTEADY:
        warnings.append(said(StudyWarning.UNSTEADY, scatter=scatter))
    if fastest < 0.7:
        warnings.append(said(StudyWarning.SLOW_STUB, part=1 - fastest, fastest=fastest))
    # Gains are of the original's time; the laboratory's own start is in every other run.
    part, unsure = 1.0, 0.0
    if _base_of(lab) != "original":
        part, unsure = _part(rounds)
    curve = tuple(
        replace(
            point,
            gain=point.gain * part,
            interval=_widened(point, part, unsure),
            value=t_sut * (1 - point.gain * part),
        )
        for point in found.curve
    )
    least = sorted(t_sut * (1 - gain) for gain in curve[-1].interval)
    python = lab.plan.kind == "python" and not lab.plan.released
    knee = found.t_limit or 1.0
    alone, _ = _lab.rows_in_parallel(
        _steps.under_one_lock(asked) if python and faster == "work" else asked, os.cpu_count() or 1
    )
    gained = float(np.interp(knee, _forecast.SPEEDUPS, [point.gain for point in curve])) * t_sut
    whole = (curve[-1].interval[1] - curve[-1].interval[0]) / 2 / max(1e-9, curve[-1].gain)
    sentence = _forecast.sentence(
        found.component_class, np.array([point.gain for point in curve]), found.t_limit or 1.0,
        found.pays_beyond or 0.0, name, takes_over=takes_over,
        slope=(gained / (knee * alone), whole * gained / (knee * alone)) if alone else None,
        most=curve[-1].interval[1], part=faster,
        half=(curve[-1].interval[1] - curve[-1].interval[0]) / 2,
    )  # fmt: skip
    if faster == "work" and blocked > _steps.WAITS * max(1, busy) and "waitless" not in lab.flags:
        sentence = said(Speedup.WAITS_KEPT, sentence=sentence, blocked_ns=blocked)
    found = replace(found, sentence=sentence)
    facts = _steps.Facts(
        units=units, python=python, t_sut=t_sut, scatter=scatter,
        base=rounds.base, points=points, idle=rounds.idle, fastest=fastest, system=system,
        usage=[(r.wall_ns, r.user_ns, r.system_ns) for r in lab.runs if r.variant == "original"],
        waitless="waitless" in lab.flags, periods=periods, asked=None if faster == "work" else asked,
    )  # fmt: skip
    return StudyResult(
        component=lab.plan.component,
        component_class=found.component_class,
        t_cus_ns=busy,
        t_cus_blocked_ns=blocked,
        t_sut_ns=round(t_sut),
        t_limit=found.t_limit,
        t_limit_interval=found.t_limit_interval,
        t_min_sut_ns=round(curve[-1].value),
        t_min_interval_ns=(round(least[0]), round(least[1])),
        drift=found.drift,
        drift_interval=found.drift_interval,
        calls=sum(len(unit.times) for unit in units.values()),
        pays=curve[1].gain * t_sut / (0.1 * busy) if busy else 0.0,
        curve=curve,
        sentence=found.sentence,
        takes_over=takes_over,
        steps=_steps.steps(facts, found, suspicion),
        system=system,
        validated=False,
        warnings=tuple(warnings),
        rounds=found.rounds,
        seconds=0.0,
        periods=periods,
        steady=scatter <= _steps.UNSTEADY,
        faster=faster,
    )


def _widened(point: StudyPoint, share: float, unsure: float) -> tuple[float, float]:
    """A point's interval as a part of the original's time: the share that this is has an error of its own."""
    low, high = (math.hypot((end - point.gain) * share, point.gain * unsure) for end in point.interval)
    return point.gain * share - low, min(1.0, point.gain * share + high)


def _in_parts(rounds: _Rounds) -> tuple[list[dict[float, _levels.Parts]], list[_levels.Parts]]:
    """What the rounds measured, in parts where every run has the same."""
    known = [one for each in rounds.segments for one in each.values()]
    wanted = sum(len(points) + 1 for points in rounds.points)
    if len(known) != wanted or len({len(one) for one in known}) != 1:
        return [dict(one) for one in rounds.points], list(rounds.base)
    # Before the first call nothing differs between the variants: there the runs of all of them know more than
    # each one's own, and a start of an interpreter is as long and as uneven as many a system.
    start = _start(rounds.segments)
    begins = _lab.parts_of([one[_BASE] for one in rounds.segments])

    def in_parts(run: Segments) -> _levels.Floats:
        return np.add.reduceat(np.concatenate([[start], run[1:]]), begins)

    points: list[dict[float, _levels.Parts]] = []
    base: list[_levels.Parts] = []
    for one in rounds.segments:
        parts: dict[float, _levels.Parts] = {s: in_parts(found) for s, found in one.items()}
        base.append(parts.pop(_BASE))
        points.append(parts)
    return points, base


def _start(rounds: Sequence[Mapping[float, Segments]]) -> float:
    """The level of the time before the first call, from the runs of all variants.

    Where the rest is compared as a whole, what the start adds to a whole run's level: more than its own,
    since a run's start and its rest are seldom fast together.
    """
    conditions: dict[float, list[Segments]] = {}
    for one in rounds:
        for key, run in one.items():
            conditions.setdefault(key, []).append(run)
    if any(len(run) > 2 for run in conditions[_BASE]):
        return _levels.centre([float(run[0]) for runs in conditions.values() for run in runs])
    adds = [
        _levels.centre([float(run.sum()) for run in runs]) - _levels.centre([float(run[1]) for run in runs])
        for runs in conditions.values()
    ]
    return float(np.average(adds, weights=[len(runs) for runs in conditions.values()]))


def _save(lab: _lab.Lab, result: StudyResult, output: str | Path, command: Sequence[str]) -> None:
    from latlab.formats.recording import RecordingWriter
    from latlab.system import environment

    parameters: dict[str, Any] = {**vars(lab.plan), "command": list(command)}
    with RecordingWriter(
        Path(output), "stubs-study", parameters=parameters, environment=environment.capture(),
        seed=lab.plan.seed, command=sys.argv,
    ) as writer:  # fmt: skip
        names = ["original", *_plan.MODES]
        writer.append(
            "runs",
            {
                "variant": np.array([names.index(run.variant) for run in lab.runs]),
                "speedup": np.array([run.speedup for run in lab.runs]),
                "round": np.array([run.round for run in lab.runs]),
                "wall_ns": np.array([run.wall_ns for run in lab.runs]),
                "user_ns": np.array([run.user_ns for run in lab.runs]),
                "system_ns": np.array([run.system_ns for run in lab.runs]),
            },
        )
        writer.put("variants", {"names": names})
        writer.put("study", result.as_json())
