"""Following an application: its processes as they come and go, its topology as it changes, and the plan by
which the sampler reads it.

Over 400 lines: one table of what runs, which everything that comes and goes changes.

Numbers are given once and never again. A queue is the (process, start, file, slot, generation) that was
registered; a queue between processes is its identity, whichever processes publish it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from latlab._core import queues as core
from latlab.errors import InputError
from latlab.model.queues.observation import Process, Queue, QueueKind, Stage
from latlab.queues.sample.files import PHASES, CounterFiles, counter_files, refused_folder, unread_users
from latlab.queues.sample.follow_files import File, ProcessWatch, QueueSide
from latlab.schedule.tree import descends
from latlab.words import printable

__all__ = ["Event", "Follower", "Target"]

_LIVE, _RETIRED = 2, 3
_PRODUCER, _CONSUMER, _SHARES = 1, 2, 4
_WAITS = ("poll", "block", "hybrid", "unknown")
_KINDS = tuple(QueueKind)
_SCAN_NS = 200_000_000  # how often the folder and the processes' lives are looked at

Target = int | str


@dataclass(frozen=True)
class Event:
    """A change of the topology.

    Attributes:
        event: added, changed or retired; of a process appeared, ended (by itself) or died; or phase.
        what: queue, stage or process.
        number: of it.
        description: all of it, as it is now.
    """

    t_ns: int
    event: str
    what: str
    number: int
    description: dict[str, Any]


class Follower:
    """The processes that match a target, and all that they publish.

    Args:
        targets: process ids, names of applications (also patterns, as "feed-*"), or both; every process that
            matches any is followed, also those that start later; of a process id its descendants, too.
        readers: of queues by address (`readers_by_address`), followed beside the counter files.
        files: lists the counter files; for tests.
        now_ns: the clock; for tests.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        *,
        readers: Sequence[core.Reader] = (),
        files: Callable[[], Any] | None = None,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._targets = tuple(targets)
        self._list_files = CounterFiles() if files is None else files
        self._now_ns = now_ns
        self._next_scan_ns = 0
        self._waiting = list(readers)
        self._seen: set[Path] = set()
        self._left: dict[int, list[tuple[core.Reader, int]]] = {}  # identity: shares of processes that died
        self._files: list[File] = []
        self._sides: dict[int, list[QueueSide]] = {}
        self._numbers: dict[Any, int] = {}
        self._queues: list[Queue] = []
        self._stages: list[Stage] = []
        self.plan_is_stale = True

    @property
    def queues(self) -> tuple[Queue, ...]:
        """Every queue ever seen, by number."""
        return tuple(self._queues)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Every stage ever seen, by number."""
        return tuple(self._stages)

    @property
    def processes(self) -> tuple[Process, ...]:
        """Every process ever seen, by number."""
        return tuple(file.process for file in self._files)

    @property
    def live_processes(self) -> tuple[Process, ...]:
        """Those that were alive at the last look."""
        return tuple(file.process for file in self._files if file.alive)

    @property
    def unmatched(self) -> tuple[Target, ...]:
        """The targets that no process ever seen matches."""
        return tuple(t for t in self._targets if not any(_fits(t, file.reader) for file in self._files))

    def refresh(self) -> list[Event]:
        """Look what has changed since the last time."""
        now = self._now_ns()
        events: list[Event] = []
        if now >= self._next_scan_ns:
            self._next_scan_ns = now + _SCAN_NS
            self._scan(now, events)
            for file in self._files:
                self._look_after(file, now, events)
        for file in self._files:
            if file.alive and file.watch.ended():
                self._look_after(file, now, events)
            if file.alive:
                self._look_at_phase(file, now, events)
                self._look_at(file, now, events)
        return events

    def plan(self) -> tuple[list[core.Reader], list[int], list[Any]]:
        """What `Sampler.set_plan` takes: readers, their topology versions, targets."""
        self.plan_is_stale = False
        used: dict[int, int] = {}  # a file: its place among those that are read; the dead are not
        files: list[File] = []
        targets = []
        for number, sides in self._sides.items():
            if not self._queues[number].complete or self._queues[number].retired_ns is not None:
                continue
            for side in sides:
                if id(side.file) not in used:
                    used[id(side.file)] = len(files)
                    files.append(side.file)
            parts = [(used[id(s.file)], s.slot, s.generation) for s in sides]
            producers = [p for p, s in zip(parts, sides, strict=True) if s.view["sides"] & _PRODUCER]
            consumers = [p for p, s in zip(parts, sides, strict=True) if s.view["sides"] & _CONSUMER]
            adds = any(s.view["sides"] & _SHARES for s in sides)
            targets.append((number, adds, producers, consumers))
        return [file.reader for file in files], [file.version for file in files], targets

    def counts(self, number: int) -> tuple[int, int, int, int, int, int]:
        """(in, out_low, out_high, dropped, blocked, empty) of a queue now, over all of its registrations."""
        sides = self._sides[number]
        if len(sides) == 1:  # nearly all: both sides of a queue within one process, nothing to join
            (one,) = sides
            one.file.reader.refresh()
            came, out_low, out_high, dropped, blocked, empty = one.file.reader.counts(one.slot)
            puts, takes = one.view["sides"] & _PRODUCER, one.view["sides"] & _CONSUMER
            put = (came, dropped, blocked) if puts else (0, 0, 0)
            taken = (out_low, out_high, empty) if takes else (0, 0, 0)
            return put[0], taken[0], taken[1], put[1], put[2], taken[2]
        adds = any(s.view["sides"] & _SHARES for s in sides)
        for reader in {id(s.file): s.file.reader for s in sides}.values():
            reader.refresh()
        rows = [(s.view["sides"], s.file.reader.counts(s.slot)) for s in sides]

        def join(column: int, side: int) -> int:
            values = [row[column] for which, row in rows if which & side]
            if not values:
                return 0
            return sum(values) if adds or column >= 3 else max(values)

        return (
            join(0, _PRODUCER),
            join(1, _CONSUMER),
            join(2, _CONSUMER),
            join(3, _PRODUCER),
            join(4, _PRODUCER),
            join(5, _CONSUMER),
        )

    def stage_times(self) -> list[tuple[int, tuple[int, int, int, int, int, int, int], bool]]:
        """(stage's number, its times in ticks, or in ns where the last says so) of every stage that lives."""
        result = []
        for file in self._files:
            for slot, number in file.stages.items():
                if self._stages[number].retired_ns is None and file.alive:
                    times = file.reader.stage_times(slot)
                    if times is not None:
                        result.append((number, times, file.reader.counts_ns))
        return result

    def _scan(self, now: int, events: list[Event]) -> None:
        while self._waiting:
            self._follow(self._waiting.pop(0), now, events)
        for path in self._list_files():
            if path in self._seen:
                continue
            reader = core.Reader(str(path))
            if reader.state == "not ready":
                continue  # being made: next time
            self._seen.add(path)
            if reader.readable and reader.state == "dead":
                self._keep_shares(reader)
            if not reader.readable or reader.state != "ready" or not self._matches(reader):
                if reader.readable and reader.state == "ready":
                    self._seen.discard(path)  # it may still give itself the name that we follow
                continue
            self._follow(reader, now, events)

    def _follow(self, reader: core.Reader, now: int, events: list[Event]) -> None:
        header = reader.header()
        number = len(self._files)
        process = Process(
            number, header["pid"], header["process_start"], reader.application, header["file_number"]
        )
        self._files.append(File(process, reader, ProcessWatch(process.pid)))
        self.plan_is_stale = True
        events.append(Event(now, "appeared", "process", number, asdict(process)))

    def _keep_shares(self, reader: core.Reader) -> None:
        """What a dead process counted of queues between processes is a part of their counts."""
        if reader.topology_version % 2:
            return  # it died while it wrote a description: which of its slots is whose isn't sure
        for slot in range(reader.queue_count):
            view = reader.queue(slot)
            # Of a fork's copy of its parent's sides the parent tells.
            if view is None or view["state"] != _LIVE:
                continue
            if view["identity"] and view["sides"] & _SHARES:
                self._left.setdefault(view["identity"], []).append((reader, slot))

    def _with_shares_left(self, identity: int, now: int, events: list[Event]) -> list[QueueSide]:
        """The sides of a queue that processes left which had died before they were followed."""
        found = []
        for reader, slot in self._left.pop(identity, []):
            file = next((file for file in self._files if file.reader is reader), None)
            if file is None:
                header, number = reader.header(), len(self._files)
                process = Process(
                    number,
                    header["pid"],
                    header["process_start"],
                    reader.application,
                    header["file_number"],
                    ended_ns=now,
                    died=True,
                )
                file = File(process, reader, ProcessWatch(0), reader.topology_version, alive=False)
                self._files.append(file)
                events.append(Event(now, "died", "process", number, asdict(process)))
            view = reader.queue(slot)
            if view is not None:
                found.append(QueueSide(file, slot, view["generation"], {**view, "state": _RETIRED}))
        return found

    def _matches(self, reader: core.Reader) -> bool:
        return any(_fits(target, reader) for target in self._targets)

    def _look_after(self, file: File, now: int, events: list[Event]) -> None:
        if not file.alive:
            return
        self._look_at_phase(file, now, events)
        # Threads note themselves in the counts, at their first use, which is not a change of the topology.
        threads = file.reader.threads_of
        if any(threads(slot) != known for slot, (_, known) in file.queue_versions.items()):
            file.version = -1
        if file.reader.alive():
            return
        self._look_at(file, now, events)
        file.alive = False
        ended = file.reader.phase == PHASES.index("ended")
        file.process = replace(file.process, ended_ns=now, died=not ended)
        events.append(
            Event(now, "ended" if ended else "died", "process", file.process.number, asdict(file.process))
        )
        for slot, number in file.queues.items():
            self._retire(file, slot, number, now, events)
        for number in file.stages.values():
            if self._stages[number].retired_ns is None:
                self._stages[number] = replace(self._stages[number], retired_ns=now)
                events.append(Event(now, "retired", "stage", number, asdict(self._stages[number])))

    def _look_at_phase(self, file: File, now: int, events: list[Event]) -> None:
        phase = file.reader.phase
        if phase != file.phase:
            file.phase = phase
            name = PHASES[phase] if phase < len(PHASES) else str(phase)
            events.append(Event(now, "phase", "process", file.process.number, {"phase": name}))

    def _look_at(self, file: File, now: int, events: list[Event]) -> None:
        reader = file.reader
        version = reader.topology_version
        if version == file.version:
            return
        for slot in range(reader.queue_count):
            self._look_at_queue(file, slot, now, events)
        known = len(events)
        for slot in range(reader.stage_count):
            self._look_at_stage(file, slot, now, events)
        if len(events) > known:  # a stage that is new or has its thread now may be an end that was blank
            for number in file.queues.values():
                queue = self._queues[number]
                if queue.discovered or not (queue.source and queue.drain):
                    self._describe(number, "changed", now, events)
        # An odd version means that somebody writes: what was read is good, and there will be more.
        file.version = version
        self.plan_is_stale = True

    def _look_at_queue(self, file: File, slot: int, now: int, events: list[Event]) -> None:
        version, threads = file.reader.queue_version(slot), file.reader.threads_of(slot)
        if file.queue_versions.get(slot) == (version, threads):
            return
        view = file.reader.queue(slot)
        if view is None:
            return
        file.queue_versions[slot] = (view["version"], threads)
        key: Any = ("slot", file.process.number, slot, view["generation"])
        if view["identity"]:
            key = ("identity", view["identity"])
        number = self._numbers.get(key)
        previous = file.queues.get(slot)
        if previous is not None and previous != number:
            self._retire(file, slot, previous, now, events)
            del file.queues[slot]
        if number is None:
            if view["state"] != _LIVE:
                return  # it came and went between two looks, or was a parent's
            number = self._numbers[key] = len(self._queues)
            self._sides[number] = self._with_shares_left(view["identity"], now, events)
            self._queues.append(Queue(number, "", QueueKind.BOUNDED, 0, added_ns=now))
            event = "added"
        else:
            event = "changed"
        sides = [s for s in self._sides[number] if s.file is not file or s.slot != slot]
        known = len(sides) < len(self._sides[number])
        if view["state"] != _LIVE and not known:
            return  # a side that was never seen alive: the copy of a parent's in its child
        self._sides[number] = [*sides, QueueSide(file, slot, view["generation"], view)]
        file.queues[slot] = number
        self._describe(number, event, now, events)

    def _retire(self, file: File, slot: int, number: int, now: int, events: list[Event]) -> None:
        """The slot was taken again, or its process is gone: that ends the registration that it was."""
        for side in self._sides[number]:
            if side.file is file and side.slot == slot:
                side.view = {**side.view, "state": _RETIRED}
        self._describe(number, "changed", now, events)

    def _describe(self, number: int, event: str, now: int, events: list[Event]) -> None:
        sides, old = self._sides[number], self._queues[number]
        first = next((s.view for s in sides if s.view["state"] == _LIVE), sides[0].view)
        producer = next((s.view for s in sides if s.view["sides"] & _PRODUCER), first)
        consumer = next((s.view for s in sides if s.view["sides"] & _CONSUMER), first)
        gone = all(s.view["state"] != _LIVE for s in sides)
        published = 0
        for side in sides:
            published |= side.view["sides"]
        pair = -1
        if first["pair"]:
            pair = sides[0].file.queues.get(first["pair"] - 1, -1)
        kind = first["kind"]
        source = (
            producer["source_type"] or consumer["source_type"],
            producer["source_name"] or consumer["source_name"],
        )
        drain = (
            consumer["drain_type"] or producer["drain_type"],
            consumer["drain_name"] or producer["drain_name"],
        )
        # What was found out once stays, also when that thread has ended.
        discovered = []
        if not any(source):
            found = self._end_by_thread(sides, _PRODUCER, "producer_tid")
            if found is not None or "source" in old.discovered:
                source = found or (old.source_type, old.source_name)
                discovered.append("source")
        if not any(drain):
            found = self._end_by_thread(sides, _CONSUMER, "consumer_tid")
            if found is not None or "drain" in old.discovered:
                drain = found or (old.drain_type, old.drain_name)
                discovered.append("drain")
        new = replace(
            old,
            name=first["name"] or next((s.view["name"] for s in sides if s.view["name"]), ""),
            kind=_KINDS[kind - 1] if 1 <= kind <= len(_KINDS) else QueueKind.BOUNDED,
            capacity=max(s.view["capacity"] for s in sides),
            source_type=source[0],
            source_name=source[1],
            drain_type=drain[0],
            drain_name=drain[1],
            discovered=tuple(discovered),
            group=first["group"],
            implementation=first["implementation"],
            identity=f"{first['identity']:016x}" if first["identity"] else "",
            pair=pair,
            processes=tuple(dict.fromkeys(s.file.process.number for s in sides)),
            slots=tuple((s.file.process.number, s.slot, s.generation) for s in sides),
            producer_tid=_thread_of(sides, _PRODUCER, "producer_tid"),
            consumer_tid=_thread_of(sides, _CONSUMER, "consumer_tid"),
            complete=published & 3 == 3,
            retired_ns=(old.retired_ns or now) if gone else None,
        )
        if new != old or event == "added":
            self._queues[number] = new
            self.plan_is_stale = True
            what = "retired" if gone and old.retired_ns is None and event != "added" else event
            events.append(Event(now, what, "queue", number, asdict(new)))

    def _end_by_thread(self, sides: list[QueueSide], which: int, tid_of: str) -> tuple[str, str] | None:
        """(type, name) of the end that a thread is: its only stage, its stages' group, or its own name."""
        side = next((s for s in sides if s.view["sides"] & which and s.view[tid_of]), None)
        if side is None:
            return None
        file, tid = side.file, side.view[tid_of]
        run = [self._stages[n] for n in file.stages.values()]
        run = [stage for stage in run if stage.tid == tid and stage.retired_ns is None]
        if len(run) == 1:
            return run[0].type, run[0].name
        groups = {stage.group for stage in run}
        if len(groups) == 1 and (group := groups.pop()):
            return "", group
        try:
            task = Path(f"/proc/{file.process.pid}/task/{tid}/comm")
            name = printable(task.read_text(errors="replace").rstrip("\n"))
        except OSError:
            return None  # it is gone: it set things up, and runs nothing
        unnamed = name in (file.process.application, "") or name == self._program(file.process.pid)
        return "", f"thread-{tid}" if unnamed else name

    @staticmethod
    def _program(pid: int) -> str:
        """The name that threads have which were given none."""
        try:
            return printable(Path(f"/proc/{pid}/comm").read_text(errors="replace").rstrip("\n"))
        except OSError:
            return ""

    def _look_at_stage(self, file: File, slot: int, now: int, events: list[Event]) -> None:
        view = file.reader.stage(slot)
        if view is None or file.stage_versions.get(slot) == view["version"]:
            return
        file.stage_versions[slot] = view["version"]
        key = ("stage", file.process.number, slot, view["generation"])
        number = self._numbers.get(key)
        event = "changed"
        if number is None:
            if view["state"] != _LIVE:
                return
            number = self._numbers[key] = len(self._stages)
            self._stages.append(Stage(number, "", "", process=file.process.number, slot=slot, added_ns=now))
            event = "added"
        old = self._stages[number]
        gone = view["state"] != _LIVE
        previous = file.stages.get(slot)
        if previous not in (None, number):
            self._stages[previous] = replace(self._stages[previous], retired_ns=now)
        file.stages[slot] = number
        wait = view["wait"]
        self._stages[number] = replace(
            old,
            type=view["type"],
            name=view["name"],
            group=view["group"],
            wait=_WAITS[wait] if wait < len(_WAITS) else "unknown",
            tid=view["tid"],
            cpu=view["cpu"],
            retired_ns=(old.retired_ns or now) if gone else None,
        )
        events.append(Event(now, "retired" if gone else event, "stage", number, asdict(self._stages[number])))


def _fits(target: Target, reader: core.Reader) -> bool:
    """A process id is that of the file, or of a process that it descends from; a name may be a pattern."""
    if isinstance(target, int):
        pid = int(reader.header()["pid"])
        return target == pid or descends(pid, target)
    return fnmatchcase(reader.application, target)


def _thread_of(sides: list[QueueSide], which: int, tid_of: str) -> int:
    """The first thread that used an end: of the processes that have it, one does."""
    return next((s.view[tid_of] for s in sides if s.view["sides"] & which and s.view[tid_of]), 0)


def require(follower: Follower, targets: Sequence[Target]) -> None:
    """Raise InputError with what there is, where nothing matches."""
    if follower.processes:
        return
    names = sorted({core.Reader(str(p)).application for p in counter_files() if core.Reader(str(p)).readable})
    nothing = refused_folder() or "no application publishes counters now"
    if unread_users():
        nothing += f"; {unread_users()} other users publish some: add --all-users"
    there = f"there are: {', '.join(names)}" if names else nothing
    wanted = ", ".join(str(t) for t in targets)
    raise InputError(
        wanted, "no running application with this name or process id publishes counters", remedy=there
    )
