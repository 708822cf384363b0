"""What would it buy: the captured schedule simulated again, unchanged and with a part of it made faster.

Virtual speed-ups of a schedule rather than of the running program (Coz: Curtsinger and Berger, SOSP 2015;
waiting as well as working, as in BCOZ: Ahn et al., OSDI 2024). A simulation that does not give back the
program's own time forecasts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from latlab.model.answer import Interval
from latlab.model.schedule import Schedule, State, Wait
from latlab.model.simulation import Scenario, ScenarioPoint, ScheduleForecast, Simulated
from latlab.schedule.steps import Deed, Steps, naps_only, steps_of
from latlab.words import share

__all__ = ["SPEEDUPS", "forecast", "kind_of", "run_steps", "simulate"]

Array = np.ndarray[Any, Any]

SPEEDUPS = (0.2, 0.5, 0.8, 1.0)
TOLERANCE = 0.02  # of the program's own time
_UNSEEN = 0.05  # of all threads' time
_FORCED = 0.01  # of all waits
_LEAST = 0.03  # of the whole time; a smaller gain is none
_SLOPE = 0.5  # of the first gain, left at the end: it pays all the way
_SEEDS = 6
_JITTER = 0.05  # of each piece of work
# Slice, and how far behind a woken thread must be to take a CPU at once: a fair scheduler's, one that prefers
# who wakes, and one that lets run who runs (SCHED_RR, SCHED_BATCH). Which of them it was isn't
# seen, so it is fitted.
_POLICIES = ((3_000_000, 1_000_000), (3_000_000, 100_000), (100_000_000, 1_000_000_000_000))
# Of ours and of strangers: alike, strangers out of the way of ours, in between, and ours out of the way.
_COSTS = ((1, 1), (1, 50), (1, 7), (4, 1))
_TOGETHER_NS = 1_000_000  # threads that end so close to the first one are ended by it
_READY = 0.1  # what a misfit of the waiting for a CPU counts beside one of the whole time
_DISK = (int(Wait.DISK), int(Wait.SYNC), int(Wait.FAULT))


def run_steps(steps: Steps, *, cpus: int | None = None) -> dict[str, Any]:
    """Simulate once: `ended_ns`, `ready_ns` and `blocked_ns` by thread, `at_ns`, `step_ready_ns` by step."""
    from latlab._core import schedule as core

    return dict(
        core.simulate(
            steps.first, np.ascontiguousarray(steps.work, np.int64), steps.deed,
            np.ascontiguousarray(steps.argument, np.int64), np.ascontiguousarray(steps.recorded, np.int64),
            steps.born, steps.allowed, steps.cost,
            cpus=steps.cpus if cpus is None else cpus, wake_ns=steps.wake_ns,
            slice_ns=steps.slice_ns, behind_ns=steps.behind_ns,
        )
    )  # fmt: skip


def simulate(schedule: Schedule) -> Simulated:
    """The unchanged program in the simulation, and whether that can be trusted."""
    return _fitted(schedule)[1]


def _fitted(schedule: Schedule) -> tuple[Steps, Simulated]:
    """How others' place beside the program (their nice values aren't seen) fits what was recorded best."""
    steps = steps_of(schedule)
    rows = schedule.intervals[schedule.intervals["state"] == State.RUNNABLE]
    waited = np.bincount(rows["thread"], rows["end"] - rows["begin"], minlength=steps.own)

    def misfit(each: tuple[Steps, Simulated]) -> float:
        one = each[1]
        ready = float(np.abs(np.array(one.ready) * one.simulated_ns - waited).sum()) / max(one.recorded_ns, 1)
        return abs(one.error) + _READY * ready

    found = []
    for ours, others in _COSTS:
        for slice_ns, behind_ns in _POLICIES:
            beside = steps.beside(ours, others).changed(slice_ns=slice_ns, behind_ns=behind_ns)
            found.append((beside, _unchanged(schedule, beside)))
    return min(found, key=misfit)


def _unchanged(schedule: Schedule, steps: Steps) -> Simulated:
    out = run_steps(steps)
    watched = _watched(schedule, steps)
    simulated = _total(out, watched)
    recorded = int(max(schedule.threads[t].ended_ns for t in watched) - schedule.began_ns) if watched else 0
    whole = max(simulated, 1)
    ran = np.array([float(steps.work[a:b].sum()) for a, b in zip(steps.first, steps.first[1:], strict=False)])
    return Simulated(
        recorded,
        simulated,
        _reason(schedule, steps, out, recorded, simulated),
        tuple((ran[: steps.own] / whole).tolist()),
        tuple((out["ready_ns"][: steps.own] / whole).tolist()),
    )


def _watched(schedule: Schedule, steps: Steps) -> list[int]:
    """Whose end is the program's: its first thread's, and that of all which were over before it.

    A join of a thread that has ended already blocks nobody and isn't seen; were it not kept, a consumer could
    be done before what it consumes is made. Of what goes on, everybody's who isn't paced by a timer.
    """
    own = [index for index, one in enumerate(schedule.threads) if not one.peer]
    roots = [index for index in own if schedule.threads[index].parent < 0]
    leaders = [index for index in roots if schedule.threads[index].tid == schedule.threads[index].pid]
    if len(leaders) == 1 and schedule.threads[leaders[0]].ended:
        over = schedule.threads[leaders[0]].ended_ns - _TOGETHER_NS
        return leaders + [
            index for index in own
            if schedule.threads[index].ended and schedule.threads[index].ended_ns < over
            and not naps_only(schedule, index)
        ]  # fmt: skip
    thread, timer = steps.thread, steps.wait == int(Wait.TIMER)
    naps = np.bincount(thread[timer], minlength=len(steps.born))
    posts = np.bincount(thread[steps.deed == Deed.POST], minlength=len(steps.born))
    busy = [index for index in own if not (naps[index] and not posts[index])]
    return busy or own


def _total(out: dict[str, Any], watched: Sequence[int]) -> int:
    return int(max((out["ended_ns"][one] for one in watched), default=0))


def _reason(schedule: Schedule, steps: Steps, out: dict[str, Any], recorded: int, simulated: int) -> str:
    if not len(schedule.intervals) or recorded <= 0:
        return "no thread was seen"
    if schedule.losses.unseen_share > _UNSEEN:
        return (
            f"of {share(schedule.losses.unseen_share, digits=0)} of the threads' time it isn't "
            f"known what they did"
        )
    rows = schedule.intervals
    throttled = rows[(rows["state"] == State.BLOCKED) & (rows["wait"] == Wait.THROTTLED)]
    if float((throttled["end"] - throttled["begin"]).sum()) > 0.01 * recorded:
        return "a CPU quota stopped the program, which the simulation does not know"
    waits = max(1, int(np.isin(steps.deed, (Deed.WAIT, Deed.JOIN)).sum()))
    if out["forced"] > max(2, _FORCED * waits):
        return f"{out['forced']} of {waits} waits came in an order in which all would have waited"
    error = (simulated - recorded) / recorded
    if abs(error) > TOLERANCE:
        return (
            f"the simulation of the unchanged program takes {share(abs(error))} "
            f"{'more' if error > 0 else 'less'} than the program did"
        )
    return ""


def forecast(
    schedule: Schedule,
    scenarios: Sequence[Scenario],
    *,
    speedups: Sequence[float] = SPEEDUPS,
    seeds: int = _SEEDS,
) -> tuple[Simulated, tuple[ScheduleForecast, ...]]:
    """What each scenario would buy, of the program's whole time."""
    steps, base = _fitted(schedule)
    if base.withheld:
        nothing = tuple(
            ScheduleForecast(one, base.withheld, None, None, (), 0.0, None, None) for one in scenarios
        )
        return base, nothing
    watched = _watched(schedule, steps)
    variants = [steps, *(_jittered(steps, seed) for seed in range(1, seeds))]
    plain = np.array([_total(run_steps(one), watched) for one in variants], float)
    return base, tuple(
        _one(schedule, steps, variants, plain, watched, base, one, speedups) for one in scenarios
    )


def _jittered(steps: Steps, seed: int) -> Steps:
    """Other turns of the same program: each piece of work a little longer or shorter."""
    random = np.random.default_rng(seed)
    factor = np.exp(random.normal(0.0, _JITTER, len(steps.work)) - _JITTER**2 / 2)
    return steps.changed(work=np.rint(steps.work * factor).astype(np.int64))


def _one(
    schedule: Schedule,
    steps: Steps,
    variants: Sequence[Steps],
    plain: Array,
    watched: Sequence[int],
    base: Simulated,
    scenario: Scenario,
    speedups: Sequence[float],
) -> ScheduleForecast:
    weight, naps, spent = _part(schedule, steps, scenario)
    own = base.recorded_ns
    slack = abs(base.error) * own

    def times(speedup: float) -> Array:
        found = []
        for one in variants:
            changed = _faster(one, weight, naps, speedup)
            cpus = one.cpus + 1 if scenario.kind == "cpus" else None
            found.append(_total(run_steps(changed, cpus=cpus), watched))
        return np.asarray(found, float) / plain * own

    points = []
    for speedup in speedups if scenario.kind != "cpus" else (1.0,):
        each = times(speedup)
        value = float(each[0])
        spread = 2.0 * float(np.std(each)) + slack
        points.append(ScenarioPoint(speedup, Interval(value, max(0.0, value - spread), value + spread)))
    shares = [point.time_ns.value / own for point in points]
    kind = kind_of([0.0, *(point.speedup for point in points)], [1.0, *shares])
    knee = _knee([0.0, *(point.speedup for point in points)], [1.0, *shares]) if kind == "limited" else None
    takes_over = None
    if kind != "total":
        takes_over = _takes_over(run_steps(_faster(steps, weight, naps, 1.0)), steps, weight, watched)
    return ScheduleForecast(scenario, "", kind, Interval(float(own)), tuple(points), spent, knee, takes_over)


def kind_of(speedups: Sequence[float], shares: Sequence[float]) -> Literal["total", "limited", "none"]:
    """Which kind of gain: shares of the whole time at growing speed-ups, from (0, 1) on."""
    if shares[0] - min(shares) < _LEAST:
        return "none"
    first = (shares[0] - shares[1]) / (speedups[1] - speedups[0])
    last = (shares[-2] - shares[-1]) / (speedups[-1] - speedups[-2])
    return "total" if last >= _SLOPE * first else "limited"


def _knee(speedups: Sequence[float], shares: Sequence[float]) -> float:
    """Where the line of the first gains meets the least time."""
    slope = (shares[0] - shares[1]) / (speedups[1] - speedups[0])
    return min(1.0, (shares[0] - min(shares)) / slope) if slope > 0 else 1.0


def _part(schedule: Schedule, steps: Steps, scenario: Scenario) -> tuple[Array, Array, float]:
    """By step the share of its work that gets faster, and whether its nap does; and their time in all."""
    work, naps = np.zeros(len(steps.work)), np.zeros(len(steps.work), bool)
    thread = steps.thread
    mine = np.isin(thread, scenario.threads) if scenario.threads else thread < steps.own
    nap = np.isin(steps.deed, (Deed.SLEEP, Deed.UNTIL))
    if scenario.kind == "role":
        work = mine.astype(float)
    elif scenario.kind == "function":
        work = np.where(mine, _share_of_function(schedule, scenario.function, len(steps.born))[thread], 0.0)
    elif scenario.kind == "lock":
        work = _held(steps, scenario.object).astype(float)
    elif scenario.kind == "disk":
        naps = nap & np.isin(steps.wait, _DISK) & mine
    elif scenario.kind == "timer":
        naps = nap & (steps.wait == int(Wait.TIMER)) & mine
    slept = np.where(steps.deed == Deed.SLEEP, steps.argument, 0)
    return work, naps, float((steps.work * work).sum() + slept[naps].sum())


def _faster(steps: Steps, weight: Array, naps: Array, speedup: float) -> Steps:
    work = np.rint(steps.work * (1.0 - speedup * weight)).astype(np.int64)
    argument = steps.argument
    if naps.any():
        slept = naps & (steps.deed == Deed.SLEEP)
        argument = np.where(slept, np.rint(argument * (1.0 - speedup)).astype(np.int64), argument)
        paced = naps & (steps.deed == Deed.UNTIL)
        argument = np.where(paced, np.rint(argument * (1.0 - speedup)).astype(np.int64), argument)
    return steps.changed(work=work, argument=argument)


def _share_of_function(schedule: Schedule, function: str, threads: int) -> Array:
    """By thread: the share of its running samples that have the function on their stack."""
    shares = np.zeros(threads)
    within = np.array(
        [any(schedule.frames[frame].function == function for frame in stack) for stack in schedule.stacks],
        bool,
    )
    samples = schedule.samples[(schedule.samples["running"] == 1) & (schedule.samples["stack"] >= 0)]
    if not len(samples):
        return shares
    for thread in np.unique(samples["thread"]).tolist():
        mine = samples["stack"][samples["thread"] == thread]
        shares[thread] = float(np.mean(within[mine]))
    return shares


def _held(steps: Steps, lock: int) -> Array:
    """Steps whose work is done while the lock is held: from getting it, waited for, to handing it on."""
    held = np.zeros(len(steps.work), bool)
    on_lock = (steps.object == lock) & (steps.wait == int(Wait.FUTEX))
    waits, posts = on_lock & (steps.deed == Deed.WAIT), on_lock & (steps.deed == Deed.POST)
    for begin, end in zip(steps.first.tolist(), steps.first.tolist()[1:], strict=False):
        got: int | None = None
        for at in begin + np.flatnonzero((waits | posts)[begin:end]):
            if waits[at]:
                got = int(at)
            elif got is not None:
                held[got + 1 : int(at) + 1] = True
                got = None
    return held


def _takes_over(
    out: dict[str, Any], steps: Steps, weight: Array, watched: Sequence[int]
) -> int | Literal["cpus"] | None:
    """What limits when the thing takes no time at all."""
    whole = max(_total(out, watched), 1)
    ran = np.zeros(len(steps.born))
    np.add.at(ran, steps.thread, steps.work * (1.0 - weight))
    waited = float(out["ready_ns"][: steps.own].sum())
    if ran.sum() / whole > 0.95 * steps.cpus and waited > 0.2 * whole:
        return "cpus"
    best = int(np.argmax(ran[: steps.own]))
    return best if ran[best] > 0.5 * whole else None
