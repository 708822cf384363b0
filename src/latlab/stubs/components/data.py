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


def _iter(of: Any) -> Any:
    """What is left of an iterator; with a second argument it would call the first."""
    return iter(of)


def _newobj(kind: Any, *arguments: Any) -> Any:
    _require_plain(kind, "__new__")
    return kind.__new__(kind, *arguments)


def _require_plain(kind: type, name: str) -> None:
    """Refuse a class whose own method would run as its object is made."""
    method = getattr(kind, name, None)
    if not hasattr(method, "__code__") or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return  # in C; a named tuple's
    if str(getattr(method, "__module__", "")).partition(".")[0] not in _TRUSTED:
        raise RefusedError(f"{kind.__qualname__}.{name} would be called")


_TRUSTED = sys.stdlib_module_names | {"numpy"}


def _sound(kind: Any) -> Any:
    """A dtype, whose state says whether its bytes are objects: a pickle can say there what it likes.

    Raises:
        RefusedError: it says something else than what it is made of.
    """
    import numpy

    again: Any
    if not isinstance(kind, numpy.dtype):
        raise RefusedError(f"a {type(kind).__qualname__} is not a dtype")
    if kind.subdtype is not None:
        again = numpy.dtype((_sound(kind.subdtype[0]), kind.subdtype[1]))
    elif kind.names is not None and kind.fields is not None:
        fields = [kind.fields[name] for name in kind.names]
        if any(at < 0 or at + _sound(one).itemsize > kind.itemsize for one, at, *_ in fields):
            raise RefusedError("a field lies outside of its dtype")
        again = numpy.dtype({
            "names": list(kind.names), "formats": [one[0] for one in fields],
            "offsets": [one[1] for one in fields], "itemsize": kind.itemsize,
        })  # fmt: skip
    else:
        again = numpy.dtype(kind.str)
    said, meant = ((one.kind, one.itemsize, one.hasobject, one.flags & ~_ALIGNED) for one in (kind, again))
    if said != meant:
        raise RefusedError("a dtype says something else than what it is made of")
    return kind


_ALIGNED = 0x80  # of a dtype's flags: how it was made, and nothing of what it holds


def _numpys(name: str) -> Any:
    core = "numpy._core" if "numpy._core" in sys.modules else "numpy.core"
    return getattr(sys.modules[core], name)


def _frombuffer(buffer: Any, kind: Any, *rest: Any) -> Any:
    return _numpys("numeric")._frombuffer(buffer, _sound(kind), *rest)


def _scalar(kind: Any, *rest: Any) -> Any:
    return _numpys("multiarray").scalar(_sound(kind), *rest)


# The originals call what they are given, or believe it.
_CHECKED = {
    "iter": _iter, "__newobj__": _newobj, "_frombuffer": _frombuffer, "scalar": _scalar,
}  # fmt: skip


_RANDOM = {
    "__bit_generator_ctor": _bit_generator, "__generator_ctor": _generator,
    "__randomstate_ctor": _random_state,
}  # fmt: skip


def _found(module: str, name: str) -> tuple[Any, bool, bool]:
    """What a pickle names, whether it may be called, and whether an object of it is given a state."""
    if (module, name) in (("_pickle", "loads"), ("pickle", "loads")):  # as traces had it
        module, name = "latlab.stubs.components.values", "load_state"
    if module == "numpy.random._pickle" and name in _RANDOM:
        return _RANDOM[name], True, False
    if name in _MAKES_DATA.get(module, ()):
        if name in _CHECKED:
            __import__(module)
            return _CHECKED[name], True, False
        found: Any = getattr(__import__(module, fromlist=[name]), name)
        # Called by itself an array takes any bytes for pointers to objects, and so it does as a state.
        return found, name != "ndarray", name in ("ndarray", "_reconstruct")
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        why = "is code, not data" if module in sys.modules else "is of a module that is not loaded"
        raise RefusedError(f"{module}.{name} {why}")
    kinds = {kind.__module__ for kind in found.__mro__}
    if issubclass(found, BaseException):
        own = [kind for kind in found.__mro__ if kind.__module__ != "builtins"]
        plain = not any(one in kind.__dict__ for kind in own for one in ("__init__", "__new__"))
        return found, plain, bool(own)
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise RefusedError(f"{module}.{name} is not plain data")
    return found, "enum" in kinds, True


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
        found, callable_, stateful = _found(module, name)
        if stateful or not callable_:
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
        found, callable_, _ = _found(module, name)
        if callable_:
            self._callable.add(id(found))
        return found

    def load_data(self) -> None:
        """A call of what makes data, and of nothing else."""
        function = self.stack[-2]
        if id(function) not in self._callable:
            raise RefusedError(f"{getattr(function, '__qualname__', function)} would be called")
        _Slow.load_reduce(self)

    def load_object(self) -> None:
        """An object of a class, by what makes it in C."""
        _require_plain(self.stack[-2], "__new__")
        _Slow.load_newobj(self)

    def load_object_with_names(self) -> None:
        """The same with named arguments."""
        _require_plain(self.stack[-3], "__new__")
        _Slow.load_newobj_ex(self)

    def load_state(self) -> None:
        """The state of an object, which no code of its class is asked to take."""
        state, one = self.stack[-1], self.stack[-2]
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(one, numpy.ndarray) and isinstance(state, tuple):
            for part in state:
                if isinstance(part, numpy.dtype):
                    _sound(part)
        _require_plain(type(one), "__setstate__")
        _Slow.load_build(self)

    def load_items(self) -> None:
        """What a list or a set holds, one or all of it."""
        items = self.pop_mark()
        into = _own(self.stack[-1], "extend", "update")
        into(self.stack[-1], items)

    def load_item(self) -> None:
        """One more of a list."""
        item = self.stack.pop()
        _own(self.stack[-1], "append")(self.stack[-1], item)

    def load_members(self) -> None:
        """What a dict holds."""
        items = self.pop_mark()
        put = _own(self.stack[-1], "__setitem__")
        for key, item in zip(items[::2], items[1::2], strict=True):
            put(self.stack[-1], key, item)

    def load_member(self) -> None:
        """One more of a dict."""
        item = self.stack.pop()
        key = self.stack.pop()
        _own(self.stack[-1], "__setitem__")(self.stack[-1], key, item)

    def refuse(self) -> None:
        """Old forms, which call what they name."""
        raise RefusedError("it is of a form that calls what it names")


def _own(one: Any, *names: str) -> Any:
    """The method of the container that a class is made from, and not that of the class."""
    for kind in type(one).__mro__:
        for name in names:
            if kind.__module__ in ("builtins", "collections") and name in vars(kind):
                return vars(kind)[name]
    raise RefusedError(f"{type(one).__qualname__}.{names[0]} would be called")


_Objects.dispatch = {
    **_Slow.dispatch,
    pickle.REDUCE[0]: _Objects.load_data,
    pickle.NEWOBJ[0]: _Objects.load_object,
    pickle.NEWOBJ_EX[0]: _Objects.load_object_with_names,
    pickle.BUILD[0]: _Objects.load_state,
    pickle.APPENDS[0]: _Objects.load_items,
    pickle.ADDITEMS[0]: _Objects.load_items,
    pickle.APPEND[0]: _Objects.load_item,
    pickle.SETITEMS[0]: _Objects.load_members,
    pickle.SETITEM[0]: _Objects.load_member,
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
