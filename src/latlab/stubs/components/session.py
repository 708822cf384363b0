"""Sessions: every component recorded, or replayed from a trace, for as long as a block lasts.

This module is loaded into programs under study: it imports nothing heavy.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from latlab.errors import InputError, LatlabError, UsageError
from latlab.stubs.components import data as _data
from latlab.stubs.components import trace as _trace
from latlab.stubs.components import values as _values
from latlab.stubs.components.hook import (
    GIVEN,
    MADE,
    REPLAY,
    SHARED,
    SLOW,
    Hook,
    ReplayError,
    components,
    lock,
)  # fmt: skip

_MOST_KEYS_BYTES = 1 << 20  # of one component that are held until they are written
_KEY_BYTES = 64  # that one takes besides its own


class Session:
    """One recording or replay of every component that is registered while it lasts."""

    def __init__(self, path: str, replaying: bool, keyed: bool) -> None:
        self.path, self.replaying, self.keyed = path, replaying, keyed
        self.error: LatlabError | None = None  # the first that the program under test was given
        self.held_bytes = 0  # memory that the preloaded results of a replay take
        self.looks: dict[str, dict[tuple[int, int], dict[str, int]]] = {}
        self._writer: _trace.Writer | None = None
        self._saved = False
        self._numbers: dict[str, int] = {}  # of components in the trace
        self._entries: dict[str, int] = {}  # of each of them
        self._keys: dict[str, list[bytes]] = {}  # what tells the calls of entries apart; not written yet
        self._keys_bytes: dict[str, int] = {}  # of them
        self._keys_numbers: dict[str, int] = {}  # of the definitions that have those written

    def add(
        self, hook: Hook, thread: int, blob: bytes | None, key: bytes, looked: dict[str, int] | None = None
    ) -> None:
        """Keep one call's result, and what was found after it where it was looked at."""
        with lock:
            run = self.write_kept(hook, thread, reserved=1)
            self._write(hook.name, _trace.Value(run, thread, _trace.PICKLE, blob), key)
            if looked is not None:
                self.looks.setdefault(hook.name, {})[thread, run] = looked

    def write_kept(self, hook: Hook, thread: int, reserved: int = 0) -> int:
        """Write what a thread has kept of a component; the number of its next result."""
        with lock:
            kept, count, first, after = hook.callable.latlab_take(thread, reserved)
            if count:
                self._write(hook.name, _trace.Value(first, thread, _trace.PLAIN, kept, count), b"")
            return after

    def _write(self, name: str, value: _trace.Value, key: bytes) -> None:
        if self.error is not None or self._saved:
            return
        try:
            writer = self._writer = self._writer or _trace.Writer(self.path)
            if name not in self._numbers:
                self._numbers[name] = writer.define(name, "python", "")
            writer.value(self._numbers[name], value)
        except OSError as error:
            self.error = InputError(self.path, f"can't be written ({error.strerror})")
            return
        before = self._entries.get(name, 0)
        self._entries[name] = before + 1
        if key and name not in self._keys:
            self._keys[name] = [b""] * before
        if name in self._keys:
            self._keys[name].append(key)
            held = self._keys_bytes[name] = self._keys_bytes.get(name, 0) + len(key) + _KEY_BYTES
            if held > _MOST_KEYS_BYTES:
                self._write_keys(writer, name)

    def _write_keys(self, writer: _trace.Writer, name: str) -> None:
        if name not in self._keys_numbers:
            self._keys_numbers[name] = writer.define(f"{name} keys", "latlab", "")
        value = _trace.Value(0, 0, _trace.PICKLE, _values.dumps(self._keys[name]))
        try:
            writer.value(self._keys_numbers[name], value)
        except OSError as error:
            self.error = InputError(self.path, f"can't be written ({error.strerror})")
        self._keys[name], self._keys_bytes[name] = [], 0

    def finish(self) -> None:
        """Raise the error that the program under test has swallowed."""
        if self.error is not None:
            raise self.error

    def save(self) -> None:
        """Write what was recorded and isn't written yet; once, however often a process comes to its end."""
        if self._saved:
            return
        for hook in components().values():
            if hook.session is self:
                for thread in hook.threads.values():
                    self.write_kept(hook, thread)
        self.finish()
        writer = self._writer or _trace.Writer(self.path)
        for name in self._numbers:
            hook = components()[name]
            about = _values.dumps(
                {
                    "threads": [
                        thread for thread, _ in sorted(hook.threads.items(), key=lambda item: item[1])
                    ],
                    "keys": self._keys.get(name, []),
                    "looks": self.looks.get(name, {}),
                    "keyed": self.keyed,
                    "lost": hook.left_out(),
                }
            )
            number = writer.define(f"{name} about", "latlab", "")
            writer.value(number, _trace.Value(0, 0, _trace.PICKLE, about))
        writer.close()
        self._saved, self._writer = True, None

    def abandon(self) -> None:
        """Leave no part of a trace behind."""
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None


@contextmanager
def record(path: str | os.PathLike[str], *, keyed: bool = False) -> Iterator[Session]:
    """Record every component's results, exceptions and effects into a trace.

    Raises:
        LatlabError: a result can't be serialised.
    """
    session = begin(os.fspath(path), replaying=False, keyed=keyed)
    try:
        yield session
        session.finish()
        session.save()
    finally:
        session.abandon()
        end()


@contextmanager
def replay(
    path: str | os.PathLike[str], *, keyed: bool = False, lazy: bool = False, views: bool = False,
    pickles: bool = False,
) -> Iterator[Session]:  # fmt: skip
    """Hand out recorded results instead of calling the components.

    Args:
        path: what `record` wrote.
        keyed: by arguments and not by order; the trace must have been recorded keyed.
        lazy: unpickle each result when it is handed out, not at the start.
        views: hand out recorded arrays as read-only views, not as copies.
        pickles: load the results by running whatever the trace names, and not as data alone: only for a trace
            that you recorded yourself.

    Raises:
        InputError: the trace is none, cut short, or has nothing of a component.
        ReplayError: a component is called more or less often than it was recorded.
    """
    session = begin(os.fspath(path), replaying=True, keyed=keyed, lazy=lazy, views=views, pickles=pickles)
    try:
        yield session
        # After an error of ours, which the program was given, what is left says nothing.
        if session.error is None and not keyed:
            check_left()
    finally:
        end()


def check_left() -> None:
    """Refuse a replay that left results over."""
    for hook in components().values():
        left = hook.callable.latlab_left()
        if left and hook.session is not None:
            raise ReplayError(
                f"{hook.name}: called less often than it was recorded ({left} results are left)"
            )


def begin(
    path: str, *, replaying: bool, keyed: bool, lazy: bool = False, views: bool = False, pickles: bool = False
) -> Session:
    """Start a session for all components."""
    if any(hook.session is not None for hook in components().values()):
        raise UsageError("components are recorded or replayed already")
    session = Session(path, replaying, keyed)
    _data.trusted = pickles
    before = resident_bytes()
    loaded = {d.name: d for d in _trace.read(path)} if replaying else {}
    if replaying and not components().keys() & loaded.keys():
        there = ", ".join(name for name, d in loaded.items() if d.type == "python") or "nothing"
        raise InputError(path, f"holds nothing of this program's components (it holds {there})")
    if not replaying:
        _trace.check_writable(path)
    try:
        for hook in list(components().values()):
            if not replaying or hook.name in loaded:
                hook.require_plain()
            if not replaying:
                hook.reset()
                hook.record(session, watching=False)
            elif hook.name in loaded:
                load(hook, session, loaded, lazy=lazy, views=views)
    except (pickle.UnpicklingError, EOFError, KeyError, ValueError, AttributeError, ImportError) as error:
        end()  # none stays replaced where one can't be
        raise InputError(path, f"holds a damaged value ({error})", remedy="record it again") from error
    except BaseException:
        end()
        raise
    loaded.clear()
    session.held_bytes = max(0, resident_bytes() - before)
    return session


def load(
    hook: Hook,
    session: Session,
    loaded: dict[str, _trace.Definition],
    *,
    lazy: bool,
    views: bool = False,
    shared: bool = False,
    watched: bool = False,
) -> None:
    """Preload one component's results; `shared`: one sequence for all threads; `watched`: compare states."""
    hook.reset()
    hook.session = session
    hook.numbering = False
    values = loaded[hook.name].values
    about = _about(hook.name, loaded)
    hook.threads = {name: number for number, name in enumerate(about["threads"])}
    if session.keyed:
        if len(about["keys"]) != len(values):
            hook.off()
            raise UsageError(f"{session.path} was not recorded keyed", remedy="record it with --keyed")
        for key, value in zip(about["keys"], values, strict=True):
            hook.keyed.setdefault(key, []).append(value.data or b"")
        hook.callable.latlab_set_mode(SLOW, 1.0, 0, False, False, False)
        return
    by_arguments = [value for key, value in zip(about["keys"], values, strict=False) if key]
    for key, value in zip(about["keys"], values, strict=False):
        if key:
            hook.keyed.setdefault(key, []).append(value.data or b"")
    if by_arguments or (watched and not shared):
        told = {id(value) for value in by_arguments}
        lost = about.get("lost", {})  # what a stub can't keep is told, and no reason to refuse it
        values = [value for value in values if id(value) not in told]
        for number in range(len(about["threads"])):
            looks = {
                run: {label: one for label, one in seen.items() if label not in lost}
                for (thread, run), seen in about.get("looks", {}).items()
                if thread == number
            }
            hook.ordered[number] = ([], bytearray(), looks)
        for value in values:
            _add(
                hook.ordered[value.thread],
                value,
                (None, SHARED) if value.data is None else (value.data, MADE),
            )
        hook.callable.latlab_set_mode(SLOW, 1.0, 0, False, False, False)
        return
    if not lazy:
        try:
            pickled = (value for value in values if value.encoding == _trace.PICKLE)
            hook.retained = set(filter(lambda n: n >= 0, map(_again, pickled)))
        except AttributeError:  # of a class that is not defined yet, where its method is the component
            hook.retained = None
    count = 1 if shared else len(about["threads"])
    sequences: list[tuple[list[Any], bytearray]] = [([], bytearray()) for _ in range(count)]
    for value in values:
        plain = value.encoding == _trace.PLAIN
        one = (None, SHARED) if plain else _prepare(value.data, lazy, views, hook.retained)
        _add(sequences[0 if shared else value.thread], value, one)
    hook.callable.latlab_set_sequences([(list(v), bytes(k)) for v, k in sequences])
    hook.callable.latlab_set_mode(REPLAY, 1.0, 0, False, False, False)


def _add(sequence: tuple[Any, ...], value: _trace.Value, one: tuple[Any, int]) -> None:
    """Add an entry's value and how it is handed out, or its plain values."""
    if value.encoding == _trace.PLAIN:
        sequence[0].extend(_trace.plain(value))
        sequence[1].extend(bytes([SHARED]) * value.many)
        return
    sequence[0].append(one[0])
    sequence[1].append(one[1])


def joined(
    name: str, one: dict[str, _trace.Definition], other: dict[str, _trace.Definition]
) -> dict[str, _trace.Definition]:
    """One component's recordings of two processes as one, told apart by their arguments."""
    if name not in one or name not in other:
        return one if name in one else other
    abouts = [_about(name, each) for each in (one, other)]
    about = {**abouts[0], "keys": [*abouts[0]["keys"], *abouts[1]["keys"]], "looks": {}}
    blob = _trace.Value(0, 0, _trace.PICKLE, _values.dumps(about))
    return {
        name: _trace.Definition(name, "python", "", [*one[name].values, *other[name].values]),
        f"{name} about": _trace.Definition(f"{name} about", "latlab", "", [blob]),
    }


def _about(name: str, loaded: dict[str, _trace.Definition]) -> dict[str, Any]:
    """What a trace tells of a component, with all keys, of which the first were written apart.

    Raises:
        InputError: it holds what is no data, or nothing of the kind.
    """
    found = _of_document(name, loaded[f"{name} about"])
    if f"{name} keys" in loaded:
        with _values.read_as_data(name):
            written = [key for one in loaded[f"{name} keys"].values for key in _data.loads(one.data or b"")]
        found["keys"] = [*written, *found["keys"]]
    return found


def _of_document(name: str, about: _trace.Definition) -> dict[str, Any]:
    with _values.read_as_data(name):
        found = _data.loads(about.values[0].data or b"")
        if not isinstance(found, dict):
            raise TypeError(f"{type(found).__name__} in place of what is known of it")
    return found


def told_by_arguments(name: str, definitions: list[_trace.Definition]) -> bool:
    """Whether all of a component's results were recorded by their arguments."""
    about = next((one for one in definitions if one.name == f"{name} about"), None)
    return about is not None and bool(_of_document(name, about).get("keyed", False))


def left_out(name: str, definitions: list[_trace.Definition]) -> dict[str, str]:
    """What a component's calls did that its stub doesn't, and why not."""
    about = next((one for one in definitions if one.name == f"{name} about"), None)
    found: Any = _of_document(name, about).get("lost", {}) if about is not None else {}
    return {str(what): str(why) for what, why in found.items()} if isinstance(found, dict) else {}


def resident_bytes() -> int:
    """Memory of this process, from /proc/self/statm."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _again(value: _trace.Value) -> int:
    """The number of the call that returned this same object before, or -1."""
    if value.data is None:
        return -1
    found = _trace.decode_pickle(value.data)
    return int(found["same"])


def _prepare(blob: bytes | None, lazy: bool, views: bool, retained: set[int] | None) -> tuple[Any, int]:
    """How a result is handed out fastest without ever sharing what the program could change."""
    if blob is None:
        return None, SHARED
    if lazy:
        return blob, MADE
    try:
        found = _values.loads(blob, (), {})
    except (IndexError, KeyError, AttributeError, _data.RefusedError):
        # It refers to an argument, or to a class to come; what is refused is told when it is asked for.
        return blob, MADE
    value = found["v"]
    if found["k"] != "r" or found["fx"]:
        return blob, MADE
    if _values.is_immutable(value):
        return value, SHARED
    if found["same"] >= 0 or retained is None or found["n"] in retained:
        return blob, MADE
    if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
        if views and value.dtype != object:
            value.setflags(write=False)
            return value, SHARED
        # Unpickled, it lies in a buffer that isn't its own.
        return value.copy(order="K"), GIVEN
    return value, GIVEN


def end() -> None:
    """Give every component its original function back."""
    for hook in components().values():
        if hook.session is not None:
            hook.off()
