"""The unchanged program in the simulation, and whether it can be trusted. Pure.

A simulation that does not give back the program's own time and its threads' waits forecasts nothing.
What the recording doesn't show is tried in every way: the scheduler's policy, who goes before whom, and
whether who ends a wait had waited itself for that one to begin. All that fit are kept; they answer together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from latlab.errors import LatlabError
from latlab.model.schedule import Schedule, Source, State, Wait
from latlab.model.simulation import Simulated
from latlab.schedule.simulation.build import steps_of
from latlab.schedule.simulation.steps import Deed, Policy, Steps
from latlab.schedule.simulation.waits import naps_only
from latlab.words import count, share

__all__ = ["OVER", "Fit", "fits_of", "run_steps", "simulate", "total_of", "unwatched"]

Array = np.ndarray[Any, Any]

TOLERANCE = 0.02  # of the program's own time
ALIKE = 0.1  # of the threads' time may be waited for more or less than it was
_UNSEEN = 0.05  # of all threads' time
_FORCED = 0.01  # of all waits
_TIMED_OUT = 0.05  # of the time
_WORKS = 0.01  # of the time some thread runs
_IDLE = 0.01  # of what the busiest thread works
_NEARLY = 0.95  # of its waiting
_AWAKE = 0.05  # of its life a thread works that is no heartbeat
_NEVER_NS, _TICK_NS = 1_000_000_000_000, 4_000_000
# Slice, how far behind a woken thread must be to take a CPU at once, and whether each CPU has its own queue:
# a fair scheduler's, one that prefers who wakes, and one that lets run who runs (SCHED_BATCH); then those of
# Linux since 6.6, which lets a slice go to its end. Which of them it was isn't seen, so it is fitted.
POLICIES = (
    Policy(3_000_000, 1_000_000),
    Policy(3_000_000, 100_000),
    Policy(100_000_000, _NEVER_NS),
    Policy(3_000_000, 1_000_000, own_queues=True),
    Policy(1_400_000, 1_000_000, own_queues=True, stay_ns=_TICK_NS),
    Policy(1_400_000, _NEVER_NS, own_queues=True, stay_ns=_TICK_NS),
    Policy(2_800_000, _NEVER_NS, own_queues=True, stay_ns=_TICK_NS),
)
# Forecasts were compared with faster programs by these alone (benchmarks/schedule_forecast.py).
_COMPARED = POLICIES[:3]
_REAL_TIME = (Policy(100_000_000, 10_000_000_000),)  # SCHED_FIFO, SCHED_RR: nobody takes an equal's CPU
# Of ours and of strangers: alike, strangers more and more out of the way of ours, at last wholly (a real-time
# policy of ours, idle priority of theirs), and ours out of the way.
_COSTS = ((1, 1), (1, 7), (1, 50), (1, 100_000), (4, 1))
_TOGETHER_NS = 1_000_000  # threads that end so close to the first one may be ended by it
MOST_STEPS = 150_000  # that are simulated some hundred times in seconds
OVER = "the time given was over"  # why what was left out was
READY = 0.1  # what a misfit of the waiting for a CPU counts beside one of the whole time


@dataclass(frozen=True)
class Fit:
    """A way to simulate the program that gives back what was recorded.

    Attributes:
        meets: as in `steps_of`. costs: as in `Steps.beside`. watched: the threads whose end is the program's.
        misfit: of its time and of its threads' waits, relative; the less the better.
    """

    steps: Steps
    meets: bool
    watched: tuple[int, ...]
    simulated_ns: int
    misfit: float
    costs: tuple[int, int] = (1, 1)


def run_steps(steps: Steps, *, cpus: int | None = None, turns: bool = False) -> dict[str, Any]:
    """Simulate once: `ended_ns`, `ready_ns` and `blocked_ns` by thread, `at_ns`, `step_ready_ns` by step.

    With `turns` also `turn_thread`, `turn_begin_ns`, `turn_end_ns`: who had a CPU, and when.

    Raises:
        LatlabError: these steps contradict each other.
    """
    from latlab._core import schedule as core

    try:
        out = core.simulate(
            steps.first, np.ascontiguousarray(steps.work, np.int64), steps.deed,
            np.ascontiguousarray(steps.argument, np.int64), np.ascontiguousarray(steps.recorded, np.int64),
            steps.born, steps.allowed, steps.cost, steps.delay,
            cpus=steps.cpus if cpus is None else cpus, wake_ns=steps.wake_ns,
            slice_ns=steps.slice_ns, behind_ns=steps.behind_ns,
            own_queues=steps.own_queues, stay_ns=steps.stay_ns, turns=turns,
        )  # fmt: skip
    except ValueError as error:  # of the core, which checks them
        raise LatlabError(f"what its threads did can't be simulated: {error}") from error
    return dict(out)


def steps_in(schedule: Schedule) -> int:
    """How many steps a simulation of it takes, about."""
    return 2 * len(schedule.intervals) + len(schedule.foreign)


def simulate(schedule: Schedule) -> Simulated:
    """The unchanged program in the simulation, and whether that can be trusted."""
    return fits_of(schedule)[0]


def fits_of(
    schedule: Schedule, over: Callable[[], bool] = lambda: False
) -> tuple[Simulated, tuple[Fit, ...]]:
    """How the best simulation does, and all that do; none where none can be trusted.

    Args:
        over: asked before each simulation; True ends it, and nothing fits: only all of them can tell.
    """
    found: list[tuple[Simulated, Fit]] = []
    whole = schedule.ended_ns - schedule.began_ns
    if steps_in(schedule) > MOST_STEPS:
        why = f"{count(len(schedule.intervals))} turns of its threads are too many to simulate"
        return Simulated(whole, whole, why, (), ()), ()
    for meets in (False, True):
        steps = steps_of(schedule, meets=meets)
        watched = _watched(schedule, steps)
        recorded = _recorded(schedule, steps)
        for ours, others in _costs(schedule, steps):
            for policy in _REAL_TIME if _goes_first(schedule) else _COMPARED:
                if over():
                    return Simulated(whole, whole, OVER, (), ()), ()
                beside = steps.beside(ours, others).by(policy)
                one, fit = _unchanged(schedule, beside, meets, watched, recorded)
                found.append((one, replace(fit, costs=(ours, others))))
    best = min(found, key=lambda one: one[1].misfit)[0]
    good = sorted((fit for one, fit in found if not one.withheld), key=lambda fit: fit.misfit)
    if best.withheld and good:
        best = next(one for one, fit in found if fit is good[0])
    return best, tuple(good)


def _costs(schedule: Schedule, steps: Steps) -> Sequence[tuple[int, int]]:
    """What may stand between the program and strangers beside their priorities: control groups, autogroups.

    Nothing where there are none, or where it goes before them by a real-time policy.
    """
    return _COSTS[:1] if _goes_first(schedule) or len(steps.born) == steps.own else _COSTS


def _goes_first(schedule: Schedule) -> bool:
    """All of its threads have a real-time priority."""
    prior = [schedule.priorities.get(one.tid, 120) for one in schedule.threads]
    return bool(prior) and max(prior) < 100


def _recorded(schedule: Schedule, steps: Steps) -> tuple[Array, Array]:
    """How long each thread was ready and blocked."""
    rows = schedule.intervals
    length = rows["end"] - rows["begin"]
    ends = np.array([one.ended_ns for one in schedule.threads], np.int64)
    within = rows["end"] < ends[rows["thread"]] if len(rows) else np.zeros(0, bool)

    def of(state: State) -> Array:
        mine = (rows["state"] == state) & within
        return np.bincount(rows["thread"][mine], length[mine], minlength=steps.own).astype(float)

    return of(State.RUNNABLE), of(State.BLOCKED)


def _unchanged(
    schedule: Schedule, steps: Steps, meets: bool, watched: Sequence[int], was: tuple[Array, Array]
) -> tuple[Simulated, Fit]:
    out = run_steps(steps)
    simulated = total_of(out, watched)
    recorded = int(max(schedule.threads[t].ended_ns for t in watched) - schedule.began_ns) if watched else 0
    whole = max(simulated, 1)
    ran = np.array([float(steps.work[a:b].sum()) for a, b in zip(steps.first, steps.first[1:], strict=False)])
    ready, blocked = out["ready_ns"][: steps.own], out["blocked_ns"][: steps.own]
    lives = max(1.0, float(sum(one.ended_ns - one.began_ns for one in schedule.threads)))
    # What is not waited for a CPU may be waited for another thread that has it: their sum counts.
    unlike = float(np.abs(ready + blocked - was[0] - was[1]).sum()) / lives
    apart = float(np.abs(ready - was[0]).sum()) / max(recorded, 1)
    one = Simulated(
        recorded,
        simulated,
        _reason(schedule, steps, out, recorded, simulated, unlike),
        tuple((ran[: steps.own] / whole).tolist()),
        tuple((ready / whole).tolist()),
    )
    return one, Fit(steps, meets, tuple(watched), simulated, abs(one.error) + unlike + READY * apart)


def unwatched(schedule: Schedule, fit: Fit) -> Fit:
    """The same without those who observed, who take no CPU from a program that runs by itself."""
    alone = steps_of(schedule, meets=fit.meets, watched=False)
    steps = fit.steps
    alone = alone.beside(*fit.costs).by(steps.policy)
    return replace(fit, steps=alone)


def _watched(schedule: Schedule, steps: Steps) -> list[int]:
    """Whose end is the program's: its first thread's, and that of all which were over before it.

    A join of a thread that has ended already blocks nobody and isn't seen; were it not kept, a consumer could
    be done before what it consumes is made. Of what goes on, everybody's who isn't paced by a timer: neither
    a heartbeat nor one who looks by time-outs whether another is done, whose naps would hold the end. Whom
    they let go on waits for them.
    """
    own = [index for index, one in enumerate(schedule.threads) if not one.peer]
    roots = [index for index in own if schedule.threads[index].parent < 0]
    leaders = [index for index in roots if schedule.threads[index].tid == schedule.threads[index].pid]
    if len(leaders) == 1 and _ended_itself(schedule, leaders[0]):
        over = schedule.threads[leaders[0]].ended_ns
        return leaders + [
            index for index in own
            if index != leaders[0] and schedule.threads[index].ended
            and schedule.threads[index].ended_ns < over
            and not _told_to_end(schedule, index, leaders[0]) and not naps_only(schedule, index)
        ]  # fmt: skip
    thread, timer = steps.thread, steps.wait == int(Wait.TIMER)
    naps = np.bincount(thread[timer], minlength=len(steps.born))
    posts = np.bincount(thread[steps.deed == Deed.POST], minlength=len(steps.born))
    busy = [
        index for index in own
        if not (naps[index] and not posts[index]) and not naps_only(schedule, index)
    ]  # fmt: skip
    worked = np.bincount(thread, steps.work, minlength=len(steps.born))
    most = float(worked[busy].max(initial=0.0))
    busy = [index for index in busy if worked[index] > _IDLE * most or not _waits_for_words(schedule, index)]
    return busy or own


def _waits_for_words(schedule: Schedule, thread: int) -> bool:
    """All that it waits for, nearly, are futexes: other threads of the program, and not a disk or a peer."""
    rows = schedule.of_thread(thread)
    rows = rows[rows["state"] == State.BLOCKED]
    length = rows["end"] - rows["begin"]
    words = np.isin(rows["wait"], (Wait.FUTEX, Wait.TIMER))
    return bool(float(length[words].sum()) >= _NEARLY * float(length.sum()))


def _ended_itself(schedule: Schedule, thread: int) -> bool:
    """Who ends itself runs to its end; who is killed while it waits does not."""
    rows = schedule.of_thread(thread)
    return schedule.threads[thread].ended and bool(len(rows)) and rows["state"][-1] != State.BLOCKED


def _told_to_end(schedule: Schedule, thread: int, leader: int) -> bool:
    """The end of the first thread was what ended this one: it woke it for that."""
    if schedule.threads[thread].ended_ns < schedule.threads[leader].ended_ns - _TOGETHER_NS:
        return False
    rows = schedule.of_thread(thread)
    blocked = rows[rows["state"] == State.BLOCKED]
    if not len(blocked):
        return False
    last = blocked[-1]
    late = schedule.threads[thread].ended_ns - int(last["end"]) < _TOGETHER_NS
    return bool(late and last["waker"] == leader and last["source"] == Source.THREAD)


def _open_ended(schedule: Schedule, steps: Steps) -> float:
    """Waits for a futex that their time-out ended, of threads that don't mostly sleep: the most of any."""
    slept = np.isin(steps.deed, (Deed.SLEEP, Deed.UNTIL)) & (steps.wait == int(Wait.FUTEX))
    rows = schedule.intervals
    rows = rows[
        (rows["state"] == State.BLOCKED) & (rows["wait"] == Wait.FUTEX) & (rows["source"] == Source.TIMER)
    ]
    waited = np.bincount(rows["thread"], rows["end"] - rows["begin"], minlength=steps.own)
    worked = np.bincount(steps.thread, steps.work, minlength=len(steps.born))[: steps.own]
    lives = np.array([one.ended_ns - one.began_ns for one in schedule.threads], float)
    sleeps = np.bincount(steps.thread[slept], minlength=len(steps.born))[: steps.own]
    counts = (sleeps > 0) & (worked > _AWAKE * lives)
    return float(waited[counts].max(initial=0.0))


def total_of(out: dict[str, Any], watched: Sequence[int]) -> int:
    """When the last of these threads ended."""
    return int(max((out["ended_ns"][one] for one in watched), default=0))


def _reason(
    schedule: Schedule, steps: Steps, out: dict[str, Any], recorded: int, simulated: int, unlike: float
) -> str:
    if not len(schedule.intervals) or recorded <= 0:
        return "no thread was seen"
    if schedule.losses.unseen_share > _UNSEEN:
        return (
            f"of {share(schedule.losses.unseen_share, digits=0)} of the threads' time it isn't "
            f"known what they did"
        )
    if float(steps.work[: steps.first[steps.own]].sum()) < _WORKS * recorded:
        return "its threads hardly ran in that time"
    rows = schedule.intervals
    throttled = rows[(rows["state"] == State.BLOCKED) & (rows["wait"] == Wait.THROTTLED)]
    if float((throttled["end"] - throttled["begin"]).sum()) > 0.01 * recorded:
        return "a CPU quota stopped the program, which the simulation does not know"
    open_ended = _open_ended(schedule, steps) / recorded
    if open_ended > _TIMED_OUT:
        return (
            f"a thread waited {share(open_ended)} of the time until its time-out: when what it waited for "
            "comes in a faster program isn't known"
        )
    waits = max(1, int(np.isin(steps.deed, (Deed.WAIT, Deed.JOIN)).sum()))
    if out["forced"] > max(2, _FORCED * waits):
        return f"{out['forced']} of {waits} waits came in an order in which all would have waited"
    error = (simulated - recorded) / recorded
    if abs(error) > TOLERANCE:
        return (
            f"the simulation of the unchanged program takes {share(abs(error))} "
            f"{'more' if error > 0 else 'less'} than the program did"
        )
    if unlike > ALIKE:
        return f"its threads wait {share(unlike)} of their time more or less in the simulation than they did"
    return ""
