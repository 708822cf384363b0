"""Components under study in Python: recorded, replayed, measured and simulated.

Over 400 lines: what a program under study loads is one module, so that its start hardly changes.

This module is loaded into programs under study: it imports nothing heavy.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from latlab._core import stubs_replay
from latlab.errors import LatlabError, UsageError
from latlab.stubs.components import data as _data
from latlab.stubs.components import effects as _effects
from latlab.stubs.components import state as _state
from latlab.stubs.components import values as _values

if TYPE_CHECKING:
    from latlab.stubs.components.session import Session

OFF, MEASURE, DELAY, REPLAY, SLOW, RECORD = range(6)

# Of a code object's co_flags (inspect.CO_*).
_SUSPENDED = {0x20: "a generator", 0x80: "an async function", 0x200: "an async generator"}

# As a function is: by its name, which is the component's in another process, too.
copyreg.pickle(stubs_replay.Component, lambda stub: str(vars(stub)["__qualname__"]))

#: How a result is handed out: the same to everybody, once, or made when it is asked for.
SHARED, GIVEN, MADE = range(3)
#: More calls than there ever are.
NEVER = (1 << 64) - 1
_FEW = 1024  # results that are held before those are let go that nobody else has

lock = threading.RLock()
_components: dict[str, Hook] = {}


# What threads and processes of a pool run: which of them takes which call is chance.
_POOLS = {
    ("multiprocessing.pool", "worker"), ("concurrent.futures.process", "_process_worker"),
    ("concurrent.futures.thread", "_worker"), ("joblib.externals.loky.process_executor", "_process_worker"),
    ("loky.process_executor", "_process_worker"),
}  # fmt: skip


def of_pool(one: object) -> bool:
    """Whether a thread or a process object is a pool's."""
    target = getattr(one, "_target", None)
    return (getattr(target, "__module__", ""), getattr(target, "__name__", "")) in _POOLS


class ReplayError(LatlabError):
    """The program under test called a component otherwise than it was recorded."""


class Hook:
    """What stands behind one component's callable."""

    def __init__(self, name: str, function: Callable[..., Any], mutates: tuple[str | int, ...]) -> None:
        self.name = name
        self.function = function
        self.mutates = mutates
        self.callable = stubs_replay.Component(function, self)
        self.watch: _state.Watch | None = None  # looks at what calls change
        self.watching = False
        self.pooled = False  # this process is a pool's: which calls it gets is chance
        self.shared = False  # threads take their calls from one queue
        self.numbering = False  # threads that are new get a sequence
        self._parts: dict[str | int, tuple[str, str, int]] = {}  # of what a call changes
        self._loadable: set[str | int] = set()  # of it, what was loaded again once
        self.reset()

    def reset(self) -> None:
        """Forget what was loaded and counted."""
        self.recorded: dict[int, list[bytes | None]] = {}
        self.keys: dict[int, list[bytes]] = {}
        self.keyed: dict[bytes, list[bytes]] = {}
        self.taken: dict[bytes, int] = {}
        self.threads: dict[str, int] = {}
        self.alive: dict[int, tuple[Any, int]] = {}  # results by id: the same object may be returned again
        self.many = _FEW  # of them
        self.delivered: dict[int, Any] = {}
        self.retained: set[int] | None = None  # calls whose result is returned again; None: not known
        self.count = -1  # the number of the last result that is no plain data
        # In order and watched: each thread's results, how they are handed out, what was found after calls.
        self.ordered: dict[int, tuple[list[Any], bytearray, dict[int, dict[str, int]]]] = {}
        self.taken_in_order: dict[int, int] = {}
        self.differs: str | None = None
        self.lost: dict[str, str] = {}  # places that can't be kept, and why
        self.session: Session | None = None

    def require_plain(self) -> None:
        """Refuse a function whose call returns before its work is done.

        Raises:
            UsageError: it is a generator or a coroutine function.
        """
        flags = getattr(getattr(self.function, "__code__", None), "co_flags", 0)
        for bit, what in _SUSPENDED.items():
            if flags & bit:
                raise UsageError(
                    f"{self.name} is {what}: its call returns before its work is done",
                    remedy="make the function that does the work the component",
                )

    def off(self) -> None:
        """Back to the original."""
        self.callable.latlab_set_mode(OFF, 1.0, 0, False, False, False)
        self.callable.latlab_set_sequences([])
        self.reset()

    def record(self, session: Session, watching: bool) -> None:
        """Record from now on: at the speed of C, where nothing but results tells calls apart."""
        self.session, self.watching = session, watching
        if watching:
            from latlab.stubs.components import audited

            audited.hear()
        if session.keyed or self.pooled or self.shared or self.mutates:
            self.callable.latlab_set_sequences([])
            self.callable.latlab_set_mode(SLOW, 1.0, 0, False, False, False)
            return
        self.numbering = True
        self.callable.latlab_set_mode(RECORD, 1.0, 0, False, False, False)
        self.callable.latlab_set_looks(0 if watching else NEVER, True)

    def write_kept(self) -> None:
        """Write the plain results of this thread, of which there are many now."""
        if self.session is not None:
            self.session.write_kept(self, self.thread_number())

    def keeps_by_arguments(self) -> bool:
        """Whether it is chance which calls this thread gets."""
        return self._by_arguments()

    def thread_number(self) -> int:
        """Threads are told apart by name: Python numbers unnamed ones by their creation."""
        name = threading.current_thread().name
        with lock:
            return self.threads.setdefault(name, len(self.threads))

    # What the native callable asks for.

    def sequence_of_thread(self) -> int:
        """The thread's place in the order of threads; 0 where all share one."""
        if self.shared:
            return 0
        if self.numbering:
            return self.thread_number()
        name = threading.current_thread().name
        with lock:
            if name not in self.threads:
                raise self._failed(
                    f"thread '{name}' calls it, and did not when it was recorded",
                    remedy="record it again, or replay it keyed",
                )
            return self.threads[name]

    def breathe(self) -> None:
        """Nothing: the interpreter looks for other threads' wishes when it enters a function."""

    def exhausted(self, calls: int) -> None:
        """Raise: it was called more often than recorded."""
        raise self._failed(
            f"called more often than it was recorded ({calls} times)",
            remedy="record it again"
            + (", keyed: threads may take their calls from one queue" if len(self.threads) > 1 else ""),
        )

    def _failed(self, what: str, remedy: str = "") -> ReplayError:
        """What ends the replay, even where the program takes it for an error of the component."""
        error = ReplayError(f"{self.name}: {what}", remedy=remedy)
        if self.session is not None and self.session.error is None:
            self.session.error = error
        return error

    def make(self, blob: bytes, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The recorded result, with its effects applied to the arguments."""
        try:
            found = _values.loads(blob, arguments, named)
        except _data.RefusedError as error:
            raise self._failed(f"a recorded result is not loaded: {error}", remedy=_data.REMEDY) from None
        for which, state in found["fx"].items():
            self._apply(which, state, arguments, named)
        value = found["v"]
        if found["k"] == "e":
            raise value
        same = found["same"]
        if same in self.delivered:
            value = _effects.overwrite(self.delivered[same], value)
        if found["keep"] and (self.retained is None or found["n"] in self.retained or same >= 0):
            self.delivered[found["n"] if same < 0 else same] = value
        return value

    def _apply(self, which: str | int, state: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        place = self._place(which, arguments, named)
        if place is None:
            raise self._failed(f"argument {which!r} was recorded and is not given")
        target = place.get()
        if type(target) is type(state) and target is not _state.MISSING and _values.is_immutable(target):
            if not place.whole:
                place.put(state)
            return  # an argument that can't change wasn't changed when it was recorded
        if not place.whole and (state is None or target is _state.MISSING or state is _state.MISSING):
            place.put(state)
            return
        try:
            result = _effects.overwrite(target, state)
        except _effects.AmbiguousStateError as error:
            raise self._failed(f"argument {which!r}: {error}") from None
        if result is not target:
            if place.whole:
                given, recorded = type(target).__name__, type(state).__name__
                if given == recorded:
                    raise self._failed(f"argument {which!r}: a {given} can't be changed in place")
                raise self._failed(f"argument {which!r} is of type {given}, and {recorded} was recorded")
            place.put(result)
        elif place.copied:
            place.put(state)

    def watcher(self) -> _state.Watch:
        """What looks at the places that a call reaches."""
        if self.watch is None:
            code = getattr(self.function, "__code__", None)
            names = code.co_varnames[: code.co_argcount] if code is not None else ()
            self.watch = _state.Watch(self.function, names)
        return self.watch

    def _place(
        self, which: str | int, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> _state.Place | None:
        """Where what a call changes lies; None: it isn't there in this call."""
        if isinstance(which, str) and ":" in which:
            return self.watcher().place(which, (*arguments, *named.values()))
        root, member, position = self._parts.get(which) or self._parts_of(which, named)
        position = -1 if root in named else position
        if position >= len(arguments):
            return None
        holder = named[root] if position < 0 else arguments[position]
        return _state.member_of(holder, member) if member else _state.Place(lambda: holder)

    def _parts_of(self, which: str | int, named: dict[str, Any]) -> tuple[str, str, int]:
        """An argument's name, its member's, and where it is given by position."""
        root, _, member = str(which).partition(".")
        try:
            found = root, member, self._position(int(root) if root.isdigit() else root)
        except UsageError:
            if root in named:  # one of **named
                return root, member, -1
            raise
        self._parts[which] = found
        return found

    def _position(self, which: str | int) -> int:
        if isinstance(which, int):
            return which
        code = getattr(self.function, "__code__", None)
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code is not None else ()
        if which not in names:
            raise UsageError(f"{self.name} has no argument '{which}'", remedy=f"one of {', '.join(names)}")
        return int(names.index(which))

    def slow(self, *arguments: Any, **named: Any) -> Any:
        """Recording, and keyed replay."""
        session = self.session
        if session is None:
            return self.function(*arguments, **named)
        if session.replaying and not session.keyed and not self._by_arguments():
            mark = self.callable.latlab_mark()
            result = self._replay_watched(arguments, named)
            self.callable.latlab_spend(mark)
            return result
        if not session.replaying and not session.keyed and stubs_replay.set_recording(True):
            return self.function(*arguments, **named)  # a stub of the outer one won't call it either
        if session.replaying:
            mark = self.callable.latlab_mark()
            result = self._replay_keyed(session, arguments, named)
            self.callable.latlab_spend(mark)
            return result
        return self._record(session, arguments, named)

    def _key(self, session: Session, arguments: tuple[Any, ...], named: dict[str, Any]) -> bytes:
        if session.keyed and not self.pooled:
            return _values.key_of(arguments, named)
        if not self.pooled and not self._by_arguments():
            return b""
        try:
            return _values.key_of(arguments, named)
        except Exception:  # noqa: BLE001  # not to be told apart: results come in order
            return _values.UNTOLD

    def _by_arguments(self) -> bool:
        """Whether it is chance which calls this thread gets: their arguments tell them apart."""
        return self.shared or of_pool(threading.current_thread())

    def _record(self, session: Session, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        outer = False if not session.keyed else stubs_replay.set_recording(True)
        raised: BaseException | None = None
        value: Any = None
        try:
            key = self._key(session, arguments, named)
            before = self._before(arguments, named) if self.watching else None
            try:
                value = self.function(*arguments, **named)
            except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever it raises is part of its function
                raised = error
        finally:
            stubs_replay.set_recording(outer)
        looked = None
        if before is not None:
            looked = self.watcher().after(before, arguments, named)
            self.callable.latlab_set_looks(self.watcher().quiet, self.watcher().reaches)
        self._keep(session, arguments, named, value, raised, key, looked)
        if raised is not None:
            raise raised
        return value

    def _before(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, int] | None:
        return self.watcher().before(self.callable.latlab_calls(), arguments, named)

    def keep(
        self, arguments: tuple[Any, ...], named: dict[str, Any], value: Any, raised: BaseException | None
    ) -> None:
        """A result that is no plain data, of a call that was recorded at the speed of C."""
        if self.session is not None:
            self._keep(self.session, arguments, named, value, raised, b"", None)

    def _keep(
        self, session: Session, arguments: tuple[Any, ...], named: dict[str, Any], value: Any,
        raised: BaseException | None, key: bytes, looked: dict[str, int] | None,
    ) -> None:  # fmt: skip
        thread = self.thread_number()
        known: dict[int, Any] = {
            id(one): ("argument", i) for i, one in enumerate(arguments) if not _values.is_immutable(one)
        }
        known |= {id(one): ("named", name) for name, one in named.items() if not _values.is_immutable(one)}
        # A result that is a member of an argument stays one, so that a change of either is one of both.
        if self.watching and not _values.is_immutable(value) and id(value) not in known:
            known |= {
                id(one): (*known[id(holder)], name)
                for holder in (*arguments, *named.values())
                if id(holder) in known
                for name, one in _values.members(holder)
                if one is value
            }
        same = self.alive[id(value)][1] if id(value) in self.alive else -1
        with lock:
            # The call's number, which another thread may have drawn meanwhile.
            number = self.count = max(self.count + 1, self.callable.latlab_calls() - 1)
        # Immutable results can't be told from copies of themselves, and so needn't be.
        shared = raised is None and id(value) not in known and not _values.is_immutable(value)
        if shared:
            self.alive.setdefault(id(value), (value, number))
            if len(self.alive) > self.many:
                self._let_go()
        states = {}
        for which in self.mutates:
            place = self._place(which, arguments, named)
            if place is not None and str(which) not in self.lost:
                states[which] = place.get()
        document = {
            "k": "r" if raised is None else "e", "v": value if raised is None else raised, "fx": states,
            "same": same, "n": number,
            "keep": shared,
        }  # fmt: skip
        null = value is None and raised is None and not states
        blob = None if null else self._pickle(document, known)
        session.add(self, thread, blob, key, looked)

    def left_out(self) -> dict[str, str]:
        """What calls were seen to do that a stub doesn't, and why not."""
        return {} if self.watch is None else self.watch.left_out(self.lost)

    def _let_go(self) -> None:
        """Forget results that nobody else has: such an object can't be returned again."""
        with lock:
            held, self.alive = self.alive, {}
            for number, one in held.items():
                if sys.getrefcount(one[0]) > 2:  # the tuple's own and the argument's
                    self.alive[number] = one
            self.many = max(_FEW, 2 * len(self.alive))

    def _pickle(self, document: dict[str, Any], known: dict[int, Any]) -> bytes:
        # Data that nobody can change refer to no argument, and nothing is shared by them.
        plain = _values.is_immutable(document["v"])
        effects = document["fx"]
        if plain and all(map(_values.is_immutable, effects.values())):
            return pickle.dumps(document, protocol=5)
        file = io.BytesIO()
        try:
            # An argument's own state is data, and only the result may refer to it: two pickles.
            inner = {}
            for which, state in effects.items():
                try:
                    inner[which] = _values.dumps(state)
                    if self.watching and which not in self._loadable:
                        again = _values.loads(inner[which], (), {})  # a replay must be able to
                        if _state.fingerprint(again) != _state.fingerprint(state):
                            raise TypeError("it is another one when it is loaded again")
                        self._loadable.add(which)
                except Exception as error:  # a state's own __reduce__ raises what it likes
                    if not self.watching:
                        raise
                    inner.pop(which, None)
                    self.lost[str(which)] = str(error)
            document["fx"] = {which: _values.State(blob) for which, blob in inner.items()}
            if plain:
                return pickle.dumps(document, protocol=5)
            _values.Pickler(file, known).dump(document)
        except Exception as error:
            failed = LatlabError(
                f"{self.name}: a result of type {type(document['v']).__name__} can't be serialised ({error})",
                remedy="return plain data, or give its class __getstate__",
            )
            if self.session is not None and self.session.error is None:
                self.session.error = failed
            raise failed from error
        return file.getvalue()

    def _replay_watched(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """In order, and compared with what was recorded of the state after each call that was looked at."""
        values, kinds, looks = self.ordered[self.sequence_of_thread()]
        thread = self.sequence_of_thread()
        at = self.taken_in_order[thread] = self.taken_in_order.get(thread, -1) + 1
        if at >= len(values):
            self.exhausted(at)
        blob = values[at]
        raised: BaseException | None = None
        value = None
        try:
            value = blob if kinds[at] == SHARED else self.make(blob, arguments, named)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # as it was recorded
            raised = error
        expected = looks.get(at)
        if expected is not None and self.differs is None:
            found = self.watcher().look(arguments, named)
            other = [label for label in expected if found.get(label, expected[label]) != expected[label]]
            if other:
                self.differs = f"after call {at + 1} {other[0]} is another one"
        if raised is not None:
            raise raised
        return value

    def _replay_keyed(self, session: Session, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        key = self._key(session, arguments, named)
        blobs = self.keyed.get(key)
        if blobs is None:
            raise self._failed(
                f"these arguments were not recorded: {arguments!r} {named!r}",
                remedy="record it again; where processes are ended with tasks left, which calls are made is "
                "chance: let them end by themselves",
            )
        with lock:
            at = self.taken.get(key, 0)
            self.taken[key] = at + 1
        # A component that gave one result for these arguments gives it again.
        blob = (
            blobs[min(at, len(blobs) - 1)] if len(set(blobs)) == 1 else blobs[at] if at < len(blobs) else None
        )
        if blob is None:
            self.exhausted(len(blobs))
        assert blob is not None
        return None if blob == b"" else self.make(blob, arguments, named)


def components() -> dict[str, Hook]:
    """Every registered component, by its name."""
    return _components
