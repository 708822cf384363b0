"""Reads a recorded value without running anything that the trace names: a pickle, as data only.

A pickle names functions and classes, and calls them as it is loaded. Here it may call what makes plain data;
of the program's own classes, those that are loaded already, objects are made without their __init__. All else
is refused. With `trusted` a pickle is loaded as it is.

This module is loaded into programs under study: it imports nothing heavy.
"""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any

#: Whether pickles are loaded as they are, whatever they call: for traces that one has recorded oneself.
trusted = False
REMEDY = "--pickles (pickles=True) loads it by running whatever the trace names: only for your own recordings"

_NUMPY = (
    "numpy", "numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric",
)  # fmt: skip
_MAKES_DATA: dict[str, set[str]] = {
    "builtins": {
        "bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "iter", "list",
        "Ellipsis", "NotImplemented", "object", "range", "reversed", "set", "slice", "str", "tuple",
    },
    "_collections": {"deque"},
    "collections": {"Counter", "OrderedDict", "defaultdict", "deque"},
    "copyreg": {"__newobj__"},
    "_io": {"BytesIO", "StringIO"},
    "numpy.random._mt19937": {"MT19937"},
    "numpy.random._pcg64": {"PCG64", "PCG64DXSM"},
    "numpy.random._philox": {"Philox"},
    "numpy.random._sfc64": {"SFC64"},
    "numpy.random.bit_generator": {"SeedSequence", "__pyx_unpickle_SeedSequence"},
    "array": {"array", "_array_reconstructor"},
    "datetime": {"date", "datetime", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "fractions": {"Fraction"},
    "itertools": {"count", "cycle", "repeat"},
    "pathlib": {"Path", "PosixPath", "PurePath", "PurePosixPath"},
    "random": {"Random"},
    "types": {"SimpleNamespace"},
    "uuid": {"UUID", "SafeUUID"},
    "latlab.stubs.components.values": {"make_exception", "chain_exception", "load_state"},
    "latlab.stubs.components.state": {"MISSING"},
    **{name: {"_frombuffer", "_reconstruct", "dtype", "ndarray", "scalar"} for name in _NUMPY},
}  # fmt: skip


class RefusedError(pickle.UnpicklingError):
    """A recorded value can't be made without running code that the trace names."""


class _OwnClass(Exception):
    """The value has an object of one of the program's classes."""


# numpy's own functions for this call whatever class or function they are given.
def _bit_generator(kind: Any) -> Any:
    import numpy

    if not (isinstance(kind, type) and issubclass(kind, numpy.random.BitGenerator)):
        raise RefusedError(f"{kind!r} does not make random bits")
    if not kind.__module__.startswith("numpy.random."):
        raise RefusedError(f"{kind.__qualname__} would be called")
    return kind()


def _generator(bits: Any, *_: Any) -> Any:
    import numpy

    return numpy.random.Generator(bits)


def _random_state(bits: Any, *_: Any) -> Any:
    import numpy

    return numpy.random.RandomState(bits)


_RANDOM = {
    "__bit_generator_ctor": _bit_generator, "__generator_ctor": _generator,
    "__randomstate_ctor": _random_state,
}  # fmt: skip


def _found(module: str, name: str) -> tuple[Any, bool]:
    """What a pickle names, and whether it may be called."""
    if (module, name) in (("_pickle", "loads"), ("pickle", "loads")):  # as traces had it
        module, name = "latlab.stubs.components.values", "load_state"
    if module == "numpy.random._pickle" and name in _RANDOM:
        return _RANDOM[name], True
    if name in _MAKES_DATA.get(module, ()):
        return getattr(__import__(module, fromlist=[name]), name), True
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        why = "is code, not data" if module in sys.modules else "is of a module that is not loaded"
        raise RefusedError(f"{module}.{name} {why}")
    if issubclass(found, BaseException):
        return found, not any("__init__" in k.__dict__ for k in found.__mro__ if k.__module__ != "builtins")
    kinds = {kind.__module__ for kind in found.__mro__}
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise RefusedError(f"{module}.{name} is not plain data")
    return found, "enum" in kinds


class _Data(pickle.Unpickler):
    """At the speed of C, where there is nothing but data."""

    def __init__(self, data: bytes, refer: Any) -> None:
        super().__init__(io.BytesIO(data))
        self._refer = refer

    def persistent_load(self, pid: Any) -> Any:
        """What a persistent id stands for."""
        return self._refer(pid)

    def find_class(self, module: str, name: str) -> Any:
        """What makes data."""
        found, callable_ = _found(module, name)
        if not callable_:
            raise _OwnClass
        return found


_Slow: Any = pickle._Unpickler


class _Objects(_Slow):  # type: ignore[misc]
    """Makes objects of the program's own classes, and calls nothing but what makes data."""

    def __init__(self, data: bytes, refer: Any) -> None:
        super().__init__(io.BytesIO(data))
        self._refer = refer
        self._callable: set[int] = set()

    def persistent_load(self, pid: Any) -> Any:
        """What a persistent id stands for."""
        return self._refer(pid)

    def find_class(self, module: str, name: str) -> Any:
        """A class, or what makes data."""
        found, callable_ = _found(module, name)
        if callable_:
            self._callable.add(id(found))
        return found

    def load_data(self) -> None:
        """A call of what makes data, and of nothing else."""
        function = self.stack[-2]
        if id(function) not in self._callable:
            raise RefusedError(f"{getattr(function, '__qualname__', function)} would be called")
        _Slow.load_reduce(self)

    def refuse(self) -> None:
        """Old forms, which call what they name."""
        raise RefusedError("it is of a form that calls what it names")


_Objects.dispatch = {
    **_Slow.dispatch,
    pickle.REDUCE[0]: _Objects.load_data,
    **{code[0]: _Objects.refuse for code in (pickle.INST, pickle.OBJ, pickle.EXT1, pickle.EXT2, pickle.EXT4)},
}


def _no_reference(pid: Any) -> Any:
    raise RefusedError(f"it refers to {pid!r}")


def loads(data: bytes, refer: Any = _no_reference) -> Any:
    """The value of a pickle.

    Args:
        refer: what a persistent id stands for.

    Raises:
        RefusedError: it can't be made from data alone.
    """
    if trusted:
        return _All(data, refer).load()
    try:
        return _Data(data, refer).load()
    except _OwnClass:
        return _Objects(data, refer).load()


class _All(_Data):
    """Whatever the pickle names is imported and called."""

    def find_class(self, module: str, name: str) -> Any:
        """Anything."""
        return pickle.Unpickler.find_class(self, module, name)
