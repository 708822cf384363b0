"""Who counts what: the counts of a queue, the roles of threads, and `queue.Queue` and its kin."""

from __future__ import annotations

import sys
import threading
import weakref
from functools import partial
from threading import get_ident

from . import counter_file, names, objects, waits
from .counter_file import BLOCKED, BUSY, IDLE, Slot, StageTimes

TYPE_CHECKING = False  # of typing: importing that takes longer than all of ours
if TYPE_CHECKING:
    from typing import Any

__all__ = ["BY_THREAD", "count_classes", "renamed", "role", "watch"]

_stages = names.Stages()
_roles: dict[int, str] = {}
_times: dict[Any, Any] = {}  # by user: of those that take from a queue
_all: Any = weakref.WeakSet()
_MOST_USERS = 4096


def _after_fork() -> None:
    _stages.clear()
    _roles.clear()
    _times.clear()
    for counts in list(_all):
        counts.begin()


def role() -> Any:
    """Of the current thread."""
    known = _roles.get(get_ident())
    if known is not None:
        return known
    thread = threading.current_thread()
    if thread is threading.main_thread():
        return names.role_of("MainThread", process_role())
    target = getattr(thread, "_target", None)
    if target is None:
        run = type(thread).run
        own = "" if run is threading.Thread.run else type(thread).__name__
    else:
        own = names.function_name(target)
    return names.role_of(thread.name, own)


def process_role() -> Any:
    """Of a worker process its name where somebody gave it one, else its function; "" of the first one."""
    module = sys.modules.get("multiprocessing.process")
    if module is None:
        return ""
    process = module.current_process()
    target = getattr(process, "_target", None)
    if target is None:
        return "" if module.parent_process() is None else type(process).__name__
    return names.role_of(process.name, names.function_name(target))


class Counts:
    """What is known of one queue: its name at once, its place in the counter file when it is first used.

    Attributes:
        put, get: count one event, under the queue's lock. At first they register the queue, then they look
            whether it is a pool, then they are closures over its place.
        identity: of a queue between processes. pooled: who takes objects from it gives them back.
    """

    __slots__ = (
        "__weakref__",
        "_capacity",
        "_implementation",
        "_lane",
        "_objects",
        "_of_side",
        "_queue",
        "_refused",
        "_role",
        "_slot",
        "_stages",
        "_until_end",
        "_users",
        "_who",
        "get",
        "identity",
        "name",
        "pooled",
        "put",
    )

    def __init__(self, made: Any, name: Any, capacity: Any, identity: Any, who: Any) -> None:
        kind = type(made)
        self.name, self._lane = name, names.lane_of(name)
        self._capacity = max(0, capacity)
        self._implementation = kind.__module__ + "." + kind.__qualname__
        self._queue = weakref.ref(made)
        self._who, self._role, self._stages, self._until_end = who
        self.identity = identity
        self.begin()

    def begin(self) -> None:
        """Forget what was registered: in a child of a fork it is the parent's."""
        self._slot: Any = None
        self._users: tuple[set[int], set[int]] = (set(), set())
        self._of_side: tuple[list[str], list[str]] = ([], [])
        self._refused: dict[int, tuple[int, int]] = {}  # by user: the event, and how many had come by then
        self._objects: Any = None
        self.pooled = False
        self.put, self.get = self._first_put, self._first_get

    def _first_put(self, item: Any = None) -> None:
        self._register(1)
        self.put(item)

    def _first_get(self, item: Any = None) -> None:
        self._register(-1)
        self.get(item)

    def _register(self, change: Any) -> None:
        made = self._queue()
        waiting = 0
        if self.identity == 0 and made is not None:
            waiting = max(0, made.qsize() - change if not hasattr(made, "_qsize") else made._qsize() - change)
        self._slot = Slot(self.name, self._capacity, self._implementation, waiting, self.identity)
        self._objects = objects.Objects(self, self._who, self._counting(True), self._counting(False))

    def announce(self) -> None:
        """Tell its name before anybody uses it here: who gets it in another process does not know it."""
        if self._slot is None:
            self._register(0)

    def is_pool(self) -> None:
        """Who takes from it is who gives back to it, whoever filled it first."""
        self.pooled = True
        labels = self._of_side[1]
        kind = self._role() if len(labels) == 1 else ""
        self._slot.side(True, kind, " + ".join(labels), threading.get_native_id(), instead=True)
        self._objects = None

    def _counting(self, producer: Any) -> Any:
        words, index = self._slot.place(producer)
        users, who, meet = self._users[0 if producer else 1], self._who, self._meet

        def count_in(item: Any = None) -> None:
            words[index] += 1
            if who() not in users:
                meet(True)

        def count_out(item: Any = None) -> None:
            words[index] += 1
            user = who()
            if user not in users:
                meet(False)
            times = _times.get(user)
            if times is not None:
                times.counts[times.count_at] += 1
                if times.state != BUSY:
                    times.enter(BUSY)

        return count_in if producer else count_out

    def waits(self, for_event: Any, known: Any = False) -> Any:
        """The current user waits at this queue, and says itself when it goes on.

        `known`: what it is called, also before its first event.
        """
        user = self._who()
        times = _times.get(user)
        if times is None and self._slot is not None:  # who only puts tells for how long it had to wait
            if for_event and known:  # who has not taken anything yet waits all the same
                self._stages.name(user, self._role(), id(self), False, self._lane)
            times = self._told(user)
        if times is not None:
            # Who takes elsewhere, and gives back here what it takes here, has an event: it wants an object.
            of_pool = self.pooled or (user in self._users[0] and times.takes - {id(self)})
            times.enter(IDLE if for_event and not of_pool else BLOCKED)
            if for_event and self._objects is not None:
                self._objects.wants(times)
        return times

    def found_nothing(self) -> None:
        """The current user looked for an event; only who takes from this queue looks for work."""
        user = self._who()
        if user in self._users[1]:
            times = _times.get(user)
            if times is not None:
                times.enter(IDLE)

    def refused(self, item: Any) -> None:
        """The queue was full and did not take an event; who has it may come again.

        It is lost where the same user is refused another one, and none has come in between. (One that came
        may have been this one: then it is not counted.)
        """
        slot = self._slot
        if slot is None:
            return
        user, now = self._who(), (id(item), slot.came())
        before = self._refused.get(user)
        if before is not None and before[0] != now[0] and before[1] == now[1]:
            slot.drop()
        if len(self._refused) > _MOST_USERS:
            self._refused.clear()
        self._refused[user] = now

    def _told(self, user: Any) -> Any:
        label = self._stages.label(user)
        if label is None:
            return None
        times = _times[user] = StageTimes(label, threading.get_native_id())
        return times

    def _meet(self, producer: Any) -> None:
        """A user comes to a side for the first time: the side is named after all that do."""
        side = 0 if producer else 1
        users = self._users[side]
        if len(users) > _MOST_USERS:
            users.clear()
        user, role = self._who(), self._role()
        users.add(user)
        self._until_end(user)
        label = self._stages.name(user, role, id(self), producer, self._lane)
        labels = self._of_side[side]
        if label not in labels and not (self.pooled and producer):
            labels.append(label)
            kind = role if len(labels) == 1 else ""
            self._slot.side(producer, kind, " + ".join(labels), threading.get_native_id())
            self.is_pool() if self.pooled else None
        if not producer:
            times = _times.get(user) or self._told(user)
            if times is not None:
                times.takes.add(id(self))

    def forget(self, user: Any, stages: Any) -> None:
        """A user has ended, and another one may get its number."""
        if self._stages is stages:
            for users in self._users:
                users.discard(user)
            if self._objects is not None:
                self._objects.forget(user)

    def rename(self, stages: Any, old: Any, new: Any) -> None:
        """A stage has another name from now on."""
        if self._stages is not stages or self._slot is None:
            return
        for producer, labels in zip((True, False), self._of_side):
            if old in labels:
                labels[labels.index(old)] = new
                self._slot.rename(producer, " + ".join(labels))

    def retire(self) -> None:
        """The queue is no more."""
        if self._slot is not None:
            self._slot.retire()


def renamed(stages: Any, user: Any, old: Any, new: Any) -> None:
    """A user of queues has another name as a stage from now on."""
    for counts in list(_all):
        counts.rename(stages, old, new)
    times = _times.get(user)
    if times is not None:
        times.rename(new)


def _remembered_role() -> Any:
    known = _roles[get_ident()] = role()
    return known


class _Mark:
    """Lies in a thread's own memory, and goes with it."""

    def __init__(self, thread: Any) -> None:
        self._thread = thread

    def __del__(self) -> None:
        try:
            _roles.pop(self._thread, None)
            forget(self._thread, _stages)
        except Exception:  # noqa: BLE001, S110
            pass  # the interpreter ends too


def forget(user: Any, stages: Any) -> None:
    """A user of queues has ended."""
    stages.forget(user)
    times = _times.pop(user, None)
    if times is not None:
        times.retire()
    for counts in list(_all):
        counts.forget(user, stages)


def _until_end(thread: Any) -> None:
    if getattr(_own, "mark", None) is None:
        _own.mark = _Mark(thread)


_own = threading.local()
_stages.renamed = partial(renamed, _stages)
BY_THREAD = (get_ident, _remembered_role, _stages, _until_end)


def watch(made: Any, name: Any, capacity: Any, identity: Any = 0, who: Any = BY_THREAD) -> Any:
    """The counts of a queue, which end with it; None of one without a name."""
    if name is None:
        return None
    counts = Counts(made, name, capacity, identity, who)
    _all.add(counts)
    finalizer = weakref.finalize(made, counts.retire)
    finalizer.atexit = False
    return counts


def count_class(kind: Any) -> None:
    """Change a class of queues whose `_put` and `_get` run where nobody else counts on the same queue."""
    for name, producer in (("_put", True), ("_get", False)):
        inner = kind.__dict__.get(name)
        if inner is not None and not hasattr(inner, "latlab_counts"):
            counted = _counted(kind, inner, name, producer)
            counted.latlab_counts = True
            setattr(kind, name, counted)


def _counted(kind: Any, inner: Any, name: Any, producer: Any) -> Any:
    # A class that calls its parent's method comes through here twice, and only the outer one counts.
    if producer:

        def _put(self: Any, item: Any) -> None:
            inner(self, item)
            if type(self) is kind or getattr(type(self), name) is _put:
                counts = self._latlab_counts
                if counts is not None:
                    counts.put(item)

        return _put

    def _get(self: Any) -> Any:
        item = inner(self)
        counts = self._latlab_counts
        if counts is not None and (type(self) is kind or getattr(type(self), name) is _get):
            counts.get(item)
        return item

    return _get


def count_classes(module: Any, who: Any) -> None:
    """Count what is made of a module's Queue, LifoQueue and PriorityQueue, and of their subclasses."""
    base = module.Queue
    waits.patch_looks(base)
    waits.patch_refusals(base, getattr(module, "Full", None) or module.QueueFull)
    base._latlab_counts = (
        None  # of what was made before, or by a class that doesn't call its parent's __init__
    )
    for kind in (base, module.LifoQueue, module.PriorityQueue):
        count_class(kind)
    begin = base.__init__

    def __init__(self: Any, maxsize: Any = 0, *arguments: Any, **options: Any) -> None:  # noqa: N807
        begin(self, maxsize, *arguments, **options)
        try:
            # An executor of processes fills the queue to its workers from a list of its own as they empty it:
            # its thread is not a stage.
            if sys._getframe(1).f_globals.get("__name__") == "concurrent.futures.process":
                self._latlab_counts = None
                return
            counts = watch(self, names.queue_name(type(self).__name__), maxsize, 0, who)
            if counts is not None:
                for kind in type(self).__mro__[: type(self).__mro__.index(base)]:
                    count_class(kind)
            self._latlab_counts = counts
            if counts is not None and hasattr(self, "not_empty"):
                # Only who has to wait comes by here.
                waits.patch_condition(self.not_empty, counts, True)
                waits.patch_condition(self.not_full, counts, False)
        except Exception:  # noqa: BLE001, S110
            pass  # it stays the queue that it is

    base.__init__ = __init__


counter_file.after_fork.append(_after_fork)
