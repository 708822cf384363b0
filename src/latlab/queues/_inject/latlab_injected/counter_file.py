"""The counter file (docs/reference/counter-file.md), written without a line of native code.

A count has one writer at a time: each queue counts under its own lock, or on its loop's thread. Storing an
aligned word through a memoryview is one store of the machine. Times are CLOCK_MONOTONIC's, in nanoseconds.
"""

from __future__ import annotations

import atexit
import fcntl
import mmap
import os
import sys
import time
from threading import RLock

TYPE_CHECKING = False  # of typing: importing that takes longer than all of ours
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Slot", "StageTimes", "set_up"]

_QUEUES = 512
_STAGES = 256
_NUMBERS = 64

_layout: dict[str, int] = {}
_folder = ""
_file: _File | None = None
_failed = False
_pid = 0
_writes = RLock()  # of descriptors: a stage is named by whoever meets it
after_fork: Any = []


def set_up(layout: Any, folder: Any) -> None:
    """Read the layout, once; no file is made before there is a queue."""
    global _folder, _pid
    if _layout:
        return
    with open(layout) as lines:
        for line in lines:
            name, _, value = line.partition(" ")
            _layout[name] = int(value)
    _folder, _pid = folder, os.getpid()
    os.register_at_fork(after_in_child=_after_fork)
    atexit.register(_end)


def _end() -> None:
    if _file is not None:
        _file.end()


def _after_fork() -> None:
    global _file, _failed, _pid, _writes
    _pid, _writes = os.getpid(), RLock()
    if _file is not None:
        _file.leave()
    _file, _failed = None, False
    for listener in after_fork:
        listener()


class _File:
    def __init__(self) -> None:
        os.makedirs(_folder, mode=0o700, exist_ok=True)
        with open("/proc/self/stat", "rb") as stat:
            start = int(stat.read().rpartition(b")")[2].split()[19])
        descriptor = -1
        for number in range(_NUMBERS):
            self.path = "%s/%d-%d-%d.counters" % (_folder, _pid, start, number)
            try:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                break
            except FileExistsError:
                continue
        if descriptor < 0:
            raise OSError("no counter file can be made")
        self.descriptor = descriptor
        sizes = [_layout[name] for name in _SIZES]
        counts = (_QUEUES, _STAGES, _QUEUES, _STAGES)
        at = _layout["header_bytes"]
        offsets = []
        for size, count in zip(sizes, counts):
            offsets.append(at)
            at += size * count
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.posix_fallocate(descriptor, 0, at)
            self.memory = mmap.mmap(descriptor, at)
        except OSError:
            os.unlink(self.path)
            os.close(descriptor)
            raise
        self.words = memoryview(self.memory).cast("Q")
        self.halves = memoryview(self.memory).cast("I")
        self.descriptors, self.stage_descriptors, self.hot, self.stage_hot = offsets
        self.used = self.stages_used = 0
        self._header(number, start, sizes, offsets, at)

    def _header(self, number: Any, start: Any, sizes: Any, offsets: Any, size: Any) -> None:
        now = time.monotonic_ns()
        self.half("header.version", _layout["version"])
        self.half("header.header_bytes", _layout["header_bytes"])
        self.half("header.queue_capacity", _QUEUES)
        self.half("header.stage_capacity", _STAGES)
        for name, value in zip(_SIZES, sizes):
            self.half("header." + name, value)
        for name, value in zip(_OFFSETS, offsets):
            self.word("header." + name, value)
        self.word("header.file_bytes", size)
        self.half("header.pid", _pid)
        self.half("header.file_number", number)
        self.word("header.process_start", start)
        with open("/proc/sys/kernel/random/boot_id") as boot:
            identity = bytes.fromhex(boot.read().strip().replace("-", ""))
        at = _layout["header.boot_id"]
        self.memory[at : at + 16] = identity
        self.word("header.clock_ticks", now)
        self.word("header.clock_ns", now)
        self.word("header.clock_hz", 1000000000)
        self.half("header.phase", _layout["phase.running"])
        program = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) and sys.argv[0] else "python"
        self.text(_layout["header.application"], _layout["application_bytes"], program)
        self.word("header.magic", _layout["magic"])

    def word(self, name: Any, value: Any) -> None:
        self.words[_layout[name] // 8] = value

    def half(self, name: Any, value: Any, base: Any = 0) -> None:
        self.halves[(base + _layout[name]) // 4] = value

    def text(self, at: Any, size: Any, text: Any) -> None:
        data = text.encode("utf-8", "replace")
        if len(data) >= size:
            data = data[: size - 1].decode("utf-8", "ignore").encode("utf-8")
        self.memory[at : at + size] = data.ljust(size, b"\0")

    def version(self, by: Any) -> None:
        self.words[_layout["header.topology_version"] // 8] += by

    def end(self) -> None:
        self.half("header.phase", _layout["phase.ended"])
        try:
            os.unlink(self.path)
        except OSError:
            pass  # somebody has tidied up already

    def leave(self) -> None:
        """In a child: the lock and the counts are the parent's."""
        try:
            os.close(self.descriptor)
        except OSError:
            pass  # the program has closed what it didn't know, as daemons do


_SIZES = ("queue_descriptor_bytes", "stage_descriptor_bytes", "queue_hot_bytes", "stage_hot_bytes")
_OFFSETS = ("queue_descriptor_offset", "stage_descriptor_offset", "queue_hot_offset", "stage_hot_offset")


def _current() -> Any:
    global _file, _failed
    if _file is None and not _failed:
        try:
            _file = _File()
        except Exception:  # noqa: BLE001
            _failed = True  # a program that can't publish runs as it would without us
    return _file


class Slot:
    """One queue's place in this process's file."""

    __slots__ = ("_base", "_dropped", "_file", "_in", "_number", "_out")

    def __init__(
        self, name: Any, capacity: Any, implementation: Any, waiting: Any, identity: Any = 0
    ) -> None:
        self._file = file = _current()
        if file is None or file.used >= _QUEUES:
            self._file = None
            return
        number, file.used = file.used, file.used + 1
        self._number = number
        self._base = base = file.descriptors + number * _layout["queue_descriptor_bytes"]
        hot = file.hot + number * _layout["queue_hot_bytes"]
        self._in = (hot + _layout["hot.producer.in"]) // 8
        self._out = (hot + _layout["hot.consumer.out"]) // 8
        self._dropped = (hot + _layout["hot.producer.dropped"]) // 8
        file.words[self._in] = waiting
        kind = "kind.bounded" if capacity else "kind.unbounded"
        file.version(1)
        file.half("queue.version", 1, base)
        file.half("queue.generation", 1, base)
        file.half("queue.kind", _layout["kind.shared_memory" if identity else kind], base)
        file.half("queue.sides", _layout["sides.shares"] if identity else _layout["sides.both"], base)
        file.words[(base + _layout["queue.capacity"]) // 8] = capacity
        file.words[(base + _layout["queue.identity"]) // 8] = identity
        file.words[(base + _layout["queue.created_ticks"]) // 8] = time.monotonic_ns()
        self._text("name", name)
        self._text("implementation", implementation)
        file.half("queue.state", _layout["state.live"], base)
        file.half("queue.version", 2, base)
        file.half("header.queue_count", file.used)
        file.version(1)

    def place(self, producer: Any) -> Any:
        """(words, index) of the count of one side; beside the file where there is none."""
        if self._file is None:
            return [0], 0
        return self._file.words, self._in if producer else self._out

    def came(self) -> Any:
        """Events put in so far."""
        return self._file.words[self._in] if self._file is not None else 0

    def drop(self) -> None:
        """Count an event that was refused, and lost."""
        if self._file is not None:
            self._file.words[self._dropped] += 1

    def side(self, producer: Any, kind: Any, name: Any, thread: Any, *, instead: Any = False) -> None:
        """Name the stage at one side, and its first thread; or this one instead of that."""
        file = self._file
        if file is None:
            return
        end = "source" if producer else "drain"
        self._begin()
        self._text(end + "_type", kind)
        self._text(end + "_name", name)
        at = (self._base + _layout["queue.sides"]) // 4
        file.halves[at] |= 1 if producer else 2
        hot = file.hot + self._number * _layout["queue_hot_bytes"]
        at = (hot + _layout["hot.producer.tid" if producer else "hot.consumer.tid"]) // 4
        if instead or not file.halves[at]:
            file.halves[at] = thread
        self._done()

    def rename(self, producer: Any, name: Any) -> None:
        """The stage at one side has another name from now on."""
        if _file is not None and self._file is _file:
            self._begin()
            self._text(("source" if producer else "drain") + "_name", name)
            self._done()

    def retire(self) -> None:
        if _file is not None and self._file is _file:
            self._begin()
            self._file.half("queue.state", _layout["state.retired"], self._base)
            self._done()

    def _text(self, field: Any, text: Any) -> None:
        self._file.text(self._base + _layout["queue." + field], _layout["text_bytes"], text)

    def _begin(self) -> None:
        _writes.acquire()  # whoever names a stage may not hold the lock of the queue
        self._file.version(1)
        self._file.halves[(self._base + _layout["queue.version"]) // 4] += 1

    def _done(self) -> None:
        self._file.halves[(self._base + _layout["queue.version"]) // 4] += 1
        self._file.version(1)
        _writes.release()


IDLE, BUSY, BLOCKED = range(3)
_clock = time.monotonic_ns


class StageTimes:
    """A thread's or a task's times as a stage: its own thread alone writes them, at transitions."""

    __slots__ = (
        "_at",
        "_base",
        "_began",
        "_file",
        "_since",
        "_sums",
        "_words",
        "count_at",
        "counts",
        "state",
        "takes",
    )

    def __init__(self, name: Any, thread: Any, kind: Any = "", group: Any = "") -> None:
        self.state = IDLE
        self.takes: set[int] = set()  # queues
        self.counts, self.count_at = [0], 0
        self._file: Any = None
        file = _current()
        if file is None or file.stages_used >= _STAGES:
            return
        number, file.stages_used = file.stages_used, file.stages_used + 1
        base = file.stage_descriptors + number * _layout["stage_descriptor_bytes"]
        hot = file.stage_hot + number * _layout["stage_hot_bytes"]
        self._base, self._at, self._words = base, hot, file.words
        self._since = _clock()
        self._sums = [
            (hot + _layout["times." + sum_]) // 8 for sum_ in ("idle_ticks", "busy_ticks", "blocked_ticks")
        ]
        self._began = (hot + _layout["times.since_ticks"]) // 8
        self.counts, self.count_at = file.words, (hot + _layout["times.events"]) // 8
        file.words[self._began] = self._since
        file.version(1)
        file.half("stage.version", 1, base)
        file.half("stage.generation", 1, base)
        file.half("stage.wait", 1, base)
        file.half("stage.tid", thread, base)
        file.half("stage.cpu", 0xFFFFFFFF, base)
        for field, text in (("type", kind), ("name", name), ("group", group)):
            file.text(base + _layout["stage." + field], _layout["text_bytes"], text)
        file.half("stage.state", _layout["state.live"], base)
        file.half("stage.version", 2, base)
        file.half("header.stage_count", file.stages_used)
        file.version(1)
        self._file = file

    def _is_stale(self) -> Any:
        """It was never published, or is a parent's."""
        return self._file is None or self._file is not _file

    def enter(self, state: Any) -> None:
        """From now on it waits for an event, works, or waits for room."""
        old = self.state
        if old == state or self._is_stale():
            return
        self.state = state
        words, now, at = self._words, _clock(), self._at // 8
        words[at] += 1
        words[self._sums[old]] += now - self._since
        self._since = words[self._began] = now
        halves = self._file.halves
        halves[(self._at + _layout["times.state"]) // 4] = state
        halves[(self._at + _layout["times.transitions"]) // 4] += 1
        words[at] += 1

    def add(self, busy: Any) -> None:
        """It was busy for this many ns, and tells it afterwards; it never enters a state."""
        if not self._is_stale():
            self._words[self._sums[BUSY]] += busy
            self._words[self.count_at] += 1

    def rename(self, name: Any) -> None:
        """Its stage has another name from now on."""
        if self._is_stale():
            return
        self._changing(1)
        self._file.text(self._base + _layout["stage.name"], _layout["text_bytes"], name)
        self._changing(-1)

    def retire(self) -> None:
        """Its thread or task has ended."""
        if self._is_stale():
            return
        self.enter(IDLE)
        self._changing(1)
        self._file.half("stage.state", _layout["state.retired"], self._base)
        self._changing(-1)
        self._file = None

    def _changing(self, begins: Any) -> None:
        """The descriptor's version is odd from 1 to -1."""
        if begins > 0:
            _writes.acquire()
        self._file.version(1)
        self._file.halves[(self._base + _layout["stage.version"]) // 4] += 1
        if begins < 0:
            _writes.release()
