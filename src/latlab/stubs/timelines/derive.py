"""From scheduler events to timelines and action files: pure, after the capture.

Over 400 lines: one pass over the events, whose cases share the state of all threads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from latlab.errors import InputError
from latlab.model.evidence.said import said
from latlab.model.evidence.studies import TimelineSaid
from latlab.model.stubs import Timeline, TimelineThread
from latlab.stubs.timelines.actions import Action, Program, blocked
from latlab.stubs.timelines.events import DEAD, Event, EventLog

# A shorter blocked slice can't be slept (the kernel's own wake-up takes about as long): it becomes a run.
MERGE_NS = 20_000
# A switch takes less: from the leaving thread's last charge of CPU time to the event.
SWITCH_NS = 50_000
# What a thread does only while it has a CPU.
_ACTS = ("waking", "fork", "exit", "exec", "wait", "fault")
# Switches against sched_stat_runtime; beyond this the difference is stated.
RUNTIME_TOLERANCE = 0.01


@dataclass
class _Slice:
    begin: int
    end: int
    state: str
    cpu: int = -1  # of a running slice
    woken_by: int = 0  # of a blocked slice: the thread that ended it; 0 for an interrupt or a stranger
    woken_at: int = 0


@dataclass
class _Thread:
    tid: int
    parent: int | None
    begin: int
    end: int = 0
    slices: list[_Slice] = field(default_factory=list)
    marks: list[tuple[int, str]] = field(default_factory=list)
    state: str = "ready"
    since: int = 0
    exiting_at: int = 0
    woken_by: int = 0
    woken_at: int = 0
    runtime: int = 0
    runtime_since_switch: int = 0
    charged_at: int = 0  # when the kernel last charged it CPU time
    acted_at: int = 0  # when it last woke or made another
    repaired: int = 0
    faults: int = 0
    switches: int = 0
    cpu: int = -1
    waits: list[tuple[int, int]] = field(default_factory=list)  # of wait4: when, for which pid (or 0: any)

    def close(self, at: int) -> None:
        if at > self.since or self.state == "blocked":
            cpu = self.cpu if self.state == "running" else -1
            self.slices.append(_Slice(self.since, at, self.state, cpu, self.woken_by, self.woken_at))
        self.since = at


class _Reader:
    """Follows a process tree through the events.

    Args:
        there: the state of threads that were there before the recording, and `since` when that began.
    """

    def __init__(self, root: int, there: Mapping[int, str] | None = None, since: int = 0) -> None:
        self.root = root
        self.threads: dict[int, _Thread] = {}
        self.zero = since if there else 0
        for tid, state in (there or {}).items():
            self.threads[tid] = _Thread(tid, None, since, state=state, since=since)

    def feed(self, events: Iterable[Event]) -> None:
        for event in events:
            if not self.threads:
                # The tree begins when its root program is executed; what forked it is not part of it.
                if event.kind == "exec" and event.tid == self.root:
                    self.zero = event.time_ns
                    self.threads[self.root] = _Thread(self.root, None, event.time_ns, state="running",
                                                      since=event.time_ns, cpu=event.cpu)  # fmt: skip
                continue
            acting = self.threads.get(event.tid) if event.kind in _ACTS else None
            if acting is not None and not acting.end and acting.state != "running":
                self._found_running(acting, event.time_ns)
            getattr(self, f"_{event.kind}")(event)
            if event.kind in ("waking", "fork", "exit") and event.tid in self.threads:
                self.threads[event.tid].acted_at = event.time_ns

    def _switch(self, event: Event) -> None:
        leaving = self.threads.get(event.tid)
        if leaving is not None and not leaving.end:
            self._leave(leaving, event)
        coming = self.threads.get(event.other)
        if coming is not None and not coming.end:
            self._come(coming, event)

    def _come(self, coming: _Thread, event: Event) -> None:
        if coming.state == "running":  # its switch-out was lost: it ran until it was last charged
            coming.close(max(coming.since, coming.charged_at))
            coming.state, coming.woken_by, coming.woken_at = "blocked", 0, 0
            coming.repaired += 1
            coming.marks.append((coming.since, "switch-out lost"))
        elif coming.runtime_since_switch:  # it ran in between, and both switches were lost
            self._repair(coming, coming.charged_at)
            coming.close(coming.charged_at)
            coming.state = "ready"
        coming.close(event.time_ns)  # blocked where its waking was lost
        coming.state, coming.runtime_since_switch, coming.woken_by = "running", 0, 0
        coming.charged_at = 0
        coming.switches += 1
        if coming.cpu not in (-1, event.cpu):
            coming.marks.append((event.time_ns, f"to CPU {event.cpu}"))
        coming.cpu = event.cpu

    @classmethod
    def _found_running(cls, thread: _Thread, at: int) -> None:
        """Its switch-in was lost: only a thread that has a CPU does something.

        From when on it had it, the next charge of CPU time says; see `_begin_at_charge`.
        """
        if thread.runtime_since_switch:
            cls._repair(thread, thread.charged_at)
            return
        thread.close(at)
        thread.state = "running"
        thread.repaired += 1
        thread.marks.append((at, "switch-in lost"))

    @staticmethod
    def _repair(thread: _Thread, until: int) -> None:
        """Its switch-in was lost: sched_stat_runtime says for how long it ran until then."""
        came = max(thread.since, until - thread.runtime_since_switch)
        thread.close(came)
        thread.state = "running"
        thread.repaired += 1
        thread.marks.append((came, "switch-in lost"))

    def _leave(self, leaving: _Thread, event: Event) -> None:
        leaving.cpu = event.cpu  # where it was switched to may have been lost
        if leaving.state != "running":
            self._repair(leaving, leaving.charged_at or event.time_ns)
        end = event.time_ns
        if leaving.charged_at and end - leaving.charged_at < SWITCH_NS:
            # What follows the last charge is charged to the next thread; what it does to others comes before.
            end = max(leaving.charged_at, leaving.acted_at, leaving.since)
        leaving.close(end)
        leaving.runtime_since_switch = 0
        if event.value & DEAD:
            leaving.end = event.time_ns
        elif event.value == 0:
            leaving.state = "ready"
            leaving.marks.append((event.time_ns, "preempted"))
        else:
            leaving.state, leaving.woken_by, leaving.woken_at = "blocked", 0, 0

    def _waking(self, event: Event) -> None:
        woken = self.threads.get(event.other)
        if woken is None or woken.end or woken.state != "blocked":
            return
        by_us = not event.value and event.tid in self.threads
        woken.woken_by = event.tid if by_us else 0
        woken.woken_at = event.time_ns
        woken.close(event.time_ns)
        woken.state, woken.woken_by = "ready", 0

    def _fork(self, event: Event) -> None:
        if event.tid in self.threads:
            self.threads[event.other] = _Thread(event.other, event.tid, event.time_ns, since=event.time_ns)

    def _exec(self, event: Event) -> None:
        if event.tid in self.threads:
            self.threads[event.tid].marks.append((event.time_ns, "exec"))

    def _exit(self, event: Event) -> None:
        thread = self.threads.get(event.tid)
        if thread is not None and not thread.exiting_at:
            thread.exiting_at = event.time_ns

    def _wait(self, event: Event) -> None:
        thread = self.threads.get(event.tid)
        if thread is not None:
            thread.waits.append((event.time_ns, event.other))

    def _runtime(self, event: Event) -> None:
        thread = self.threads.get(event.tid)
        if thread is None or thread.end:
            return
        if thread.state == "running" and not thread.charged_at:
            self._begin_at_charge(thread, event.time_ns - event.value)
        thread.runtime += event.value
        thread.runtime_since_switch += event.value
        thread.charged_at = event.time_ns

    @staticmethod
    def _begin_at_charge(thread: _Thread, begin: int) -> None:
        """A thread is charged from the begin of the switch to it, which may take 30 us."""
        before = thread.slices[-1] if thread.slices else None
        if before is not None and before.state == "ready" and before.end == thread.since > begin:
            thread.since = before.end = max(before.begin, begin)

    def _fault(self, event: Event) -> None:
        thread = self.threads.get(event.tid)
        if thread is not None:
            thread.faults += 1
            thread.marks.append((event.time_ns, "page fault"))


def derive(
    log: EventLog, root: int, *, merge_ns: int = MERGE_NS, there: Iterable[int] = ()
) -> tuple[Timeline, Program]:
    """The timeline of a process tree, and the action files that rebuild it.

    Args:
        log: the events of the whole machine.
        root: process number of the program that was started, or ran already.
        merge_ns: blocked slices shorter than this become part of the run around them.
        there: threads of the tree that were there before the recording, where the root ran already. Without
            them, of a root that is never executed in the events, those that the events tell of.

    Raises:
        InputError: there is nothing of the root in these events.
    """
    executed = any(event.kind == "exec" and event.tid == root for event in log.events)
    events, begun = log.events, {}
    if there or not executed:
        made = next((i for i, one in enumerate(events) if one.kind == "fork" and one.other == root), None)
        begun = _states(log, root, there) if made is None else {root: "ready"}
        events = events[made or 0 :]  # from its making on, where that was seen
    reader = _Reader(root, begun, events[0].time_ns if events else 0)
    reader.feed(events)
    if not reader.threads:
        raise InputError("events", f"there is nothing of process {root} in them")
    last = max((event.time_ns for event in log.events), default=reader.zero)
    threads = list(reader.threads.values())
    outlived = [thread for thread in threads if not thread.end]
    for thread in threads:
        if not thread.end:
            thread.close(last)
            thread.end = last
    ids = {thread.tid: index for index, thread in enumerate(threads)}
    cutter = _Cutter(reader.threads, ids, merge_ns)
    program = Program({ids[thread.tid]: cutter.actions(thread) for thread in threads}, "capture")
    program, slept = _untangled(program, cutter.lengths)
    budgets = program.budgets_ns()
    rows = tuple(_row(thread, ids, reader.zero, log, budgets[ids[thread.tid]]) for thread in threads)
    total = max(thread.end for thread in threads) - reader.zero
    notes = [*_notes(threads, ids, log, merge_ns, cutter.merged)]
    if slept:
        notes.append(said(TimelineSaid.SLEPT, waits=slept))
    if outlived:
        which = ", ".join(str(ids[thread.tid]) for thread in outlived[:8])
        notes.append(said(TimelineSaid.OUTLIVED, threads=len(outlived), which=which))
    # What is slept is not a join any more.
    left = {action.text() for actions in program.threads.values() for action in actions}
    order = tuple(what for _, what in sorted(cutter.order) if what in left)
    others = _others_ns(log.events, ids.keys(), reader.zero, reader.zero + total)
    return Timeline("captured", total, rows, tuple(notes), order, reader.zero, others_ns=others), program


def _others_ns(events: Sequence[Event], own: Collection[int], begin: int, end: int) -> int:
    """For how long threads that are not its own had CPUs."""
    running: dict[int, tuple[int, int]] = {}  # by CPU: who, and since when
    found = 0
    for event in events:
        if event.kind == "switch":
            who, since = running.get(event.cpu, (0, 0))
            if who and who not in own:
                found += max(0, min(event.time_ns, end) - max(since, begin))
            running[event.cpu] = event.other, event.time_ns
    for who, since in running.values():
        if who and who not in own:
            found += max(0, end - max(since, begin))
    return found


def _states(log: EventLog, root: int, there: Iterable[int]) -> dict[int, str]:
    """What threads did that were there before the recording, by the first event of each."""
    wanted = set(there) or {tid for tid, pid in log.processes.items() if pid == root} | {root}
    made = {event.other for event in log.events if event.kind == "fork"}
    first: dict[int, str] = {}
    for event in log.events:
        # Who does something had a CPU; who is woken was blocked, and who is switched to had been ready.
        first.setdefault(event.tid, "running")
        if event.kind in ("waking", "switch"):
            first.setdefault(event.other, "blocked" if event.kind == "waking" else "ready")
    named = set(there)
    return {tid: first.get(tid, "blocked") for tid in sorted(wanted - made) if tid in first or tid in named}


def _untangled(program: Program, lengths: dict[tuple[int, str], int]) -> tuple[Program, int]:
    """The program without waits that would never end, and how many became sleeps.

    Wake-ups and switches of two CPUs can be recorded in an order in which nothing could have happened (a
    thread that is woken before its waker seems to run): played, such threads would wait for each other.
    """
    slept = 0
    while stuck := blocked(program):
        # Of all that are stuck, the one that waited for the shortest time is nearest to the fault.
        number, action = min(stuck.items(), key=lambda each: lengths.get((each[0], each[1].text()), 0))
        actions = list(program.threads[number])
        length = lengths.get((number, action.text()), 0)
        at = actions.index(action)
        actions[at : at + 1] = [Action("sleep", amount=length)] if length else []
        program = Program({**program.threads, number: tuple(actions)}, program.source)
        slept += 1
    return program, slept


class _Cutter:
    """Cuts each thread's running time at what it does to others, and names what it waits for."""

    def __init__(self, threads: dict[int, _Thread], ids: dict[int, int], merge_ns: int) -> None:
        self.merge_ns = merge_ns
        self.ids = ids
        self.merged = 0
        # What happens within a thread's runs, by time.
        self.inside: dict[int, list[tuple[int, Action]]] = defaultdict(list)
        self.instead: dict[tuple[int, int], Action] = {}  # of (thread, begin of a blocked slice)
        self.order: list[tuple[int, str]] = []  # of creates and joins, by time
        self.lengths: dict[tuple[int, str], int] = {}  # of joins and waits, by thread and text
        self.late: dict[tuple[int, int], int] = {}  # by how much a join was let go later than the first one
        joined: set[tuple[int, int]] = set()
        exits: dict[int, int] = {}
        count = 0
        for thread in threads.values():
            if thread.parent is not None:
                self.inside[thread.parent].append((thread.begin, Action("create", thread=ids[thread.tid])))
                self.order.append((thread.begin, f"create {ids[thread.tid]}"))
        waits = [(p, t) for t in threads.values() for p in t.slices if p.state == "blocked" and p.woken_by]
        for part, thread in sorted(waits, key=lambda each: each[0].woken_at):
            waker = threads[part.woken_by]
            if waker.exiting_at and part.woken_at >= waker.exiting_at:
                if waker.tid not in exits:
                    exits[waker.tid] = part.woken_at
                    self.inside[waker.tid].append((part.woken_at, Action("exit")))
                self.late[thread.tid, part.begin] = part.woken_at - exits[waker.tid]
                self.instead[thread.tid, part.begin] = Action("join", thread=ids[waker.tid])
                self.order.append((part.woken_at, f"join {ids[waker.tid]}"))
                joined.add((thread.tid, waker.tid))
            else:
                name = f"e{count}"
                count += 1
                self.inside[waker.tid].append((part.woken_at, Action("signal", name=name)))
                self.instead[thread.tid, part.begin] = Action("wait", name=name)
            what = self.instead[thread.tid, part.begin].text()
            self.lengths[ids[thread.tid], what] = part.end - part.begin
        self._reaped(threads, joined)
        for each in self.inside.values():
            each.sort(key=lambda item: item[0])

    def _reaped(self, threads: dict[int, _Thread], joined: set[tuple[int, int]]) -> None:
        """A wait for a child that was dead already blocks nobody, and is a join all the same."""
        for thread in threads.values():
            children = sorted((c for c in threads.values() if c.parent == thread.tid), key=lambda c: c.end)
            for at, pid in thread.waits:
                for child in children:
                    dead = child.end and child.end <= at
                    if dead and pid in (0, -1, child.tid) and (thread.tid, child.tid) not in joined:
                        joined.add((thread.tid, child.tid))
                        self.inside[thread.tid].append((at, Action("join", thread=self.ids[child.tid])))
                        self.order.append((at, f"join {self.ids[child.tid]}"))
                        break

    def actions(self, thread: _Thread) -> tuple[Action, ...]:
        found: list[Action] = []
        pending = list(self.inside[thread.tid])
        budget = 0

        def flush() -> None:
            nonlocal budget
            if budget > 0:
                found.append(Action("run", amount=budget))
            budget = 0

        def rest(verb: str, length: int) -> None:
            flush()
            if length > 0:
                found.append(Action(verb, amount=length))

        slices, merged_until = thread.slices, 0
        for index, part in enumerate(slices):
            if part.state == "running":
                at = part.begin
                while pending and pending[0][0] <= part.end:
                    when, action = pending.pop(0)
                    budget += max(0, when - at)
                    at = max(at, when)
                    flush()
                    found.append(action)
                budget += part.end - at
            elif part.state == "blocked":
                instead = self.instead.get((thread.tid, part.begin))
                after = slices[index + 1] if index + 1 < len(slices) else None
                ready = after.end - after.begin if after is not None and after.state == "ready" else 0
                length = part.end - part.begin
                if instead is not None:
                    flush()
                    found.append(instead)
                    rest("ready", self.late.get((thread.tid, part.begin), 0))
                elif length + ready < self.merge_ns:
                    budget += length + ready
                    merged_until = part.end + ready
                    self.merged += 1
                else:
                    rest("sleep", length)
            elif part.end > merged_until:
                rest("ready", part.end - part.begin)
        for _, action in pending:
            flush()
            found.append(action)
        flush()
        return tuple(found)


def _row(thread: _Thread, ids: dict[int, int], zero: int, log: EventLog, budget: int) -> TimelineThread:
    spent: dict[str, int] = defaultdict(int)
    for part in thread.slices:
        spent[part.state] += part.end - part.begin
    first = next((part.begin for part in thread.slices if part.state == "running"), thread.begin)
    return TimelineThread(
        id=ids[thread.tid],
        parent=None if thread.parent is None else ids[thread.parent],
        pid=thread.tid,
        name=log.names.get(thread.tid, ""),
        run_ns=spent["running"],
        blocked_ns=spent["blocked"],
        ready_ns=spent["ready"],
        start_ns=first - zero,
        end_ns=thread.end - zero,
        budget_ns=budget,
        switches=thread.switches,
        faults=thread.faults,
        slices=tuple((part.begin - zero, part.end - zero, part.state) for part in thread.slices),
        marks=tuple((at - zero, what) for at, what in thread.marks),
        places=tuple(part.cpu for part in thread.slices),
    )


def _notes(
    threads: list[_Thread], ids: dict[int, int], log: EventLog, merge_ns: int, merged: int
) -> Iterable[str]:
    yield said(TimelineSaid.MERGED, below_ns=merge_ns, slices=merged)
    if log.lost:
        yield said(TimelineSaid.EVENTS_LOST, events=log.lost)
    for thread in threads:
        run = sum(part.end - part.begin for part in thread.slices if part.state == "running")
        if thread.repaired:
            yield said(TimelineSaid.SWITCH_INS_LOST, thread=ids[thread.tid], switches=thread.repaired)
        # Below a millisecond the kernel's own accounting of forks and exits is the difference.
        if thread.runtime and abs(run - thread.runtime) > max(RUNTIME_TOLERANCE * run, 1_000_000):
            yield said(
                TimelineSaid.RUN_TIME_DIFFERS, thread=ids[thread.tid], run_ns=run, kernel_ns=thread.runtime
            )
