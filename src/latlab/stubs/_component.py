"""Components under study in Python: recorded, replayed, measured and simulated.

This module is loaded into programs under study: it imports nothing heavy.
"""

from __future__ import annotations

import functools
import io
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from latlab._core import stubs_replay
from latlab.errors import InputError, LatlabError, UsageError
from latlab.stubs import _effects, _trace

OFF, MEASURE, DELAY, REPLAY, SLOW = range(5)
_SHARE, _GIVE, _MAKE = range(3)
_IMMUTABLE: Final = (type(None), bool, int, float, complex, str, bytes)

_components: dict[str, Hook] = {}
_lock = threading.RLock()


class ReplayError(LatlabError):
    """The program under test called a component otherwise than it was recorded."""


def _is_immutable(value: Any, depth: int = 0) -> bool:
    if isinstance(value, _IMMUTABLE) and type(value) in _IMMUTABLE:
        return True
    return type(value) in (tuple, frozenset) and depth < 8 and all(_is_immutable(v, depth + 1) for v in value)


class _Pickler(pickle.Pickler):
    """Names arguments instead of copying them, so that a result that is an argument stays one."""

    def __init__(self, file: io.BytesIO, arguments: dict[int, Any]) -> None:
        super().__init__(file, protocol=5)
        self._arguments = arguments

    def persistent_id(self, value: Any) -> Any:
        return self._arguments.get(id(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._arguments, self._named = arguments, named

    def persistent_load(self, pid: Any) -> Any:
        kind, which = pid
        return self._arguments[which] if kind == "argument" else self._named[which]


class Hook:
    """What stands behind one component's callable."""

    def __init__(self, name: str, function: Callable[..., Any], mutates: tuple[str | int, ...]) -> None:
        self.name = name
        self.function = function
        self.mutates = mutates
        self.callable = stubs_replay.Component(function, self)
        self.shared = False  # threads take their calls from one queue
        self.numbering = False  # threads that are new get a sequence
        self._reset()

    def _reset(self) -> None:
        self.recorded: dict[int, list[bytes | None]] = {}
        self.keys: dict[int, list[bytes]] = {}
        self.keyed: dict[bytes, list[bytes]] = {}
        self.taken: dict[bytes, int] = {}
        self.threads: dict[str, int] = {}
        self.alive: dict[int, tuple[Any, int]] = {}  # results by id: the same object may be returned again
        self.delivered: dict[int, Any] = {}
        self.retained: set[int] | None = None  # calls whose result is returned again; None: not known
        self.count = 0
        self.session: Session | None = None

    def off(self) -> None:
        """Back to the original."""
        self.callable.set_mode(OFF, 1.0, 0, False, False, False)
        self.callable.set_sequences([])
        self._reset()

    def thread_number(self) -> int:
        """Threads are told apart by name: Python numbers unnamed ones by their creation."""
        name = threading.current_thread().name
        with _lock:
            return self.threads.setdefault(name, len(self.threads))

    # What the native callable asks for.

    def sequence_of_thread(self) -> int:
        if self.shared:
            return 0
        if self.numbering:
            return self.thread_number()
        name = threading.current_thread().name
        with _lock:
            if name not in self.threads:
                raise ReplayError(
                    f"{self.name}: thread '{name}' calls it, and did not when it was recorded",
                    remedy="record it again, or replay it keyed",
                )
            return self.threads[name]

    def breathe(self) -> None:
        """Nothing: the interpreter looks for other threads' wishes when it enters a function."""

    def exhausted(self, calls: int) -> None:
        if self.session is not None:
            self.session.failed = True
        raise ReplayError(
            f"{self.name}: called more often than it was recorded ({calls} times)", remedy="record it again"
        )

    def make(self, blob: bytes, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        found = _Unpickler(blob, arguments, named).load()
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
        try:
            target = named[which] if which in named else arguments[self._position(which)]
        except IndexError:
            raise ReplayError(f"{self.name}: argument {which!r} was recorded and is not given") from None
        if target is None and state is None:
            return
        try:
            result = _effects.overwrite(target, state)
        except _effects.AmbiguousStateError as error:
            raise ReplayError(f"{self.name}: argument {which!r}: {error}") from None
        if result is not target:
            raise ReplayError(
                f"{self.name}: argument {which!r} is of type {type(target).__name__}, and "
                f"{type(state).__name__} was recorded"
            )

    def _position(self, which: str | int) -> int:
        if isinstance(which, int):
            return which
        code = getattr(self.function, "__code__", None)
        names = code.co_varnames[: code.co_argcount] if code is not None else ()
        if which not in names:
            raise UsageError(f"{self.name} has no argument '{which}'", remedy=f"one of {', '.join(names)}")
        return int(names.index(which))

    def slow(self, *arguments: Any, **named: Any) -> Any:
        """Recording, and keyed replay."""
        session = self.session
        if session is None:
            return self.function(*arguments, **named)
        if session.replaying:
            mark = self.callable.mark()
            result = self._replay_keyed(session, arguments, named)
            self.callable.spend(mark)
            return result
        return self._record(session, arguments, named)

    def _record(self, session: Session, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        key = _key(arguments, named) if session.keyed else b""
        raised: BaseException | None = None
        value: Any = None
        try:
            value = self.function(*arguments, **named)
        except Exception as error:  # noqa: BLE001  # whatever it raises is part of its function
            raised = error
        thread = self.thread_number()
        known: dict[int, Any] = {
            id(one): ("argument", i) for i, one in enumerate(arguments) if not _is_immutable(one)
        }
        known |= {id(one): ("named", name) for name, one in named.items() if not _is_immutable(one)}
        same = self.alive[id(value)][1] if id(value) in self.alive else -1
        number = self.count
        self.count += 1
        # Immutable results can't be told from copies of themselves, and so needn't be.
        shared = raised is None and id(value) not in known and not _is_immutable(value)
        if shared:
            self.alive.setdefault(id(value), (value, number))
        states = {which: self._state(which, arguments, named) for which in self.mutates}
        document = {
            "k": "e" if raised else "r", "v": raised or value, "fx": states, "same": same, "n": number,
            "keep": shared,
        }  # fmt: skip
        null = value is None and raised is None and not states
        blob = None if null else self._pickle(document, known, set(map(id, states.values())))
        session.add(self, thread, blob, key)
        if raised is not None:
            raise raised
        return value

    def _state(self, which: str | int, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return named[which] if which in named else arguments[self._position(which)]

    def _pickle(self, document: dict[str, Any], known: dict[int, Any], states: set[int]) -> bytes:
        file = io.BytesIO()
        try:
            effects = document.pop("fx")
            # An argument's own state is data, and only the result may refer to it: two pickles.
            inner = {which: _dumps(state) for which, state in effects.items()}
            pickler = _Pickler(file, known)
            pickler.dump({**document, "fx": {which: _State(blob) for which, blob in inner.items()}})
        except Exception as error:
            raise LatlabError(
                f"{self.name}: a result of type {type(document['v']).__name__} can't be serialised ({error})",
                remedy="return plain data, or give its class __getstate__",
            ) from error
        return file.getvalue()

    def _replay_keyed(self, session: Session, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        key = _key(arguments, named)
        blobs = self.keyed.get(key)
        if blobs is None:
            session.failed = True
            raise ReplayError(f"{self.name}: these arguments were not recorded: {arguments!r} {named!r}")
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


class _State:
    """The recorded state of an argument, unpickled by itself so that nothing of it is shared."""

    def __init__(self, blob: bytes) -> None:
        self.blob = blob

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self.blob,)


def _dumps(value: Any) -> bytes:
    return pickle.dumps(value, protocol=5)


def _key(arguments: tuple[Any, ...], named: dict[str, Any]) -> bytes:
    return pickle.dumps((arguments, sorted(named.items())), protocol=5)


class Session:
    """One recording or replay of every component that is registered while it lasts."""

    def __init__(self, path: str, replaying: bool, keyed: bool) -> None:
        self.path, self.replaying, self.keyed = path, replaying, keyed
        self.failed = False
        self.entries: dict[str, list[tuple[int, bytes | None, bytes]]] = {}

    def add(self, hook: Hook, thread: int, blob: bytes | None, key: bytes) -> None:
        with _lock:
            self.entries.setdefault(hook.name, []).append((thread, blob, key))

    def save(self) -> None:
        definitions = []
        for name, entries in self.entries.items():
            hook = _components[name]
            threads = [thread for thread, _ in sorted(hook.threads.items(), key=lambda item: item[1])]
            runs: dict[int, int] = {}
            values, keys = [], []
            for thread, blob, key in entries:
                run = runs.get(thread, 0)
                runs[thread] = run + 1
                values.append(_trace.Value(run, thread, _trace.PICKLE, blob))
                keys.append(key)
            definitions.append(_trace.Definition(name, "python", "", values))
            about = _dumps({"threads": threads, "keys": keys if self.keyed else []})
            definitions.append(
                _trace.Definition(f"{name} about", "latlab", "", [_trace.Value(0, 0, _trace.PICKLE, about)])
            )
        _trace.write(self.path, definitions)


def component(
    name: str | None = None, *, mutates: tuple[str | int, ...] | str = ()
) -> Callable[[Callable[..., Any]], Any]:
    """Make a function or method a component under study.

    Args:
        name: by which traces and studies know it; ``module:qualified.name`` when None.
        mutates: names (or positions) of arguments whose state after the call is part of its function.

    A component that isn't under study costs one more call at C speed.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        return register(
            name or f"{function.__module__}:{function.__qualname__}",
            function,
            (mutates,) if isinstance(mutates, str) else tuple(mutates),
        )

    return decorate


def register(name: str, function: Callable[..., Any], mutates: tuple[str | int, ...] = ()) -> Any:
    """The callable that stands in for `function`; a plan in the environment takes effect at once."""
    with _lock:
        hook = Hook(name, function, mutates)
        _components[name] = hook
        functools.update_wrapper(hook.callable, function)
    from latlab.stubs import _plan

    _plan.apply(hook)
    return hook.callable


def patch(target: str) -> Hook:
    """Put a component in the place of ``module:Class.method`` without touching its code.

    Raises:
        UsageError: the name isn't of that form, or there is no such function.
    """
    import importlib

    module_name, separator, path = target.partition(":")
    if not separator or not path:
        raise UsageError(f"'{target}' is no component", remedy="write module:function or module:Class.method")
    try:
        module = sys.modules.get(module_name) or importlib.import_module(module_name)
        *outer, last = path.split(".")
        owner: Any = functools.reduce(getattr, outer, module)
        found = owner.__dict__[last]
    except (ImportError, AttributeError, KeyError) as error:
        raise UsageError(f"there is no '{target}' ({error})") from error
    if isinstance(found, stubs_replay.Component):
        return next(hook for hook in _components.values() if hook.callable is found)
    plain = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
    if not callable(plain):
        raise UsageError(f"'{target}' can't be called")
    stub = register(target, plain)
    setattr(owner, last, type(found)(stub) if isinstance(found, (staticmethod, classmethod)) else stub)
    hook = _components[target]
    hook.restore = lambda: setattr(owner, last, found)  # type: ignore[attr-defined]
    return hook


def components() -> dict[str, Hook]:
    """Every registered component, by its name."""
    return _components


@contextmanager
def record(path: str | os.PathLike[str], *, keyed: bool = False) -> Iterator[Session]:
    """Record every component's results, exceptions and effects into a trace.

    Raises:
        LatlabError: a result can't be serialised.
    """
    session = begin(os.fspath(path), replaying=False, keyed=keyed)
    try:
        yield session
        session.save()
    finally:
        end()


@contextmanager
def replay(
    path: str | os.PathLike[str], *, keyed: bool = False, lazy: bool = False, views: bool = False
) -> Iterator[Session]:
    """Hand out recorded results instead of calling the components.

    Args:
        path: what `record` wrote.
        keyed: by arguments and not by order; the trace must have been recorded keyed.
        lazy: unpickle each result when it is handed out, not at the start.
        views: hand out recorded arrays as read-only views, not as copies.

    Raises:
        InputError: the trace is none, cut short, or has nothing of a component.
        ReplayError: a component is called more or less often than it was recorded.
    """
    session = begin(os.fspath(path), replaying=True, keyed=keyed, lazy=lazy, views=views)
    try:
        yield session
        if not session.failed and not keyed:
            check_left()
    finally:
        end()


def check_left() -> None:
    """Refuse a replay that left results over."""
    for hook in _components.values():
        left = hook.callable.left()
        if left and hook.session is not None:
            raise ReplayError(
                f"{hook.name}: called less often than it was recorded ({left} results are left)"
            )


def begin(path: str, *, replaying: bool, keyed: bool, lazy: bool = False, views: bool = False) -> Session:
    """Start a session for all components."""
    if any(hook.session is not None for hook in _components.values()):
        raise UsageError("components are recorded or replayed already")
    session = Session(path, replaying, keyed)
    loaded = {d.name: d for d in _trace.read(path)} if replaying else {}
    if replaying and not _components.keys() & loaded.keys():
        there = ", ".join(name for name, d in loaded.items() if d.type == "python") or "nothing"
        raise InputError(path, f"holds nothing of this program's components (it holds {there})")
    try:
        for hook in list(_components.values()):
            if not replaying:
                hook._reset()
                hook.session = session
                hook.callable.set_mode(SLOW, 1.0, 0, False, False, False)
            elif hook.name in loaded:
                load(hook, session, loaded, lazy=lazy, views=views)
    except (pickle.UnpicklingError, EOFError, KeyError, ValueError, AttributeError, ImportError) as error:
        end()  # none stays replaced where one can't be
        raise InputError(path, f"holds a damaged value ({error})", remedy="record it again") from error
    except BaseException:
        end()
        raise
    return session


def load(
    hook: Hook,
    session: Session,
    loaded: dict[str, _trace.Definition],
    *,
    lazy: bool,
    views: bool = False,
    shared: bool = False,
) -> None:
    """Preload one component's results; `shared`: one sequence for all threads."""
    hook._reset()
    hook.session = session
    values = loaded[hook.name].values
    about = pickle.loads(loaded[f"{hook.name} about"].values[0].data or b"")
    hook.threads = {name: number for number, name in enumerate(about["threads"])}
    if session.keyed:
        if len(about["keys"]) != len(values):
            hook.off()
            raise UsageError(f"{session.path} was not recorded keyed", remedy="record it with --keyed")
        for key, value in zip(about["keys"], values, strict=True):
            hook.keyed.setdefault(key, []).append(value.data or b"")
        hook.callable.set_mode(SLOW, 1.0, 0, False, False, False)
        return
    if not lazy:
        hook.retained = set(filter(lambda n: n >= 0, map(_again, values)))
    count = 1 if shared else len(about["threads"])
    sequences: list[tuple[list[Any], bytearray]] = [([], bytearray()) for _ in range(count)]
    for value in values:
        made, kind = _prepare(value.data, lazy, views, hook.retained)
        sequence = sequences[0 if shared else value.thread]
        sequence[0].append(made)
        sequence[1].append(kind)
    hook.callable.set_sequences([(list(v), bytes(k)) for v, k in sequences])
    hook.callable.set_mode(REPLAY, 1.0, 0, False, False, False)


def _again(value: _trace.Value) -> int:
    """The number of the call that returned this same object before, or -1."""
    if value.data is None:
        return -1
    found = _trace.decode_pickle(value.data)
    return int(found["same"])


def _prepare(blob: bytes | None, lazy: bool, views: bool, retained: set[int] | None) -> tuple[Any, int]:
    """How a result is handed out fastest without ever sharing what the program could change."""
    if blob is None:
        return None, _SHARE
    if lazy:
        return blob, _MAKE
    try:
        found = _Unpickler(blob, (), {}).load()
    except (IndexError, KeyError):  # it refers to an argument
        return blob, _MAKE
    value = found["v"]
    if found["k"] != "r" or found["fx"]:
        return blob, _MAKE
    if _is_immutable(value):
        return value, _SHARE
    if found["same"] >= 0 or retained is None or found["n"] in retained:
        return blob, _MAKE
    if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
        if views and value.dtype != object:
            value.setflags(write=False)
            return value, _SHARE
        # Unpickled, it lies in a buffer that isn't its own.
        return value.copy(order="K"), _GIVE
    return value, _GIVE


def end() -> None:
    """Give every component its original function back."""
    for hook in _components.values():
        if hook.session is not None:
            hook.off()
