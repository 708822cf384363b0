"""How results, exceptions and arguments' states are written into a trace's pickles, and read from them.

This module is loaded into programs under study: it imports nothing heavy.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from latlab.errors import InputError
from latlab.stubs.components import data as _data

#: Stands for arguments that can't be told from others.
UNTOLD: Final = b"untold"
_IMMUTABLE: Final = (type(None), bool, int, float, complex, str, bytes)


def is_immutable(value: Any, depth: int = 0) -> bool:
    """Whether it may be handed to everybody."""
    if isinstance(value, _IMMUTABLE) and type(value) in _IMMUTABLE:
        return True
    return type(value) in (tuple, frozenset) and depth < 8 and all(is_immutable(v, depth + 1) for v in value)


class _Plain(pickle.Pickler):
    """Writes exceptions by themselves, whatever a library has registered for them in `copyreg`."""

    def reducer_override(self, value: Any) -> Any:
        """How an exception is pickled: with its cause, and without a call of an __init__ of its own.

        Pickled as usual it is a call of its class with `args`, which one with an __init__ need not take.
        """
        if not isinstance(value, BaseException) or type(value).__reduce__ is not BaseException.__reduce__:
            return NotImplemented
        own = any("__init__" in k.__dict__ and k.__module__ != "builtins" for k in type(value).__mro__)
        chained = value.__cause__ is not None or value.__context__ is not None
        if not own and not chained:
            return value.__reduce_ex__(4)
        chain = (value.__cause__, value.__context__, value.__suppress_context__)
        if own:
            return chain_exception, (make_exception, (type(value), value.args, value.__dict__), None, chain)
        reduced: Any = value.__reduce_ex__(4)
        return chain_exception, (*reduced[:2], reduced[2] if len(reduced) > 2 else None, chain)


class Pickler(_Plain):
    """Names arguments instead of copying them, so that a result that is an argument stays one."""

    def __init__(self, file: io.BytesIO, arguments: dict[int, Any]) -> None:
        super().__init__(file, protocol=5)
        self._arguments = arguments

    def persistent_id(self, value: Any) -> Any:
        """Which argument a value is, or None."""
        return self._arguments.get(id(value))


def loads(blob: bytes, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A recorded value, with the arguments of the call that is replayed in the place of the recorded ones.

    Raises:
        RefusedError: it can't be made from data alone.
    """

    def refer(pid: Any) -> Any:
        kind, which, *member = pid
        found = arguments[which] if kind == "argument" else named[which]
        return dict(members(found))[member[0]] if member else found

    return _data.loads(blob, refer)


def load_state(blob: bytes) -> Any:
    """The state of an argument."""
    return _data.loads(blob)


def members(value: Any) -> list[tuple[str, Any]]:
    """The members of an object that is no plain data, from its __dict__ and its slots."""
    found = dict(getattr(value, "__dict__", None) or {})
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            mangled = f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") else name
            if name not in ("__dict__", "__weakref__") and hasattr(value, mangled):
                found[mangled] = getattr(value, mangled)
    return list(found.items())


class State:
    """The recorded state of an argument, unpickled by itself so that nothing of it is shared."""

    def __init__(self, blob: bytes) -> None:
        self.blob = blob

    def __reduce__(self) -> tuple[Any, ...]:
        return load_state, (self.blob,)


def dumps(value: Any) -> bytes:
    """Pickled by itself."""
    file = io.BytesIO()
    _Plain(file, protocol=5).dump(value)
    return file.getvalue()


class _KeyPickler(pickle.Pickler):
    """Writes sets in an order that is the same under every hash seed."""

    def persistent_id(self, value: Any) -> Any:
        """A set's elements in the order of their own pickles; None for everything else."""
        if type(value) in (set, frozenset):
            return type(value).__name__, sorted(_key(one) for one in value)
        return None


def _key(value: Any) -> bytes:
    file = io.BytesIO()
    _KeyPickler(file, protocol=5).dump(value)
    return file.getvalue()


def key_of(arguments: tuple[Any, ...], named: dict[str, Any]) -> bytes:
    """What tells the arguments of one call from those of another."""
    asked = (arguments, sorted(named.items()))
    key = pickle.dumps(asked, protocol=5)
    # Where one of the bytes is the pickle's sign for a set there may be one.
    return _key(asked) if b"\x8f" in key or b"\x91" in key else key


def chain_exception(
    made: Any, arguments: tuple[Any, ...], state: Any, chain: tuple[Any, Any, bool]
) -> BaseException:
    """An exception with what caused it."""
    if made is not make_exception and not (isinstance(made, type) and issubclass(made, BaseException)):
        raise TypeError(f"{made!r} does not make an exception")
    found: BaseException = made(*arguments)
    if state:
        found.__dict__.update(state)
    found.__cause__, found.__context__, found.__suppress_context__ = chain
    return found


def make_exception(kind: type[BaseException], arguments: tuple[Any, ...], state: dict[str, Any]) -> Any:
    """An exception as it was, without calling its __init__."""
    if not issubclass(kind, BaseException):
        raise TypeError(f"{kind.__qualname__} is not an exception")
    made = kind.__new__(kind, *arguments)
    made.__dict__.update(state)
    return made


@contextmanager
def read_as_data(name: str) -> Iterator[None]:
    """Refuse what a trace tells of a component where it is no data, or nothing of the kind.

    Raises:
        InputError: it is not loaded.
    """
    try:
        yield
    except _data.RefusedError as error:
        raise InputError(
            "the trace", f"is not loaded: {error}", place=name, remedy="record it again"
        ) from None
    except (
        pickle.UnpicklingError,
        EOFError,
        IndexError,
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
    ) as error:
        damaged = f"holds a damaged value ({error})"
        raise InputError("the trace", damaged, place=name, remedy="record it again") from error
