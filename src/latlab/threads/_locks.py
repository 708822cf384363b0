"""Which futex words are locks: mutex, reader-writer lock, interpreter lock; and which are conditions.

Where stacks were taken the function that waits says it. Without one a word is a lock if the threads that
wait for it are those that end the waits of others for it, one at a time, and do the same work: at a queue's
condition variable those that wait are never those that wake, and a barrier wakes all at once.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from latlab.model.schedule import Frame, Schedule, Source, State, Wait
from latlab.schedule.code.names import CONDITION, is_own, plain
from latlab.threads._tracks import LOCKABLE, MONITORS, Track, address_of, file_of, set_of

__all__ = ["Word", "join_monitors", "words_of"]

_PYTHON = re.compile(r"/(lib)?python3[\w.]*$")
_GIL = re.compile(r"take_gil|drop_gil|PyEval_RestoreThread|PyEval_AcquireThread|_PyThreadState_Attach")
_MUTEX = re.compile(
    r"mutex_(?:lock|timedlock|clocklock)|lll_lock_wait|lll_mutex|_L_lock|rwlock|RwLock|"
    r"Mutex>?::lock|mutex::lock|lock_slow|spin_lock|sync\.\(\*(?:RW)?Mutex\)|monitorenter|ObjectMonitor::enter"
)
_POSIX_SEMAPHORE = re.compile(r"sem_(?:timed|clock)?wait")
_SEMAPHORE = re.compile(rf"{_POSIX_SEMAPHORE.pattern}|semaphore|sem(?:timed)?op", re.I)
_WOKEN = re.compile(r"pthread_cond_(?:timed|clock)?wait|Condvar::wait")
_CALLERS = 4  # frames from a mutex's innermost function to the one that takes it
# Of a Java virtual machine: who enters parks on a word of its own, and who leaves wakes the next by that.
_MONITOR = re.compile(r"\bObjectMonitor::(?:EnterI|ReenterI|enter)\b")
_MACHINE = "libjvm"
_OF_PYTHON = "Condition.wait"
# Who takes from a queue written in C waits for its lock until there is something, and holds it meanwhile.
_AN_ITEM = re.compile(r"SimpleQueue[._]get")
_QUEUES = re.compile(r"/_queue\.[^/]*so$")
# Extensions of CPython's own library have no condition variables: what waits for one is the interpreter.
_OF_LIBRARY = re.compile(r"/lib-dynload/[^/]+$")
_IN = " in "
_SEMAPHORES = "semaphore"
_CALLS = ("__", "futex", "syscall", "pthread", "lll_", "PyThread_", "lock_PyThread")
_LEAST_WAITS = 5
_TOGETHER_NS = 30_000
_HARDLY = 0.1  # of what who waits longest does
_AT_ONCE = 0.2  # of the waits end with another one, by the same thread
_SYMMETRY = 0.5
_OFTEN = 0.15  # of the waits of a thread that one of several ends
_ONE = 0.9  # of the waits of a thread that one other ends: nearly all
_ALL_WAIT = 0.5  # of the time: a word for which all wait together for longer is held by none of them


@dataclass(slots=True)
class Word:
    """One futex word (of two neighbours a condition variable's both).

    Attributes:
        key: of the word, among those of all processes.
        lock: whether threads contend for it; `sure` that a stack says so.
        holds: of each thread that ended waits the times (begin, end) in which it held the word, as far as
            somebody waited for it then.
    """

    key: int
    waits: int = 0
    wait_ns: int = 0
    longest_ns: int = 0
    timed: int = 0
    waiters: Counter[int] = field(default_factory=Counter)  # thread -> ns
    wakers: Counter[int] = field(default_factory=Counter)
    mutual_ns: int = 0  # of waits, that such a thread ended that waits for it itself, and the other way round
    alike_ns: int = 0  # of these, between threads of one role
    role_ns: int = 0  # of waits, that a thread of the waiting one's own role ended
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)  # (waker, waiter) -> waits
    broadcast: int = 0  # waits that end with another one, by the same thread
    let_go: int = 0  # of these, by a thread that hardly waits: as at a barrier, where the last one comes late
    waits_in: Counter[str] = field(default_factory=Counter)
    bare: Counter[str] = field(default_factory=Counter)  # functions that wait by the system call itself
    lock: bool = False
    sure: bool = False
    interpreter: bool = False
    beneath_python: int = 0  # waits for a condition right beneath Python code, whose own locks are none
    python: bool = False  # a lock of Python's, which CPython makes of a semaphore
    posix: bool = False  # a sem_t, of 32 bytes: no second one is near enough to be seen as the same word
    file: str = ""  # the path of the locked file; empty for a futex
    holds: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    @property
    def address(self) -> int:
        """In its process."""
        return address_of(self.key)

    @property
    def places(self) -> list[str]:
        """The program's own functions that wait for it, most often first."""
        return [name.split(_IN, 1)[1] for name, _ in self.waits_in.most_common() if _IN in name]

    @property
    def name(self) -> str:
        """As it is told: the interpreter's, or by its address and where it is waited for."""
        if self.interpreter:
            return "GIL"
        if self.file:
            return f"file lock on {self.file}"
        where = f" in {self.places[0]}" if self.places else ""
        if self.set or self.monitor:
            return f"{self.set or 'Java monitor'}{where}"
        return f"{self.what} {self.address:#x}{where}"

    @property
    def monitor(self) -> bool:
        """Whether it is what Java's `synchronized` enters."""
        return bool(self.key & MONITORS) and not (self.set or self.file)

    @property
    def set(self) -> str:
        """Of System V semaphores, or ""."""
        number = set_of(self.key)
        return f"System V semaphore {number}" if number >= 0 else ""

    @property
    def told(self) -> str:
        """As a sentence has it."""
        where = f", waited for in {self.places[0]}" if self.places else ""
        if self.file or self.set or self.monitor:
            return (
                f"the {self.name}" if self.monitor else f"the {self.name if self.file else self.set}{where}"
            )
        return f"the {self.what} at {self.address:#x}{where}"

    @property
    def what(self) -> str:
        """A lock, or a semaphore."""
        most = next(iter(self.waits_in.most_common(1)), ("", 0))[0]
        return _SEMAPHORES if most.startswith(_SEMAPHORES) and not self.python else "lock"


def join_monitors(schedule: Schedule, tracks: Sequence[Track]) -> None:
    """Gives the waits of threads that enter a monitor one word, in place of one for each thread.

    Those whose waits end each other's enter the same one, for all that can be seen.
    """
    entering = [
        any(_MONITOR.search(schedule.frames[frame].function) for frame in stack) for stack in schedule.stacks
    ]
    if not any(entering):
        return
    of = schedule.samples["stack"].tolist()
    told: Counter[int] = Counter()
    entered: Counter[int] = Counter()
    blocked = int(State.BLOCKED)
    for track in tracks:
        for wait, state, key, sample in zip(track.wait, track.state, track.object, track.sample, strict=True):
            if sample >= 0 and state == blocked and wait == Wait.FUTEX and key > 0:
                told[key] += 1
                entered[key] += entering[of[sample]]
    parked = {key for key, number in entered.items() if number > 0.5 * told[key]}
    by_thread = int(Source.THREAD)
    first = list(range(len(tracks)))

    def root(thread: int) -> int:
        while first[thread] != thread:
            thread = first[thread]
        return thread

    waits = {
        track.thread: [
            at
            for at, (wait, key) in enumerate(zip(track.wait, track.object, strict=True))
            if wait == Wait.FUTEX and key in parked
        ]
        for track in tracks
    }
    for track in tracks:
        for at in waits[track.thread]:
            waker = track.waker[at]
            if track.source[at] == by_thread and waker >= 0 and waits.get(waker):
                low, high = sorted((root(track.thread), root(waker)))
                first[high] = low
    for track in tracks:
        for at in waits[track.thread]:
            track.object[at] = MONITORS | root(track.thread) + 1


def words_of(schedule: Schedule, tracks: Sequence[Track], role_of: Mapping[int, int]) -> dict[int, Word]:
    """All futex words that were waited for."""
    words: dict[int, Word] = {}
    # Plain numbers: to compare with a member of an enumeration takes several times as long.
    blocked, by_thread, timed = int(State.BLOCKED), int(Source.THREAD), int(Source.TIMER)
    ended: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
    for track in tracks:
        rows = zip(
            track.wait, track.state, track.object, track.begin, track.end, track.source, track.waker,
            track.sample, strict=True,
        )  # fmt: skip
        for wait, state, key, begin, end, source, waker, sample in rows:
            if state != blocked or wait not in LOCKABLE or key <= 0:
                continue
            word = words.get(key)
            if word is None:
                word = words[key] = Word(key)
                word.file = schedule.objects.get(file_of(key), "")
            time = end - begin
            if source == by_thread and waker >= 0:
                ended[key].append((end, waker, track.thread, time))
            elif source == timed:
                word.timed += 1
            if sample >= 0:
                _count_stack(schedule, sample, word)
        for key, number in track.looks.items():
            if key in words:
                words[key].timed += number
    window = max(1, schedule.ended_ns - schedule.began_ns)
    for address, waits in ended.items():
        word = words[address]
        waits.sort()
        word.waits = len(waits)
        for _, waker, waiter, time in waits:
            word.waiters[waiter] += time
            word.wakers[waker] += 1
        word.wait_ns = sum(word.waiters.values())
        word.longest_ns = max(time for *_, time in waits)
        last_waker, last_end = -1, 0
        since: dict[int, int] = {}  # when a thread got the word, or gave it up
        for end, waker, waiter, time in waits:
            word.holds.setdefault(waker, []).append((max(end - time, since.get(waker, 0)), end))
            since[waker] = since[waiter] = end
            if waker == last_waker and end - last_end < _TOGETHER_NS:
                word.broadcast += 1
                word.let_go += word.waiters[waker] < _HARDLY * max(word.waiters.values())
            last_waker, last_end = waker, end
            word.pairs[waker, waiter] += 1
            word.role_ns += time if role_of.get(waker) == role_of.get(waiter) else 0
            if word.waiters[waker] > 0 and word.wakers[waiter] > 0:
                word.mutual_ns += time
                word.alike_ns += time if role_of.get(waker) == role_of.get(waiter) else 0
        _judge(word, window)
    return words


def _count_stack(schedule: Schedule, sample: int, word: Word) -> None:
    stack = schedule.stacks[int(schedule.samples["stack"][sample])]
    frames = [schedule.frames[frame] for frame in stack]
    names = [frame.function for frame in frames]
    if any(_GIL.search(name) for name in names):
        word.waits_in["the interpreter lock"] += 1
        word.interpreter = True
        return
    kind = "lock" if word.file or word.monitor else _SEMAPHORES if word.set else ""
    for at, name in enumerate(() if kind else names[:8]):
        if _SEMAPHORE.search(name):
            # Of Python's conditions there is a lock of its own for each wait: its word is reused.
            if names[at + 1 : at + 2] == [_OF_PYTHON] or _for_an_item(frames[at + 1 : at + 1 + _CALLERS]):
                kind = "condition"
                break
            kind = _SEMAPHORES
            word.posix |= _POSIX_SEMAPHORE.search(name) is not None
            # The interpreter's own frames may have been left out.
            word.python |= any(one.file.endswith(".py") for one in frames[at + 1 : at + 2])
            break
        if CONDITION.search(name):
            above = next((one for one in frames[at + 1 :] if not CONDITION.search(one.function)), None)
            if above is not None and _of_interpreter(above):
                word.beneath_python += (
                    1  # without symbols nothing tells whether that is the interpreter's lock
                )
                return
            kind = "condition"
            break
        if _MUTEX.search(name):
            # Who was woken from a condition takes its mutex again: many that are woken at once queue up
            # there, and would without anybody's holding it for long.
            again = any(_WOKEN.search(outer) for outer in names[at + 1 : at + _CALLERS])
            kind = "condition" if again else "lock"
            break
    word.python |= any("PyThread_acquire_lock" in name for name in names)
    if kind in ("lock", _SEMAPHORES):
        taken = _MUTEX if kind == "lock" else _SEMAPHORE
        named = [one for one in frames if not (word.monitor and _MACHINE in one.module)]
        own = (plain(one.function) for one in named if is_own(one) and not taken.search(one.function))
        outer = next((name for name in own if not name.startswith(_CALLS)), "")
        word.waits_in[f"{kind}{_IN}{outer}" if outer else kind] += 1
    elif kind == "condition":
        word.waits_in["condition"] += 1
    else:
        callers = (plain(one.function) for one in frames if is_own(one))
        word.bare[next((name for name in callers if name and not name.startswith(_CALLS)), "")] += 1


def _of_interpreter(frame: Frame) -> bool:
    """Whether a frame is of Python code, or of its interpreter, and nothing more is known of it."""
    if frame.file.endswith(".py"):
        return True
    return not frame.function and bool(_PYTHON.search(frame.module) or _OF_LIBRARY.search(frame.module))


def _for_an_item(callers: Sequence[Frame]) -> bool:
    """Whether who waits for a semaphore does so in the queue that has it, for what somebody puts there."""
    return any(_AN_ITEM.search(one.function) or _QUEUES.search(one.module) for one in callers)


def _passed_round(word: Word) -> bool:
    """Whether each that waits is woken by another one of its own: a turn that may go round.

    Two words of 4 bytes, side by side, are seen as one. So of two threads it is never told, but for a POSIX
    semaphore, which is one word: who hands a turn on by it alone would take it back.
    """
    if word.posix:
        return False
    wakers = []
    for waiter in word.waiters:
        mine = {waker: number for (waker, one), number in word.pairs.items() if one == waiter}
        waker = max(mine, key=lambda one: mine[one])
        if mine[waker] < _ONE * sum(mine.values()):
            return False
        wakers.append(waker)
    return len(set(wakers)) == len(wakers)


def _by_all(word: Word) -> bool:
    """Whether each of three or more that wait is let go by several others: they hold it by turns.

    Who makes for another one, or hands a turn on, lets go the same one each time.
    """
    if len(word.waiters) < 3:
        return False
    for one in word.waiters:
        for side in (0, 1):
            others = [number for pair, number in word.pairs.items() if pair[side] == one]
            if sum(number >= _OFTEN * sum(others) for number in others) < 2:
                return False
    return True


def _judge(word: Word, window: int) -> None:
    if file_of(word.key) >= 0:
        word.sure, word.lock = True, word.waits >= _LEAST_WAITS
        return
    told = sum(word.waits_in.values())
    if word.interpreter:
        gil = word.waits_in["the interpreter lock"]
        word.lock = word.sure = gil > 0.5 * told
        word.interpreter = word.lock
        return
    if word.set or (word.waits_in and word.waits_in.most_common(1)[0][0].startswith(_SEMAPHORES)):
        # Who lends something out and takes it back does the same work; who makes for others does other work.
        word.sure = True
        word.lock = (
            word.waits >= _LEAST_WAITS
            and len(word.waiters) >= 2
            and word.role_ns > _SYMMETRY * word.wait_ns
            and word.let_go < _AT_ONCE * word.waits
            and not _passed_round(word)
        )
        return
    # (Of what waits right beneath Python code few stacks may look like another wait: they don't decide.)
    if told > word.beneath_python:
        locks = sum(number for name, number in word.waits_in.items() if name.startswith("lock"))
        word.sure = True
        word.lock = locks > 0.5 * told and word.waits >= _LEAST_WAITS
        return
    word.lock = (
        word.waits >= _LEAST_WAITS
        and len(word.waiters) >= 2
        and word.mutual_ns > _SYMMETRY * word.wait_ns
        and (word.alike_ns > _SYMMETRY * word.mutual_ns or _by_all(word))
        and word.broadcast < _AT_ONCE * word.waits
        # Of those that take a lock one holds it, and so doesn't wait: where all do, they wait for a signal.
        and word.wait_ns < (len(word.waiters) - _ALL_WAIT) * window
    )
    if word.lock:
        word.waits_in.update({f"lock{_IN}{name}": number for name, number in word.bare.items() if name})
