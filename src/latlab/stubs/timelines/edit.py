"""What an edited program does: its threads compete for the CPUs as the edit makes them.

Each way of simulating the captured program that gives back its own time and its threads' waits is asked, by
the engine of the diagnosis of any program (`latlab.schedule.simulation`). The best of them makes the edited
action files; all of them together say how well it is known.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from latlab.model.evidence.said import said
from latlab.model.evidence.studies import EditWithheld, TimelineSaid
from latlab.model.stubs import Edit, Timeline
from latlab.schedule.simulation.forecast import jittered
from latlab.schedule.simulation.simulate import (
    ALIKE,
    MOST_STEPS,
    POLICIES,
    READY,
    TOLERANCE,
    run_steps,
)
from latlab.schedule.simulation.steps import Policy
from latlab.stubs.timelines.actions import Program
from latlab.stubs.timelines.schedule import Schedule, schedule
from latlab.stubs.timelines.simulated import (
    Simulable,
    idle_shares,
    meetings,
    played_back,
    simulable,
    taken_by_others,
    with_meetings,
)

__all__ = ["Edited", "edited"]

_UNMODELLED = 0.1  # of what is saved: caches, which CPU a thread goes to, how readily that wakes
_OPEN = 0.06  # of the whole time; simulations that fit alike and differ by more leave it open
_AS_GOOD = 0.015  # by so much less alike a simulation may be than the best one, to answer with it
_SEEDS = 6
_OTHERS = 0.03  # of its time; when others took more from it, its times are not its own
_PINNED_TURNS, _PINNED_NS, _PINNED_SHARE = 20, 1_000_000, 0.5


@dataclass(frozen=True)
class Edited:
    """An edited program: its action files, what they do (None: nothing was simulated), and what changes."""

    program: Program
    timeline: Timeline | None
    result: Edit


@dataclass(frozen=True)
class _Misfit:
    """Of the unchanged program in a simulation.

    Attributes:
        off: the error of its time. unlike: by how much more or less its threads wait, of their time.
        apart: by how much more or less they wait for a CPU, of its time.
    """

    off: float
    unlike: float
    apart: float

    @property
    def whole(self) -> float:
        """The less, the better: as of the diagnosis' simulations."""
        return abs(self.off) + self.unlike + READY * self.apart


@dataclass(frozen=True)
class _Way:
    """One way to simulate the program: what isn't in a recording."""

    cpus: int
    names: frozenset[str]  # of events that are met; see `meetings`
    pinned: tuple[tuple[int, int], ...]
    policy: Policy
    captured: Timeline | None

    def of(self, program: Program, recorded: Program | None = None) -> tuple[Simulable, Program]:
        changed = with_meetings(program, self.names)
        placed = self.captured if self.policy.own_queues else None
        one = simulable(changed, self.cpus, recorded=recorded, placed=placed, pinned=dict(self.pinned))
        return replace(one, steps=one.steps.by(self.policy)), changed


def edited(before: Program, after: Program, captured: Timeline | None = None) -> Edited:
    """The edited program with the waits for CPUs that it has now.

    Args:
        before: as it was captured. after: with its edit; see `scale` and `replace_thread`.
        captured: its timeline, which knows the CPUs; without one it had this machine's.
    """
    then, plain = schedule(before), schedule(after)
    cpus = (captured.cpus if captured is not None else 0) or len(os.sched_getaffinity(0))
    kept = Edit(
        len(after.threads),
        cpus,
        False,
        then.total_ns,
        plain.total_ns,
        plain.total_ns,
        plain.total_ns,
        0.0,
        "",
    )
    if not any(action.verb == "ready" for actions in before.threads.values() for action in actions):
        return Edited(after, None, kept)
    steps = sum(map(len, then.after.values()))
    if steps > MOST_STEPS:
        return Edited(after, None, replace(kept, withheld=said(EditWithheld.TOO_LONG, actions=steps)))
    tried = [(way, _misfit(way, before, then)) for way in _ways(before, captured, cpus)]
    fitting = [(way, fit) for way, fit in tried if abs(fit.off) <= TOLERANCE and fit.unlike <= ALIKE]
    if not fitting:
        nearest = min(abs(fit.off) for _, fit in tried)
        off = said(EditWithheld.OFF, off=nearest) if nearest > TOLERANCE else said(EditWithheld.OTHER_WAITS)
        return Edited(after, None, replace(kept, withheld=off))
    least = min(fit.whole for _, fit in fitting)
    alike = [(way, fit) for way, fit in fitting if fit.whole <= least + _AS_GOOD]
    # Each of them as it is, and with turns of other lengths: which of several threads comes first is chance.
    shares = np.array([[_share(way, before, after, seed) for seed in range(_SEEDS)] for way, _ in alike])
    middle = float(np.median(shares))
    way, fit = alike[int(np.argmin(np.abs(shares[:, 0] - middle)))]
    one, changed = way.of(after, before)
    program, timeline = played_back(one, run_steps(one.steps, turns=True), changed, captured)
    slack = abs(fit.off) + _UNMODELLED * abs(1 - middle)
    low, high = float(shares.min()) - slack, float(shares.max()) + slack
    usual = [float(each) * then.total_ns for each in np.quantile(shares, (0.1, 0.9))]
    why: str = (
        said(EditWithheld.OPEN, low_ns=usual[0], high_ns=usual[1])
        if usual[1] - usual[0] > _OPEN * then.total_ns
        else ""
    )
    placed = captured if way.policy.own_queues else None
    lost = taken_by_others(before, way.cpus, placed) / max(1, then.total_ns)
    if lost > _OTHERS:
        others = captured.others_ns if captured is not None else None
        theirs = others is None or others > _OTHERS * then.total_ns
        why = said(EditWithheld.OTHER_PROGRAMS if theirs else EditWithheld.IDLE_CPUS, lost=lost)
    result = Edit(
        len(program.threads), way.cpus, True, then.total_ns, timeline.total_ns,
        max(0, round(min(low * then.total_ns, timeline.total_ns))),
        round(max(high * then.total_ns, timeline.total_ns)), fit.off, why,
    )  # fmt: skip
    return Edited(program, replace(timeline, notes=(said(TimelineSaid.SIMULATED, cpus=way.cpus),)), result)


def _ways(before: Program, captured: Timeline | None, cpus: int) -> Iterator[_Way]:
    """All that a recording leaves open: who may use which CPU, what is met, and the scheduler's policy."""
    used = {cpu for thread in captured.threads for cpu in thread.cpus} if captured is not None else set()
    counts = sorted({cpus, len(used) or cpus}, reverse=True)
    names = [frozenset[str](), *({meetings(before)} - {frozenset()})]
    for number, met in itertools.product(counts, names):
        pins = _pinned(before, captured, number)
        for pinned, policy in itertools.product({(), pins}, POLICIES):
            yield _Way(number, met, pinned, policy, captured)


def _pinned(before: Program, captured: Timeline | None, cpus: int) -> tuple[tuple[int, int], ...]:
    """Threads that never left a CPU, though they waited for it while another was idle."""
    if captured is None or cpus < 2:
        return ()
    shares = idle_shares(before, cpus)
    places = {cpu: at for at, cpu in enumerate(sorted({c for t in captured.threads for c in t.cpus}))}
    return tuple(
        (thread.id, places[thread.cpus[0]])
        for thread in captured.threads
        if len(thread.cpus) == 1
        and thread.switches >= _PINNED_TURNS
        and places[thread.cpus[0]] < cpus
        and shares.get(thread.id, (0, 0.0))[0] > _PINNED_NS
        and shares[thread.id][1] > _PINNED_SHARE
    )


def _misfit(way: _Way, before: Program, then: Schedule) -> _Misfit:
    one, _ = way.of(before)
    out = run_steps(one.steps)
    total = max(1, then.total_ns)
    lives, unlike, apart = 0, 0.0, 0.0
    work = np.bincount(one.steps.thread, one.steps.work, minlength=len(one.numbers))
    for place, number in enumerate(one.numbers):
        times = then.after[number]
        life = times[-1] - then.begins[number] if times else 0
        ready, blocked = float(out["ready_ns"][place]), float(out["blocked_ns"][place])
        lives += life
        unlike += abs(ready + blocked - (life - float(work[place])))
        apart += abs(ready - sum(a.amount for a in before.threads[number] if a.verb == "ready"))
    off = float(out["ended_ns"].max(initial=0) - total) / total
    return _Misfit(off, unlike / max(1, lives), apart / total)


def _share(way: _Way, before: Program, after: Program, seed: int) -> float:
    """The edited program's time, of the unchanged one's."""
    times = []
    for program, recorded in ((after, before), (before, None)):
        steps = way.of(program, recorded)[0].steps
        out = run_steps(jittered(steps, seed) if seed else steps)
        times.append(int(out["ended_ns"].max(initial=0)))
    return times[0] / max(1, times[1])
