"""How results, exceptions and arguments' states are written into a trace's pickles, and read from them.

This module is loaded into programs under study: it imports nothing heavy.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, Final

_IMMUTABLE: Final = (type(None), bool, int, float, complex, str, bytes)


def is_immutable(value: Any, depth: int = 0) -> bool:
    """Whether it may be handed to everybody."""
    if isinstance(value, _IMMUTABLE) and type(value) in _IMMUTABLE:
        return True
    return type(value) in (tuple, frozenset) and depth < 8 and all(is_immutable(v, depth + 1) for v in value)


class Pickler(pickle.Pickler):
    """Names arguments instead of copying them, so that a result that is an argument stays one."""

    def __init__(self, file: io.BytesIO, arguments: dict[int, Any]) -> None:
        super().__init__(file, protocol=5)
        self._arguments = arguments

    def persistent_id(self, value: Any) -> Any:
        """Which argument a value is, or None."""
        return self._arguments.get(id(value))

    def reducer_override(self, value: Any) -> Any:
        """How an exception is pickled."""
        # An exception is pickled as a call of its class with `args`, which one with an __init__ of its own
        # need not take.
        if isinstance(value, BaseException) and type(value).__reduce__ is BaseException.__reduce__:
            for kind in type(value).__mro__:
                if "__init__" in kind.__dict__ and kind.__module__ != "builtins":
                    return make_exception, (type(value), value.args, value.__dict__)
        return NotImplemented


class Unpickler(pickle.Unpickler):
    """Puts the arguments of the call that is replayed in the place of those that were recorded."""

    def __init__(self, data: bytes, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._arguments, self._named = arguments, named

    def persistent_load(self, pid: Any) -> Any:
        """The argument that the persistent id names."""
        kind, which = pid
        return self._arguments[which] if kind == "argument" else self._named[which]


class State:
    """The recorded state of an argument, unpickled by itself so that nothing of it is shared."""

    def __init__(self, blob: bytes) -> None:
        self.blob = blob

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self.blob,)


def dumps(value: Any) -> bytes:
    """Pickled by itself."""
    return pickle.dumps(value, protocol=5)


def key_of(arguments: tuple[Any, ...], named: dict[str, Any]) -> bytes:
    """What tells the arguments of one call from those of another."""
    return pickle.dumps((arguments, sorted(named.items())), protocol=5)


def make_exception(kind: type[BaseException], arguments: tuple[Any, ...], state: dict[str, Any]) -> Any:
    """An exception as it was, without calling its __init__."""
    made = kind.__new__(kind, *arguments)
    made.__dict__.update(state)
    return made
