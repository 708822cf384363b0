"""From the kernel's events to a schedule: who ran, waited, woke whom, and who else had the CPUs. Pure.

Over 400 lines: one pass over the events' columns, whose kinds share the state of all threads.

All in columns: a minute of two hundred threads has millions of events.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from latlab.model import schedule as layouts
from latlab.model.evidence.said import said
from latlab.model.evidence.threads import ScheduleNote
from latlab.model.schedule import SEVERAL, Losses, Schedule, ScheduledThread, Source, State, Wait
from latlab.schedule.context import interrupted_turns, sources_of
from latlab.schedule.moves import came_unseen, moves_of, waited_at, waits_for
from latlab.schedule.syscalls import BY_DESCRIPTOR, SYNCED, TIMED, UNREAD, WAITS, of_32_bit
from latlab.schedule.tree import Member, Stretch
from latlab.system.kernel.samples import Events, name_of

__all__ = ["LATEST", "Facts", "derive", "kin_of"]

Array = np.ndarray[Any, Any]

_IN, _OUT_READY, _OUT_BLOCKED, _OUT_ENDED, _WAKE, _BEGIN = range(6)
#: Of a schedule that leaves out its beginning.
LATEST = 950_000
_STATES = 0x2FF  # why a thread leaves, as the kernel reports it; and whether its control group is frozen
_STOPPED = 0x20C
_RACE_NS = 100_000  # a thread may be woken while it is still on its way out, on another CPU


@dataclass(frozen=True)
class Facts:
    """What was known beside the events.

    Attributes:
        members: threads that were there at the beginning, by tid.
        commands: process -> its command line.
        descriptors: (process, descriptor) -> what it was last.
        sockets: inode -> what the socket is.
        peers: processes of other programs that are followed, too.
        observers: processes of ours that observe: they are nobody's neighbour.
        narrow: processes that run 32-bit programs, whose system calls have other numbers and registers.
        changed: of the descriptors that were several things one after the other: when, and what.
    """

    members: Mapping[int, Member]
    commands: Mapping[int, tuple[str, ...]]
    descriptors: Mapping[tuple[int, int], str]
    sockets: Mapping[int, str]
    peers: frozenset[int] = frozenset()
    observers: frozenset[int] = frozenset()
    narrow: frozenset[int] = frozenset()
    changed: Mapping[tuple[int, int], tuple[Stretch, ...]] = field(default_factory=dict)

    def links(self) -> Iterable[str]:
        """What all the descriptors ever were."""
        yield from self.descriptors.values()
        for stretches in self.changed.values():
            yield from (link for _, _, link in stretches)


def kin_of(events: Events, members: Mapping[int, Member]) -> dict[int, tuple[int, int, int]]:
    """Every thread of the program: tid -> (parent's tid or -1, when it began or -1, its process).

    Begins with the members, and adds what they fork.
    """
    kin = {one.tid: (-1, -1, one.pid) for one in members.values()}
    forks = events["sched:sched_process_fork"]
    switches = events["sched:sched_switch"]
    born = np.isin(switches["tid"], forks["child_pid"])  # a server's switches are millions
    process_of = dict(zip(switches["tid"][born].tolist(), switches["pid"][born].tolist(), strict=True))
    for parent, child, time in zip(
        forks["tid"].tolist(), forks["child_pid"].tolist(), forks["time_ns"].tolist(), strict=True
    ):
        if parent in kin:
            # A member whose making was seen was made after the tracing began, and listed after that.
            process = members[child].pid if child in members else process_of.get(child, child)
            kin[child] = (parent, time, process)
    return kin


def derive(
    events: Events,
    facts: Facts,
    began_ns: int,
    ended_ns: int,
    method: str,
    exit_code: int | None = None,
    *,
    most: int | None = None,
) -> Schedule:
    """The schedule of the members and all that they made, from `began_ns` to `ended_ns`.

    Args:
        most: of more events than these, or where some are forgotten, only the latest `LATEST` make the
            schedule, which says how long that is; all where it is None.
    """
    observed_ns = began_ns
    kin = kin_of(events, facts.members)
    tids = np.array(sorted(kin, key=lambda tid: (kin[tid][1], tid)), np.int64)
    index_of = {int(tid): index for index, tid in enumerate(tids)}
    lookup = _Lookup(tids)
    switches = events["sched:sched_switch"]
    rows = _until(_rows(events, lookup, kin, tids), ended_ns)
    happened = len(rows["time"])
    if events.forgotten.samples or (most is not None and happened > most):
        rows, began_ns = _latest(rows, LATEST, max(began_ns, events.forgotten.until_ns))
    names = _names(switches, facts.members, tids)
    moves = moves_of(events, lookup, began_ns)
    intervals, wakes, ends = _intervals(rows, len(tids), began_ns, ended_ns, moves)
    objects, numbers = _objects(facts)
    deadlines = _say_waits(intervals, switches, facts, kin, tids, numbers)
    threads = _threads(tids, kin, index_of, names, facts, ends, began_ns, ended_ns)
    seen = float((intervals["end"] - intervals["begin"]).sum()) or 1.0
    unseen = float((intervals["end"] - intervals["begin"])[intervals["state"] == State.UNSEEN].sum()) / seen
    breaks, hidden_ns = _breaks(switches)
    if events.lost:  # a thread that sleeps all the while, as it seems, may have run in between
        unseen = max(unseen, hidden_ns / max(1, (ended_ns - observed_ns) * len(events.cpus)))
    losses = Losses(
        method,
        events.lost,
        breaks,
        len(switches),
        unseen,
        ((began_ns, ended_ns),),
        (*(() if "call" in switches.columns else (_BLIND,)), *_narrow_notes(facts)),
    )
    if began_ns > observed_ns:
        whole_s, last_s = (ended_ns - observed_ns) / 1e9, (ended_ns - began_ns) / 1e9
        losses = losses.of_the_last(whole_s, happened, last_s, more=events.forgotten.samples > 0)
    foreign, watching, foreign_names = _foreign(switches, lookup, facts.observers, began_ns, ended_ns)
    return Schedule(
        began_ns, ended_ns, events.cpus, threads, intervals, wakes, foreign, losses,
        objects, foreign_names, exit_code=exit_code, watching=watching, priorities=_priorities(switches),
        interrupted=interrupted_turns(switches, lookup, began_ns, ended_ns), deadlines=deadlines,
        left_out_ns=began_ns - observed_ns,
    )  # fmt: skip


def _narrow_notes(facts: Facts) -> tuple[str, ...]:
    """Of which processes it isn't known for which lock, connection or file they wait."""
    return tuple(
        said(ScheduleNote.NARROW, name=Path((facts.commands.get(pid) or ("a program",))[0]).name, pid=pid)
        for pid in sorted(facts.narrow & {one.pid for one in facts.members.values()})
    )


_BLIND = "on what threads wait isn't known: without BPF no system call is read; run as root, or with CAP_BPF"


def _latest(rows: dict[str, Array], most: int, began_ns: int) -> tuple[dict[str, Array], int]:
    """The last of the rows, and of each thread the one before them, which says in what state it was."""
    time, thread = rows["time"], rows["thread"]
    first = max(0, len(time) - most)
    begin = max(began_ns, int(np.partition(time, first)[first]) if len(time) else 0)
    keep = time >= begin
    before = np.flatnonzero(~keep)
    if len(before):
        last = np.concatenate([thread[before][1:] != thread[before][:-1], [True]])
        keep[before[last]] = True
    return {key: value[keep] for key, value in rows.items()}, begin


def _until(rows: dict[str, Array], ended_ns: int) -> dict[str, Array]:
    """Without what happened after the end, such as by our telling the program to end.

    The first event of a thread behind it stays, for it says in what state the thread was until then; who woke
    it is not what it waited for.
    """
    behind = rows["time"] > ended_ns
    again = np.zeros_like(behind)
    again[1:] = behind[1:] & behind[:-1] & (rows["thread"][1:] == rows["thread"][:-1])
    rows["waker"] = np.where(behind, -1, rows["waker"])
    rows["source"] = np.where(behind, int(Source.UNKNOWN), rows["source"])
    return {key: value[~again] for key, value in rows.items()}


class _Lookup:
    """Thread number to index, for whole columns."""

    def __init__(self, tids: Array) -> None:
        self._order = np.argsort(tids)
        self._sorted = tids[self._order]

    def __call__(self, column: Array) -> Array:
        """The index of each, -1 for strangers."""
        if not len(self._sorted):
            return np.full(len(column), -1, np.int64)
        wanted = column.astype(np.int64)
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        return np.where(self._sorted[at] == wanted, self._order[at], -1)


def _rows(
    events: Events, lookup: _Lookup, kin: Mapping[int, tuple[int, int, int]], tids: Array
) -> dict[str, Array]:
    """What happened to our threads, sorted by thread and time: kind, cpu, switch row, waker, source."""
    switches, wakings = events["sched:sched_switch"], events["sched:sched_waking"]
    coming = lookup(switches["next_pid"])
    ours = np.flatnonzero(coming >= 0)
    entering = _part(coming[ours], switches["time_ns"][ours], _IN, switches["cpu"][ours], ours)
    going = lookup(switches["prev_pid"])
    ours = np.flatnonzero(going >= 0)
    state = switches["prev_state"][ours].astype(np.int64) & 0xFF
    kinds = np.where(state == 0, _OUT_READY, np.where(state & 0x30 != 0, _OUT_ENDED, _OUT_BLOCKED))
    leaving = _part(going[ours], switches["time_ns"][ours], kinds, switches["cpu"][ours], ours)
    woken = lookup(wakings["event_pid"] if "event_pid" in wakings.columns else wakings["pid"])
    ours = np.flatnonzero(woken >= 0)
    source = sources_of(events, ours)
    who = lookup(wakings["tid"][ours])
    told = (source == Source.THREAD) | (source == Source.NETWORK)
    nobody = (wakings["tid"][ours] == 0) & (source == Source.THREAD)
    waking = _part(woken[ours], wakings["time_ns"][ours], _WAKE, wakings["cpu"][ours], np.full(len(ours), -1))
    waking["waker"] = np.where(told, who, -1)
    waking["source"] = np.where(nobody, int(Source.INTERRUPT), source)
    born = np.array([index for index, tid in enumerate(tids.tolist()) if kin[tid][1] >= 0], np.int64)
    # Of one that was made before the beginning as it was: it may have ended before that, too.
    when = np.array([kin[int(tids[index])][1] for index in born.tolist()], np.int64)
    beginning = _part(born, when, _BEGIN, np.full(len(born), -1), np.full(len(born), -1))
    parents = np.array([kin[int(tids[index])][0] for index in born.tolist()], np.int64)
    beginning["waker"] = lookup(parents)
    parts = (beginning, entering, leaving, waking)
    rows = _sorted(parts)
    came = came_unseen(events, lookup, {**rows, "came": rows["kind"] == _IN})
    if not len(came):
        return rows
    return _sorted((rows, _part(came["thread"], came["time"], _IN, came["from"], np.full(len(came), -1))))


def _sorted(parts: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """By thread and time; at one instant the beginning precedes a wake-up, and that the switch in, or out."""
    rows = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    rank = np.choose(rows["kind"], [2, 3, 3, 3, 1, 0])
    order = np.lexsort((rank, rows["time"], rows["thread"]))
    return {key: value[order] for key, value in rows.items()}


def _part(thread: Array, time: Array, kind: Any, cpu: Array, switch: Array) -> dict[str, Array]:
    count = len(thread)
    return {
        "thread": thread.astype(np.int64),
        "time": time.astype(np.int64),
        "kind": np.broadcast_to(np.asarray(kind, np.int64), (count,)).copy(),
        "cpu": cpu.astype(np.int64),
        "switch": switch.astype(np.int64),
        "waker": np.full(count, -1, np.int64),
        "source": np.full(count, int(Source.UNKNOWN), np.int64),
    }


def _without_idle_wakes(rows: dict[str, Array]) -> dict[str, Array]:
    """Leave out wake-ups of threads that were not blocked; one that overtook its switch out follows it."""
    kind, thread, time = rows["kind"], rows["thread"], rows["time"]
    count = len(kind)
    if not count:
        return rows
    # A wake-up right before a switch out that blocks, with no other after it, belongs behind that.
    following = np.arange(count) + 1
    late = np.zeros(count, bool)
    late[:-1] = (
        (kind[:-1] == _WAKE)
        & (kind[1:] == _OUT_BLOCKED)
        & (thread[:-1] == thread[1:])
        & (time[1:] - time[:-1] < _RACE_NS)
    )
    after = np.full(count, -1)
    after[:-2] = np.where(thread[2:] == thread[:-2], kind[2:], -1)
    late &= after == _IN  # the thread ran again though nobody woke it later
    swapped = np.arange(count)
    at = np.flatnonzero(late)
    swapped[at], swapped[at + 1] = following[at], at
    rows = {key: value[swapped] for key, value in rows.items()}
    rows["time"][at + 1] = np.maximum(rows["time"][at + 1], rows["time"][at])
    kind, thread = rows["kind"], rows["thread"]
    place = np.arange(count)
    last = np.maximum.accumulate(np.where(kind != _WAKE, place, -1))
    before = np.concatenate([[-1], place[:-1]])
    same = (last >= 0) & (thread[np.maximum(last, 0)] == thread)
    first = np.concatenate([[True], thread[1:] != thread[:-1]])
    useful = (kind != _WAKE) | first | (same & (kind[np.maximum(last, 0)] == _OUT_BLOCKED) & (last == before))
    return {key: value[useful] for key, value in rows.items()}


def _intervals(
    rows: dict[str, Array], threads: int, began_ns: int, ended_ns: int, moves: Array | None
) -> tuple[Array, Array, dict[int, int]]:
    """Intervals, wakes, and when each thread ended."""
    rows = _without_idle_wakes(rows)
    kind, thread, time = rows["kind"], rows["thread"], np.clip(rows["time"], began_ns, ended_ns)
    count = len(kind)
    first = np.concatenate([[True], thread[1:] != thread[:-1]]) if count else np.zeros(0, bool)
    last = np.concatenate([thread[1:] != thread[:-1], [True]]) if count else np.zeros(0, bool)
    # Behind an event: the state that it brings.
    state = np.choose(kind, [State.RUNNING, State.RUNNABLE, State.BLOCKED, State.UNSEEN, State.RUNNABLE,
                             State.RUNNABLE]) if count else np.zeros(0, np.int64)  # fmt: skip
    end = np.concatenate([time[1:], [ended_ns]]) if count else time
    end = np.where(last, ended_ns, end)
    following = np.concatenate([kind[1:], [-1]]) if count else kind
    following = np.where(last, -1, following)
    # A switch in followed by a switch in, or a switch out by a switch out: one in between was not seen.
    gap = ((kind == _IN) & np.isin(following, (_IN, _WAKE))) | (
        np.isin(kind, (_OUT_READY, _OUT_BLOCKED, _WAKE, _BEGIN))
        & np.isin(following, (_OUT_READY, _OUT_BLOCKED, _OUT_ENDED))
    )
    state = np.where(gap, State.UNSEEN, state)
    body = np.zeros(count, layouts.INTERVAL)
    body["thread"], body["state"], body["begin"], body["end"] = thread, state, time, end
    body["cpu"] = np.where(np.isin(state, (State.RUNNING,)), rows["cpu"], -1)
    ran = np.isin(kind, (_IN, _OUT_READY, _OUT_BLOCKED))
    waits_at = waited_at(rows, following == _IN, moves) if moves is not None else waits_for(
        rows["cpu"], ran, following == _IN, last
    )  # fmt: skip
    body["cpu"] = np.where(state == State.RUNNABLE, waits_at, body["cpu"])
    body["waker"], body["object"], body["sample"] = -1, -1, -1
    body["source"] = int(Source.UNKNOWN)
    # Who ended a blocked interval stands in the row behind it.
    if count:
        next_waker = np.concatenate([rows["waker"][1:], [-1]])
        next_source = np.concatenate([rows["source"][1:], [int(Source.UNKNOWN)]])
        ended = (state == State.BLOCKED) & (following == _WAKE)
        body["waker"] = np.where(ended, next_waker, -1)
        body["source"] = np.where(ended, next_source, int(Source.UNKNOWN))
        # Until the next switch, `object` carries the row of the switch out, which knows the system call.
        body["object"] = np.where(kind == _OUT_BLOCKED, rows["switch"], -1)
    ends = {int(thread[at]): int(time[at]) for at in np.flatnonzero(kind == _OUT_ENDED).tolist()}
    body = body[(kind != _OUT_ENDED) & (body["end"] > body["begin"])]
    head = _before_the_first(rows, first, threads, began_ns, ended_ns)
    intervals = np.concatenate([head, body])
    intervals = intervals[np.lexsort((intervals["begin"], intervals["thread"]))]
    woke = (kind == _WAKE) & (rows["waker"] >= 0)
    wakes = np.zeros(int(woke.sum()), layouts.WAKE)
    wakes["time"], wakes["waker"], wakes["wakee"] = time[woke], rows["waker"][woke], thread[woke]
    wakes["cpu"], wakes["source"] = rows["cpu"][woke], rows["source"][woke]
    return intervals, wakes[np.argsort(wakes["time"], kind="stable")], ends


def _before_the_first(
    rows: dict[str, Array], first: Array, threads: int, began_ns: int, ended_ns: int
) -> Array:
    """What each thread did until its first event; of one without any, all the time."""
    head = np.zeros(threads, layouts.INTERVAL)
    head["thread"], head["begin"], head["end"] = np.arange(threads), began_ns, ended_ns
    head["waker"], head["object"], head["sample"], head["cpu"] = -1, -1, -1, -1
    head["source"] = int(Source.UNKNOWN)
    head["state"] = State.BLOCKED
    at = np.flatnonzero(first)
    who, kind = rows["thread"][at], rows["kind"][at]
    head["end"][who] = np.clip(rows["time"][at], began_ns, ended_ns)
    head["state"][who] = np.choose(kind, [State.RUNNABLE, State.RUNNING, State.RUNNING, State.RUNNING,
                                          State.BLOCKED, State.UNSEEN])  # fmt: skip
    head["cpu"][who] = np.where(np.isin(kind, (_OUT_READY, _OUT_BLOCKED, _OUT_ENDED)), rows["cpu"][at], -1)
    woken = kind == _WAKE
    head["waker"][who[woken]], head["source"][who[woken]] = (
        rows["waker"][at][woken],
        rows["source"][at][woken],
    )
    begun = np.zeros(threads, bool)
    begun[who[kind == _BEGIN]] = True
    return head[~begun & (head["end"] > head["begin"])]


def _objects(facts: Facts) -> tuple[dict[int, str], dict[str, int]]:
    """Objects by their number, and the number of each name."""
    numbers: dict[str, int] = {}
    for name in facts.links():
        numbers.setdefault(_name_of(name, facts.sockets), len(numbers))
    return {number: name for name, number in numbers.items()}, numbers


def _name_of(link: str, sockets: Mapping[int, str]) -> str:
    match = re.fullmatch(r"socket:\[(\d+)\]", link)
    return sockets.get(int(match[1]), link) if match else link


def _wait_of_link(link: str) -> int:
    if link.startswith(("pipe:", "fifo:")):
        return Wait.PIPE
    if link.startswith("socket:"):
        return Wait.SOCKET
    if link.startswith("anon_inode:"):
        if "eventfd" in link:
            return Wait.EVENTFD
        if "timerfd" in link:
            return Wait.TIMER
        if "signalfd" in link:
            return Wait.SIGNAL
        return Wait.POLL
    if link.startswith(("/dev/pts", "/dev/tty", "/dev/ptmx")):
        return Wait.SIGNAL if not link else Wait.PIPE
    return Wait.DISK if link.startswith("/") else Wait.UNKNOWN


def _say_waits(
    intervals: Array,
    switches: Any,
    facts: Facts,
    kin: Mapping[int, tuple[int, int, int]],
    tids: Array,
    numbers: Mapping[str, int],
) -> Array:
    """Fill in on what each blocked interval waits, its kind and its object; until when at most it waits."""
    blocked = np.flatnonzero(intervals["state"] == State.BLOCKED)
    place = intervals["object"][blocked]
    intervals["object"] = -1
    process = np.array([kin[int(tid)][2] for tid in tids.tolist()], np.int64)
    pid = process[intervals["thread"][blocked]] if len(blocked) else np.zeros(0, np.int64)
    if "call" in switches.columns and len(switches):
        row = np.maximum(place, 0)
        call, argument = switches["call"][row].copy(), switches["argument"][row].copy()
        state = switches["prev_state"][row].astype(np.int64) & _STATES
    else:
        call, argument = np.full(len(blocked), -2), np.full(len(blocked), -1)
        row = np.maximum(place, 0)
        state = (
            switches["prev_state"][row].astype(np.int64) & _STATES
            if len(switches)
            else np.ones(len(blocked), int)
        )
    for at in np.flatnonzero(place < 0).tolist():  # blocked from the beginning on: /proc said in what
        one = facts.members.get(int(tids[intervals["thread"][blocked[at]]]))
        said = one.call if one is not None else ()
        call[at], argument[at], state[at] = (said[0] if said else -2), (said[1] if len(said) > 1 else -1), 1
        if one is not None and one.state in "Tt":
            state[at] = 4
    if facts.narrow:
        strange = np.isin(pid, np.fromiter(facts.narrow, np.int64)) & (call >= 0)
        known = of_32_bit(platform.machine())
        call[strange] = [known.get(number, UNREAD) for number in call[strange].tolist()]
        argument[strange] = -1
    wait = np.full(len(blocked), int(Wait.UNKNOWN), np.int64)
    thing = np.full(len(blocked), -1, np.int64)
    times = intervals[["begin", "end"]][blocked]
    for number in np.unique(call).tolist():
        rows = np.flatnonzero(call == number)
        kind = WAITS.get(number)
        if kind in (Wait.FUTEX, Wait.SEMAPHORE):
            wait[rows], thing[rows] = kind, argument[rows]
        elif kind == BY_DESCRIPTOR:
            _by_descriptor(rows, pid, argument, times, facts, numbers, wait, thing)
        elif kind is not None:
            wait[rows] = kind
            if kind in (Wait.POLL, Wait.FILE_LOCK) or number in SYNCED:
                _by_descriptor(rows, pid, argument, times, facts, numbers, np.zeros_like(wait), thing)
        elif number == -1:
            wait[rows] = np.where(state[rows] & 2, Wait.FAULT, Wait.UNKNOWN)
    wait = np.where((wait == Wait.UNKNOWN) & (state & 2 != 0), int(Wait.DISK), wait)
    wait = np.where(state & _STOPPED != 0, int(Wait.STOPPED), wait)
    # A futex whose time-out ends the wait stays one: who looks up and waits on is still waiting for it.
    by_timer = (intervals["source"][blocked] == Source.TIMER) & np.isin(wait, (Wait.POLL, Wait.SOCKET))
    wait = np.where(by_timer, int(Wait.TIMER), wait)
    thing = np.where(by_timer & (thing < 0), SEVERAL, thing)
    intervals["wait"][blocked] = wait
    intervals["object"][blocked] = thing
    if "fourth" not in switches.columns or not len(switches):
        return np.zeros(0, layouts.DEADLINE)
    # An int: what the upper half of its register holds says nothing.
    limit_ms = switches["fourth"][row].astype(np.int32).astype(np.int64)
    timed = np.flatnonzero((place >= 0) & np.isin(call, np.fromiter(TIMED, np.int64)) & (limit_ms > 0))
    deadlines = np.zeros(len(timed), layouts.DEADLINE)
    for key in ("thread", "begin"):
        deadlines[key] = intervals[key][blocked[timed]]
    deadlines["due"] = deadlines["begin"] + limit_ms[timed] * 1_000_000
    return deadlines


def _by_descriptor(
    rows: Array,
    pid: Array,
    argument: Array,
    times: Array,
    facts: Facts,
    numbers: Mapping[str, int],
    wait: Array,
    thing: Array,
) -> None:
    pairs, which = np.unique(np.stack([pid[rows], argument[rows]], axis=1), axis=0, return_inverse=True)
    which = which.reshape(-1)
    for index, (one, descriptor) in enumerate(pairs.tolist()):
        here = rows[which == index]
        stretches = facts.changed.get((one, descriptor), ())
        if stretches:
            wait[here], thing[here] = _by_stretches(times[here], stretches, facts.sockets, numbers)
            continue
        link = facts.descriptors.get((one, descriptor), "")
        wait[here] = _wait_of_link(link) if link else Wait.UNKNOWN
        thing[here] = numbers.get(_name_of(link, facts.sockets), -1) if link else -1


def _by_stretches(
    times: Array, stretches: Sequence[Stretch], sockets: Mapping[int, str], numbers: Mapping[str, int]
) -> tuple[Array, Array]:
    """What a descriptor was during each wait, as kinds of waits and numbers of things: by the last look in
    it, else by those before and after it.

    A wait between two looks that differ is on one of the two: only what they have in common is known of it.
    """
    first, last = (np.array(column, np.int64) for column in list(zip(*stretches, strict=True))[:2])
    kinds = np.array([_wait_of_link(link) for _, _, link in stretches], np.int64)
    things = np.array([numbers.get(_name_of(link, sockets), -1) for _, _, link in stretches], np.int64)
    begin, end = times["begin"], times["end"]
    after = np.minimum(np.searchsorted(last, begin), len(first) - 1)  # the first that was still so, or came
    before = np.searchsorted(first, end, side="right") - 1  # the last that had been found
    seen = np.maximum(before, 0)
    among = (before >= after) | (before < 0)  # a look in the wait, or on one side of it only
    either = np.where(kinds[seen] == kinds[after], kinds[seen], int(Wait.UNKNOWN))
    return np.where(among, kinds[seen], either), np.where(among, things[seen], -1)


def _names(switches: Any, members: Mapping[int, Member], tids: Array) -> dict[int, str]:
    names = {tid: one.name for tid, one in members.items()}
    for key, comm in (("next_pid", "next_comm"), ("prev_pid", "prev_comm")):
        wanted = np.isin(switches[key], tids)
        ids, last = np.unique(switches[key][wanted][::-1], return_index=True)
        texts = switches[comm][wanted][::-1][last]
        names.update((int(i), name_of(t)) for i, t in zip(ids.tolist(), texts.tolist(), strict=True))
    return names


def _threads(
    tids: Array,
    kin: Mapping[int, tuple[int, int, int]],
    index_of: Mapping[int, int],
    names: Mapping[int, str],
    facts: Facts,
    ends: Mapping[int, int],
    began_ns: int,
    ended_ns: int,
) -> tuple[ScheduledThread, ...]:
    threads = []
    for index, tid in enumerate(tids.tolist()):
        parent, born, pid = kin[tid]
        threads.append(
            ScheduledThread(
                tid,
                pid,
                names.get(tid, str(tid)),
                names.get(pid, str(pid)),
                max(born, began_ns),
                ends.get(index, ended_ns),
                index in ends,
                index_of.get(parent, -1),
                _command(pid, kin, names, facts.commands),
                peer=pid in facts.peers,
            )
        )
    return tuple(threads)


def _command(
    pid: int,
    kin: Mapping[int, tuple[int, int, int]],
    names: Mapping[int, str],
    commands: Mapping[int, tuple[str, ...]],
) -> tuple[str, ...]:
    """What a process was started as.

    One that ended before anybody looked has its parent's if it has its name: it is still that program.
    """
    seen: set[int] = set()
    while pid not in commands and pid in kin and pid not in seen:
        seen.add(pid)
        parent = kin[pid][0]
        above = kin[parent][2] if parent in kin else -1
        if above not in names or names[above] != names.get(pid):
            return ()
        pid = above
    return commands.get(pid, ())


def _foreign(
    switches: Any, lookup: _Lookup, observers: frozenset[int], began_ns: int, ended_ns: int
) -> tuple[Array, Array, dict[int, str]]:
    """Who else had the CPUs, apart from those of them who observe, and how they are called."""
    parts, names = [np.zeros(0, layouts.FOREIGN)], {}
    ours = np.unique(switches["tid"][np.isin(switches["pid"], np.fromiter(observers, np.int64))])
    for cpu in np.unique(switches["cpu"]).tolist():
        rows = np.flatnonzero(switches["cpu"] == cpu)
        time, coming = switches["time_ns"][rows], switches["next_pid"][rows].astype(np.int64)
        end = np.concatenate([time[1:], [ended_ns]])
        keep = (coming != 0) & (lookup(coming) < 0) & (end > began_ns) & (time < ended_ns)
        part = np.zeros(int(keep.sum()), layouts.FOREIGN)
        part["cpu"], part["tid"] = cpu, coming[keep]
        part["begin"], part["end"] = np.maximum(time[keep], began_ns), np.minimum(end[keep], ended_ns)
        parts.append(part)
    everybody = np.concatenate(parts)
    observes = np.isin(everybody["tid"], ours)
    foreign, watching = everybody[~observes], everybody[observes]
    ids, first = np.unique(switches["next_pid"], return_index=True)
    wanted = set(np.unique(foreign["tid"]).tolist())
    for tid, at in zip(ids.tolist(), first.tolist(), strict=True):
        if tid in wanted:
            names[tid] = name_of(switches["next_comm"][at])
    return foreign, watching, names


def _priorities(switches: Any) -> dict[int, int]:
    """Of each thread the last that was seen."""
    if "prev_prio" not in switches.columns:
        return {}
    ids, last = np.unique(switches["prev_pid"][::-1], return_index=True)
    found = switches["prev_prio"][::-1][last]
    return dict(zip(ids.tolist(), found.astype(np.int64).tolist(), strict=True))


def _breaks(switches: Any) -> tuple[int, int]:
    """Switches whose leaving thread is another than the one that came last on their CPU, and since when.

    Returns:
        how many, and the ns from the switch before each of them, in which others were not seen.
    """
    found = hidden_ns = 0
    for cpu in np.unique(switches["cpu"]).tolist():
        rows = switches["cpu"] == cpu
        other = switches["prev_pid"][rows][1:] != switches["next_pid"][rows][:-1]
        found += int(other.sum())
        hidden_ns += int(np.maximum(np.diff(switches["time_ns"][rows].astype(np.int64))[other], 0).sum())
    return found, hidden_ns
