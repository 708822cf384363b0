"""Action files as steps of the simulated schedule, and back with the waits for CPUs that it makes. Pure.

Over 400 lines: the way there and back must agree on every kind of step.

A `ready` in an action file is how long a thread lacked a CPU when it was captured. As long as another CPU was
idle it is kept: then it was a wake-up, or somebody else's turn. The rest was a wait for the program's own
threads, and comes from the simulated scheduler (`latlab.schedule.simulation`): it knows how they compete now.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latlab.model.stubs import Timeline, TimelineThread
from latlab.schedule.simulation.steps import Deed, Steps
from latlab.stubs.timelines.actions import Action, Program, blocked, iterate
from latlab.stubs.timelines.schedule import schedule

__all__ = [
    "Simulable",
    "idle_shares",
    "meetings",
    "played_back",
    "simulable",
    "taken_by_others",
    "with_meetings",
]

Array = np.ndarray[Any, Any]

_BLOCKS = (Deed.WAIT, Deed.JOIN, Deed.SLEEP, Deed.LOCK)
_SAME_NS = 1_000  # action files have times in us, with three decimals
_MOST_WAKE_NS = 100_000  # more is not a wake-up
_LAST_NS = 1_000_000  # from a thread's signal to its end, where the end may be what was waited for
_ARRIVES = "arrives-"  # an event that says that its namesake is waited for


@dataclass
class _Rows:
    """The steps of all threads in the making, and the action behind each."""

    work: list[int] = field(default_factory=list)
    deed: list[int] = field(default_factory=list)
    argument: list[int] = field(default_factory=list)
    recorded: list[int] = field(default_factory=list)
    delay: list[int] = field(default_factory=list)
    action: list[Action | None] = field(default_factory=list)

    def add(self, work: int, deed: Deed, argument: int, recorded: int, action: Action | None) -> None:
        self.work.append(work)
        self.deed.append(int(deed))
        self.argument.append(argument)
        self.recorded.append(recorded)
        self.delay.append(0)
        self.action.append(action)


@dataclass(frozen=True)
class Simulable:
    """A program as it can be simulated.

    Attributes:
        numbers: of its threads, in the order of the steps'.
        actions: behind each step; None at a thread's end.
    """

    steps: Steps
    numbers: tuple[int, ...]
    actions: tuple[Action | None, ...]


class _Idle:
    """For how long at least one of some CPUs was idle, as the program's own threads had them."""

    def __init__(self, spans: Sequence[tuple[int, int]], cpus: int) -> None:
        rows = np.array(spans, np.int64).reshape(-1, 2)
        edges = np.concatenate([[0], rows[:, 0], rows[:, 1]])
        change = np.concatenate([[0], np.ones(len(rows)), -np.ones(len(rows))])
        order = np.argsort(edges, kind="stable")
        self._edges = edges[order]
        free = (np.cumsum(change[order])[:-1] < cpus) * np.diff(self._edges)
        self._idle = np.concatenate([[0.0], np.cumsum(free)])

    def within(self, begin: int, end: int) -> int:
        return round(self._until(end) - self._until(begin))

    def _until(self, time: int) -> float:
        last = int(self._edges[-1])
        return float(np.interp(time, self._edges, self._idle)) + max(0, time - last)


class _Places:
    """Which CPU a thread had next, and for how long that one was idle."""

    def __init__(self, captured: Timeline) -> None:
        self._runs = {
            thread.id: [
                (begin, place)
                for (begin, _, state), place in zip(thread.slices, thread.places, strict=True)
                if state == "running"
            ]
            for thread in captured.threads
        }
        spans: dict[int, list[tuple[int, int]]] = {}
        for thread in captured.threads:
            for (begin, end, state), place in zip(thread.slices, thread.places, strict=True):
                if state == "running":
                    spans.setdefault(place, []).append((begin, end))
        self._idle = {place: _Idle(each, 1) for place, each in spans.items()}

    def within(self, thread: int, begin: int, end: int) -> int | None:
        """None where it isn't known."""
        runs = self._runs.get(thread, [])
        at = bisect.bisect_left(runs, (end - _SAME_NS, -1))
        return self._idle[runs[at][1]].within(begin, end) if at < len(runs) else None


def simulable(
    program: Program,
    cpus: int,
    *,
    recorded: Program | None = None,
    placed: Timeline | None = None,
    pinned: Mapping[int, int] | None = None,
) -> Simulable:
    """The steps of a program.

    Args:
        cpus: that its threads share.
        recorded: the program as it was captured, where this one is an edit of it: that one tells which part
            of its threads' `ready` was a wait for another thread.
        placed: its timeline, where each CPU has a queue of its own: who waited for its CPU then waited for
            another thread though some other CPU was idle.
        pinned: threads that may use one CPU only, and which.
    """
    was = program if recorded is None else recorded
    kept = _kept_delays(was, cpus, placed)
    now = schedule(program)
    numbers = tuple(sorted(program.threads))
    index = {number: place for place, number in enumerate(numbers)}
    made = set(program.creator_of())
    names: dict[tuple[str, str], int] = {}
    rows, first, births = _Rows(), [0], {}
    for number in numbers:
        same = program.threads[number] == was.threads.get(number) or _alike(program, was, number)
        births[number] = _walk(
            program, number, rows, index, names, now.after[number], kept.get(number) if same else None
        )
        first.append(len(rows.work))
    for at, action in enumerate(rows.action):
        if action is not None and action.verb == "create":
            rows.delay[at] = births[action.thread]
    count = len(numbers)
    allowed = np.array(
        [1 << (pinned or {}).get(n, 0) if n in (pinned or {}) else 0 for n in numbers], np.uint64
    )
    return Simulable(
        Steps(
            np.array(first, np.int64), np.array(rows.work, np.int64), np.array(rows.deed, np.uint8),
            np.array(rows.argument, np.int64), np.array(rows.recorded, np.int64),
            np.zeros(len(rows.work), np.int64), np.full(len(rows.work), -1, np.int64),
            np.array([-1 if n in made else births[n] for n in numbers], np.int64), allowed,
            np.ones(count, np.int64), np.array(rows.delay, np.int64), count, cpus, 0,
        ),
        numbers, tuple(rows.action),
    )  # fmt: skip


def _alike(program: Program, was: Program, number: int) -> bool:
    """Whether a thread's `ready` stand where they stood: its other actions may be longer or shorter."""
    if number not in was.threads:
        return False
    verbs = [[a.verb for a in iterate(each.threads[number]) if a.verb == "ready"] for each in (program, was)]
    return len(verbs[0]) == len(verbs[1])


def _kept_delays(was: Program, cpus: int, placed: Timeline | None = None) -> dict[int, list[int]]:
    """By thread, what stays of each of its `ready`, in order."""
    then = schedule(was)
    idle = _Idle(then.spans, cpus)
    known = placed is not None and all(len(one.places) == len(one.slices) for one in placed.threads)
    places = _Places(placed) if placed is not None and known else None
    found: dict[int, list[int]] = {}
    for number, actions in was.threads.items():
        before, kept = then.begins[number], []
        for action, after in zip(iterate(actions), then.after[number], strict=False):
            if action.verb == "ready":
                own = places.within(number, before, after) if places is not None else None
                kept.append(idle.within(before, after) if own is None else own)
            before = after
        found[number] = kept
    return found


def _walk(
    program: Program,
    number: int,
    rows: _Rows,
    index: Mapping[int, int],
    names: dict[tuple[str, str], int],
    after: Sequence[int],
    kept: Sequence[int] | None,
) -> int:
    """Add one thread's steps; how long it takes to run after its beginning where a CPU is idle."""
    birth, work, seen = 0, 0, 0
    waking = -1  # the step that blocked, while the thread has not run since; -1: it begins
    awake = False
    for place, action in enumerate(iterate(program.threads[number])):
        at = after[place] if place < len(after) else (after[-1] if after else 0)
        if action.verb == "run":
            work, awake = work + action.amount, True
        elif action.verb == "ready":
            delay = action.amount if kept is None else kept[seen]
            seen += 1
            if awake and delay:  # somebody else's turn
                rows.add(work, Deed.SLEEP, delay, at, Action("ready", amount=delay))
                work = 0
            elif waking >= 0:
                rows.delay[waking] += delay
            elif not awake:
                birth += delay
        else:
            deed, argument = _deed(action, index, names)
            rows.add(work, deed, argument, at, action)
            work = 0
            if deed in _BLOCKS:
                waking, awake = len(rows.work) - 1, False
    rows.add(work, Deed.NONE, 0, after[-1] if after else 0, None)
    return birth


def _deed(action: Action, index: Mapping[int, int], names: dict[tuple[str, str], int]) -> tuple[Deed, int]:
    if action.verb == "sleep":
        return Deed.SLEEP, action.amount
    if action.verb in ("create", "join"):
        return (Deed.START if action.verb == "create" else Deed.JOIN), index[action.thread]
    if action.verb in ("signal", "wait"):
        number = names.setdefault(("event", action.name), len(names))
        return (Deed.POST if action.verb == "signal" else Deed.WAIT), number
    if action.verb in ("lock", "unlock"):
        number = names.setdefault(("lock", action.name), len(names))
        return (Deed.LOCK if action.verb == "lock" else Deed.UNLOCK), number
    return (Deed.EXIT if action.verb == "exit" else Deed.NONE), 0


def meetings(program: Program) -> frozenset[str]:
    """Events whose signaller may itself have waited for them to be waited for: each made and taken once.

    Not where the signaller ends with it: that end is then what was waited for.
    """
    made: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    giver: dict[str, tuple[int, int]] = {}
    taker: dict[str, int] = {}
    then = schedule(program)
    for number, actions in program.threads.items():
        for action, at in zip(iterate(actions), then.after[number], strict=False):
            if action.verb == "signal":
                made[action.name] += 1
                giver[action.name] = (number, at)
            elif action.verb == "wait":
                taken[action.name] += 1
                taker[action.name] = number
    return frozenset(
        name
        for name, (number, at) in giver.items()
        if made[name] == taken[name] == 1 and taker[name] != number and then.after[number][-1] - at > _LAST_NS
    )


def with_meetings(program: Program, names: frozenset[str]) -> Program:
    """The program in which who signals one of these events waits until it is waited for."""
    threads = {}
    for number, actions in program.threads.items():
        found: list[Action] = []
        for action in actions:
            met = action.name in names
            if met and action.verb == "wait":
                found.append(Action("signal", name=_ARRIVES + action.name))
            elif met and action.verb == "signal":
                found.append(Action("wait", name=_ARRIVES + action.name))
            found.append(action)
        threads[number] = tuple(found)
    changed = Program(threads, program.source)
    posted = {a.name for actions in threads.values() for a in actions if a.verb == "signal"}
    waited = {a.name for actions in threads.values() for a in actions if a.verb == "wait"}
    return program if waited - posted or blocked(changed) else changed


def taken_by_others(program: Program, cpus: int, placed: Timeline | None) -> int:
    """For how long its threads lacked a CPU that none of them had, beyond a wake-up: others had it."""
    kept = _kept_delays(program, cpus, placed)
    return sum(each for delays in kept.values() for each in delays if each > _MOST_WAKE_NS)


def idle_shares(program: Program, cpus: int) -> dict[int, tuple[int, float]]:
    """By thread, for how long it was ready, and for which share of that another CPU was idle."""
    kept = _kept_delays(program, cpus)
    found = {}
    for number, actions in program.threads.items():
        ready = sum(action.amount for action in iterate(actions) if action.verb == "ready")
        found[number] = (ready, sum(kept[number]) / ready if ready else 0.0)
    return found


def played_back(
    one: Simulable, out: Mapping[str, Any], program: Program, captured: Timeline | None
) -> tuple[Program, Timeline]:
    """The simulated program as action files, with the waits for a CPU that it has now, and its timeline.

    Args:
        out: of `run_steps` with its turns.
        captured: who its threads were.
    """
    begins = _begins(one, out)
    order = np.lexsort((out["turn_begin_ns"], out["turn_thread"]))
    turns = np.stack([out["turn_begin_ns"][order], out["turn_end_ns"][order]], axis=1)
    bounds = np.searchsorted(out["turn_thread"][order], np.arange(len(one.numbers) + 1))
    threads, rows, deeds = {}, [], []
    creators = program.creator_of()
    for place, number in enumerate(one.numbers):
        part = slice(int(one.steps.first[place]), int(one.steps.first[place + 1]))
        found, slices = _thread(
            one, out, part, turns[bounds[place] : bounds[place + 1]].tolist(), begins[place]
        )
        threads[number] = tuple(found)
        deeds += [
            (int(out["at_ns"][at]), f"{action.verb} {action.thread}")
            for at in range(part.start, part.stop)
            if (action := one.actions[at]) is not None and action.verb in ("create", "join")
        ]
        rows.append(_row(number, creators.get(number), slices, int(out["ended_ns"][place]), captured))
    made = Program(threads, program.source)
    total = int(out["ended_ns"].max(initial=0))
    told = tuple(what for _, what in sorted(deeds, key=lambda each: each[0]))
    return made, Timeline("simulated", total, tuple(rows), (), told, cpus=one.steps.cpus)


def _begins(one: Simulable, out: Mapping[str, Any]) -> list[int]:
    found = [max(0, int(born)) for born in one.steps.born]
    place = {number: at for at, number in enumerate(one.numbers)}
    for at, action in enumerate(one.actions):
        if action is not None and action.verb == "create":
            found[place[action.thread]] = int(out["at_ns"][at])
    return found


def _thread(
    one: Simulable, out: Mapping[str, Any], part: slice, turns: list[list[int]], begin: int
) -> tuple[list[Action], list[tuple[int, int, str]]]:
    """Its actions, and its slices."""
    actions: list[Action] = []
    slices: list[tuple[int, int, str]] = []
    cursor, turn = begin, 0

    def rest(verb: str, length: int) -> None:
        if length > 0:
            actions.append(Action(verb, amount=length))

    def past(until: int, state: str) -> None:
        nonlocal cursor
        if until > cursor:
            if slices and slices[-1][1:] == (cursor, state):
                slices[-1] = (slices[-1][0], until, state)
            else:
                slices.append((cursor, until, state))
            cursor = until

    for at in range(part.start, part.stop):
        done = int(out["at_ns"][at])
        if done < 0:  # the thread ended behind its last deed
            done = int(turns[-1][1]) if turns and at == part.stop - 1 else cursor
        pieces = []
        while turn < len(turns) and turns[turn][0] < done:
            low, high = max(turns[turn][0], cursor), min(turns[turn][1], done)
            if high > low:
                pieces.append((low, high))
            if turns[turn][1] > done:
                break
            turn += 1
        gaps = sum(b[0] - a[1] for a, b in itertools.pairwise(pieces))
        waited = max(0, int(out["step_ready_ns"][at]) - gaps)
        starts = pieces[0][0] if pieces else done
        past(starts - waited, "blocked")
        rest("ready", waited)
        past(starts, "ready")
        for low, high in pieces:
            if low > cursor:
                rest("ready", low - cursor)
                past(low, "ready")
            rest("run", high - low)
            past(high, "running")
        action = one.actions[at]
        if action is not None:
            actions.append(action)
    return actions, slices


def _row(
    number: int,
    parent: int | None,
    slices: list[tuple[int, int, str]],
    ended: int,
    captured: Timeline | None,
) -> TimelineThread:
    spent = Counter[str]()
    for low, high, state in slices:
        spent[state] += high - low
    known = {thread.id: thread for thread in captured.threads} if captured is not None else {}
    was = known.get(number)
    starts = next((low for low, _, state in slices if state == "running"), ended)
    return TimelineThread(
        number, parent, was.pid if was else 0, was.name if was else "",
        spent["running"], spent["blocked"], spent["ready"], starts, ended, spent["running"],
        slices=tuple(slices),
    )  # fmt: skip
