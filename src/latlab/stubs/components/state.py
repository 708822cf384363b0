"""What a call changes besides its result: found by fingerprints of what it can reach, before and after.

Over 400 lines: what is looked at before a call and after it must be the same places.

A place is told by a name: an argument (``x``, or its position), a member of one (``self.n``), a global of a
module that the function's code names (``work:n``, ``work:C.n``), a variable that a function closes over
(``work:add~n``). Places are looked for in the function and in the functions that it names.

This module is loaded into programs under study: it imports nothing heavy.
"""

from __future__ import annotations

import builtins
import functools
import marshal
import opcode
import os
import sys
import time
import types
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from latlab.stubs.components.values import is_immutable, members


class _Missing:
    """Stands for a member that isn't there."""

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()
#: Seconds that fingerprints may take before calls are sampled, and then looked at ever more seldom.
BUDGET_S = 0.3
#: Calls of which the state after them is kept, to be compared with that after the stub's.
KEPT = 200
_IN_PYTHON = 1 << 9  # of a type's __flags__: made by a class statement, or as one is
_NODES = 50_000  # of one value that are looked at
_FUNCTIONS = 200
_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, slice, type(Ellipsis))
_NAMED = (
    types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type, types.CodeType,
    staticmethod, classmethod, property,
)  # fmt: skip
_BUILTIN = vars(builtins).keys()
_IMPORTS = opcode.opmap["IMPORT_NAME"]
_OWN_STATE = ("__getstate__", "__reduce__", "__reduce_ex__")


class _Walk:
    """A checksum of a value: equal values have equal ones, in another process, too."""

    def __init__(self) -> None:
        self.sum = 0
        self.left = _NODES
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no id is used twice

    def add(self, text: str | bytes) -> None:
        self.sum = zlib.crc32(text if isinstance(text, bytes) else text.encode("utf-8", "replace"), self.sum)

    def value(self, value: Any) -> None:
        self.left -= 1
        if self.left < 0:
            return
        if type(value) in _PLAIN:
            self.add(f"{type(value).__name__}{value!r}")
            return
        if id(value) in self.seen:
            self.add(f"#{self.seen[id(value)]}")
            return
        self.seen[id(value)] = len(self.seen)
        self.kept.append(value)
        self.add(f"<{type(value).__qualname__}")
        if isinstance(value, _NAMED):
            self.add(getattr(value, "__qualname__", "") or getattr(value, "__name__", ""))
            return
        if not self._container(value) and not self._buffer(value):
            self._object(value)

    def _container(self, value: Any) -> bool:
        if isinstance(value, (set, frozenset)):
            self.add(repr(sorted(fingerprint(one) for one in value)))
        elif isinstance(value, dict):
            if type(value) is dict and self._fast(value):
                return True
            for key, item in list(value.items()):
                self.value(key)
                self.value(item)
        elif isinstance(value, (list, tuple)) or type(value).__name__ == "deque":
            if type(value) in (list, tuple) and self._fast(value):
                return True
            for item in list(value):
                self.value(item)
        else:
            return False
        if type(value).__module__ not in ("builtins", "collections"):
            self._members(value)
        return True

    def _fast(self, value: Any) -> bool:
        """Long plain data at C speed."""
        if len(value) < 256:
            return False
        try:
            data = marshal.dumps(value, 2)
        except ValueError:
            return False
        if b"<" in data or b">" in data:  # perhaps a set, whose order is no part of it
            return False
        self.add(data)
        return True

    def _buffer(self, value: Any) -> bool:
        if getattr(getattr(value, "dtype", None), "hasobject", False):
            self.value(value.tolist())
            return True
        try:
            view = memoryview(value)
        except TypeError:
            return False
        self.add(f"{view.format}{view.shape}")
        self.add(bytes(view) if not view.c_contiguous else zlib.crc32(view).to_bytes(4, "little"))
        return True

    def _members(self, value: Any) -> bool:
        found = False
        for name, item in members(value):
            found = True
            self.add(name)
            self.value(item)
        return found

    def _object(self, value: Any) -> None:
        if isinstance(value, types.GeneratorType):
            frame = value.gi_frame
            self.add(f"at {frame.f_lasti if frame is not None else 'its end'}")
            if frame is not None:
                self.value(dict(frame.f_locals))
            return
        if hasattr(value, "fileno") and hasattr(value, "closed"):
            try:
                self.add(f"at {value.tell()}")
            except (OSError, ValueError, AttributeError):
                self.add(f"closed {value.closed}")
            return
        asked = _ASKED.get((type(value).__module__, type(value).__name__))
        if asked is not None:
            self.value(asked(value))
            return
        own = any(name in kind.__dict__ for kind in type(value).__mro__[:-1] for name in _OWN_STATE)
        if (self._members(value) and not own) or (isinstance(value, BaseException) and not own):
            return
        if hasattr(value, "__dict__") and not own:
            return
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:  # noqa: BLE001  # what can't be copied has no state that could be told
            return
        if isinstance(reduced, str):
            return
        for one in reduced[1:]:
            self.value(list(one) if isinstance(one, Iterator) else one)


def fingerprint(value: Any) -> int:
    """A checksum of a value and all that it refers to."""
    walk = _Walk()
    walk.value(value)
    return walk.sum


class Place:
    """Where a value lies that a call can reach.

    `whole`: an argument itself, which can't be another object; `copied`: `get` makes a copy.
    """

    def __init__(
        self, get: Callable[[], Any], put: Callable[[Any], None] | None = None, *, copied: bool = False
    ) -> None:
        self.get, self.whole, self.copied = get, put is None, copied
        self.put: Callable[[Any], None] = put or (lambda _: None)


def member_of(holder: Any, name: str) -> Place:
    """A member of an object, which may not be there yet."""

    def put(value: Any) -> None:
        kind = type if isinstance(holder, type) else object
        if value is not MISSING:
            kind.__setattr__(holder, name, value)
        elif name in dict(members(holder)):
            kind.__delattr__(holder, name)

    def get() -> Any:
        own = getattr(holder, "__dict__", None)
        slot = isinstance(getattr(type(holder), name, None), types.MemberDescriptorType)
        if own is not None and name in own and not slot:
            return own[name]
        return dict(members(holder)).get(name, MISSING)

    return Place(get, put)


def _data(value: Any) -> bool:
    return not isinstance(value, _NAMED) and not is_immutable_forever(value)


def is_immutable_forever(value: Any) -> bool:
    """Whether it is of a kind that names code and holds no state."""
    return isinstance(
        value, (types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType)
    )


def _names(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            found |= _names(one)
    return found


def places(function: Any) -> dict[str, Place]:
    """What a function's code, and that of the functions that it names, can reach besides its arguments."""
    found: dict[str, Place] = {}
    seen: set[int] = set()
    todo: list[Any] = [function]
    while todo and len(seen) < _FUNCTIONS:
        one = todo.pop()
        one = getattr(one, "__func__", one)
        if id(one) in seen:
            continue
        seen.add(id(one))
        owner = getattr(one, "__self__", None)
        if isinstance(one, types.BuiltinFunctionType):
            # random.random and its like: a method of an object that has a state.
            if owner is not None and not isinstance(owner, (types.ModuleType, type)):
                _add(found, f"{type(owner).__module__}:{one.__name__}~self", owner)
            continue
        code = getattr(one, "__code__", None)
        if not isinstance(code, types.CodeType):
            todo += [w for w in (getattr(one, "__wrapped__", None),) if w is not None]
            continue
        names = _names(code)
        for name, item in _of_function(found, one, names):
            if isinstance(item, types.ModuleType):
                todo += _of_module(found, item, names)
            elif isinstance(item, type):
                todo += _of_class(found, item, names)
            elif callable(item) and (hasattr(item, "__code__") or isinstance(item, _NAMED)):
                todo.append(item)
                if isinstance(item, types.MethodType):
                    _add(found, f"{one.__module__}:{name}~self", item.__self__)
    return found


def _add(found: dict[str, Place], label: str, value: Any) -> None:
    def put(_: Any) -> None:
        raise TypeError(f"{label} can't be replaced")

    found.setdefault(label, Place(lambda: value, put))


def _item(space: dict[str, Any], name: str) -> Place:
    return Place(lambda: space.get(name, MISSING), lambda value: space.__setitem__(name, value))


def _cell(cell: types.CellType) -> Place:
    return Place(lambda: cell.cell_contents, lambda value: setattr(cell, "cell_contents", value))


def _of_function(found: dict[str, Place], one: Any, names: set[str]) -> Iterator[tuple[str, Any]]:
    space, module = one.__globals__, one.__module__
    if _IMPORTS in one.__code__.co_code[::2]:  # within the function
        for name in names - space.keys():
            if isinstance(item := sys.modules.get(name), types.ModuleType):
                yield name, item
    if "globals" in names and "globals" not in space:
        for name, item in list(space.items()):
            if not name.startswith("__") and _data(item):
                found.setdefault(f"{module}:{name}", _item(space, name))
    for name in names:
        if name not in space:
            continue
        item = space[name]
        if hasattr(item, "__wrapped__") and callable(item):
            for member in names & vars(item).keys() - {"__wrapped__"}:
                _attribute(found, f"{module}:{name}.{member}", item, member)
            if item.__wrapped__ is one:  # it may give itself attributes that it hasn't yet
                for member in names - vars(item).keys() - space.keys() - _BUILTIN:
                    found.setdefault(f"{module}:{name}.{member}", member_of(item, member))
            yield name, item.__wrapped__
            continue
        yield name, item
        if _data(item):
            found.setdefault(f"{module}:{name}", _item(space, name))
    for name, cell in zip(one.__code__.co_freevars, one.__closure__ or (), strict=False):
        try:
            item = cell.cell_contents
        except ValueError:
            continue
        yield name, item
        if _data(item):
            found.setdefault(f"{module}:{one.__qualname__}~{name}", _cell(cell))
    for number, item in enumerate(one.__defaults__ or ()):
        if not is_immutable(item):
            _add(found, f"{module}:{one.__qualname__}~default {number}", item)
    if getattr(one, "__dict__", None) or one.__name__ in names:
        for name in names | set(one.__dict__):
            if name != "__wrapped__":
                _attribute(found, f"{module}:{one.__qualname__}.{name}", one, name)


def _attribute(found: dict[str, Place], label: str, owner: Any, name: str) -> None:
    if name in vars(owner) and _data(vars(owner)[name]):
        found.setdefault(
            label, Place(lambda: vars(owner).get(name, MISSING), lambda value: setattr(owner, name, value))
        )


# What tells of the state of an object that is all in C: a question that changes nothing.
_ASKED: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("_queue", "SimpleQueue"): lambda one: one.qsize(),
    ("_thread", "lock"): lambda one: one.locked(),
    ("_contextvars", "ContextVar"): lambda one: one.get(None),
    ("_hashlib", "HASH"): lambda one: one.digest() if one.digest_size else None,
    ("sqlite3", "Connection"): lambda one: one.total_changes,
    # Loggers come with the first that asks for one, and remember what they were asked: no change of theirs.
    ("logging", "Manager"): lambda one: [one.disable, dict(_set_loggers(one))],
    ("logging", "Logger"): lambda one: _of_logger(one),
    ("logging", "RootLogger"): lambda one: _of_logger(one),
}
# What modules of the library remember, so as to be faster: a stub that leaves it as it is changes nothing.
_REMEMBERED = {
    "re:_cache", "re:_cache2", "linecache:cache", "threading:_counter", "tempfile:_name_sequence",
    "functools:singledispatch.<locals>.dispatch~dispatch_cache",
    "functools:singledispatch.<locals>.dispatch~cache_token", "struct:_cache", "fnmatch:_cache",
    "urllib.parse:_parse_cache", "os.path:_varprog", "posixpath:_varprog",
}  # fmt: skip


def _of_logger(one: Any) -> list[Any]:
    return [one.level, one.propagate, one.disabled, list(one.handlers), list(one.filters)]


def _set_loggers(manager: Any) -> Iterator[tuple[str, list[Any]]]:
    """Those that are set to anything."""
    for name, one in sorted(manager.loggerDict.items()):
        if hasattr(one, "handlers") and (found := _of_logger(one)) != [0, True, False, [], []]:
            yield name, found


def _set_by(found: dict[str, Place], module: types.ModuleType, names: set[str]) -> None:
    """What the process is set to, where the code names the function that sets it."""
    from latlab.stubs.components import audited

    for (owner, name), (get, put) in audited.SETTINGS.items():
        if owner == module.__name__ and name in names:
            place = Place(functools.partial(get, module), functools.partial(put, module), copied=True)
            found.setdefault(f"{owner}:{name}", place)


def _of_module(found: dict[str, Place], module: types.ModuleType, names: set[str]) -> list[Any]:
    _set_by(found, module, names)
    if module.__name__ in ("os", "sys"):
        found.setdefault("os:environ", Place(_environment, _environ, copied=True))
        found.setdefault("os:getcwd", Place(os.getcwd, os.chdir))
        return []
    more: list[Any] = []
    for name in names & vars(module).keys():
        item = vars(module)[name]
        _attribute(found, f"{module.__name__}:{name}", module, name)
        if isinstance(item, type):
            more += _of_class(found, item, names)
        elif isinstance(item, types.ModuleType):
            more += _of_module(found, item, names) if item is not module and len(found) < _FUNCTIONS else []
        elif callable(item):
            more.append(item)
            owner = getattr(item, "__self__", None)
            if owner is not None and not isinstance(owner, (types.ModuleType, type)):
                _add(found, f"{module.__name__}:{name}~self", owner)
    return more


# What a study sets itself, and otherwise in each: a program's own change of it shows in what it does.
_OURS = ("LATLAB_STUBS_PLAN", "LATLAB_STUBS_CALIBRATION", "PYTHONPATH")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OURS}


def _environ(wanted: dict[str, str]) -> None:
    for name in os.environ.keys() - wanted.keys() - set(_OURS):
        del os.environ[name]
    os.environ.update(wanted)


def _of_class(found: dict[str, Place], kind: type, names: set[str]) -> list[Any]:
    """Its data, and those of its methods that are named."""
    if kind.__module__ == "builtins":
        return []
    more = []
    for name, item in list(vars(kind).items()):
        plain = getattr(item, "__func__", item)
        if name.startswith("__") and name != "__init__":
            continue
        if _data(item):
            _attribute(found, f"{kind.__module__}:{kind.__qualname__}.{name}", kind, name)
        elif hasattr(plain, "__code__") and (name in names or name == "__init__"):
            more.append(plain)
    return more


def _of_callables(arguments: tuple[Any, ...]) -> dict[str, Place]:
    """What functions that a call is given can reach: it may call them, and a stub does not."""
    found: dict[str, Place] = {}
    for one in arguments:
        plain = getattr(one, "func", one) if type(one).__name__ == "partial" else one
        if isinstance(plain, types.MethodType) and not isinstance(plain.__self__, (type, types.ModuleType)):
            _add(found, f"{plain.__func__.__module__}:{plain.__func__.__qualname__}~self", plain.__self__)
        if isinstance(plain, (types.FunctionType, types.MethodType)):
            found |= places(plain)
    return found


class Watch:
    """Looks at what calls of one component change."""

    def __init__(self, function: Any, names: tuple[str, ...]) -> None:
        from latlab.stubs.components import audited

        self._outside = audited
        self._open: dict[int, tuple[int, ...]] | None = None  # what was written to before the call
        self._function, self._arguments = function, names
        self._places: dict[str, Place] | None = None
        self._classes: set[type] = set()
        self._took = 0.0
        self._at = 0  # the number of the call that is looked at
        self.quiet = 0  # calls up to this one are not looked at any more
        self.looked = 0
        self.changed: dict[str, int] = {}

    def place(self, label: str, arguments: tuple[Any, ...] = ()) -> Place | None:
        """The place of that name that a call with these arguments reaches; None where there is none."""
        found = self._reached(arguments)
        return found[label] if label in found else _of_callables(arguments).get(label)

    def _reached(self, arguments: tuple[Any, ...]) -> dict[str, Place]:
        if self._places is None:
            self._places = places(self._function)
        kind = type(arguments[0]) if arguments else None
        if kind is None or kind in self._classes or not kind.__flags__ & _IN_PYTHON:
            return self._places
        self._classes.add(kind)
        code = getattr(self._function, "__code__", None)
        names = _names(code) if code is not None else set()
        for one in kind.__mro__[:-1]:
            for helper in _of_class(self._places, one, names):
                self._places |= {k: v for k, v in places(helper).items() if k not in self._places}
        return self._places

    @property
    def reaches(self) -> bool:
        """Whether a call can reach anything but its arguments; known once one was looked at."""
        return self._places is None or bool(self._places)

    def before(self, number: int, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, int] | None:
        """Fingerprints before the call of that number, from 1; None where this one isn't looked at."""
        if number <= self.quiet:
            return None
        self._at = number
        found = self.look(arguments, named)
        begin = time.perf_counter()
        self._open = self._outside.written()
        self._took += time.perf_counter() - begin
        return found

    def look(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, int]:
        """Fingerprints of every place that a call with these arguments can reach."""
        begin = time.perf_counter()
        reached = {**_of_callables((*arguments, *named.values())), **self._reached(arguments)}
        found: dict[str, int] = {}
        for number, value in enumerate(arguments):
            label = self._arguments[number] if number < len(self._arguments) else str(number)
            self._argument(found, label, value)
        for name, value in named.items():
            self._argument(found, name, value)
        for label, place in list(reached.items()):
            if label in _REMEMBERED:
                continue
            try:
                found[label] = fingerprint(place.get())
            except (ValueError, KeyError):
                found[label] = 0
        self._took += time.perf_counter() - begin
        return found

    @staticmethod
    def _argument(found: dict[str, int], label: str, value: Any) -> None:
        if is_immutable(value):
            return
        if isinstance(value, type):  # a class method's first: its data, not its code
            own = vars(value).items() if value.__flags__ & _IN_PYTHON else ()
            held = [(name, item) for name, item in own if not name.startswith("__") and _data(item)]
            found |= {f"{label}.{name}": fingerprint(item) for name, item in held}
            found[f"{label} members"] = fingerprint([name for name, _ in held])
            return
        plain = (*_NAMED, list, dict, set, tuple, BaseException)
        whole = isinstance(value, plain) or hasattr(value, "fileno")
        inside = [] if whole else members(value)
        walk = _Walk()
        if inside or (not whole and hasattr(value, "__dict__")):
            for name, item in inside:
                found[f"{label}.{name}"] = fingerprint(item)
            found[f"{label} members"] = fingerprint([name for name, _ in inside])
            if any(name in kind.__dict__ for kind in type(value).__mro__[:-1] for name in _OWN_STATE):
                found[label] = fingerprint(value)
            return
        walk.value(value)
        found[label] = walk.sum

    def after(
        self, before: dict[str, int], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> dict[str, int] | None:
        """Note what a call has changed, and choose the next that is looked at; the state after it."""
        begin = time.perf_counter()
        self._outside.compare(self._open)
        self._took += time.perf_counter() - begin
        now = self.look(arguments, named)
        self.looked += 1
        for label in changes(before, now):
            self.changed[label] = self.changed.get(label, 0) + 1
        self.quiet = self._at if self._took < BUDGET_S else 2 * self._at
        return now if self.looked <= KEPT else None

    def left_out(self, lost: dict[str, str]) -> dict[str, str]:
        """What was seen to change and is not kept, and why."""
        kept = {label: lost[label] for label in self.changed if label in lost}
        return kept | dict.fromkeys(self._outside.found, self._outside.WHY)

    def save(self, path: str, lost: dict[str, str], calls: int, harmless: int) -> None:
        """Calls looked at and made; a line a place: how often it changed, its name, why it can't be kept.

        Args:
            calls: all of them.
            harmless: those that needed no look, since they could change nothing.
        """
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{self.looked + harmless} {calls}\n")
            file.writelines(
                f"{count}\t{label}\t{lost.get(label, '')}\n" for label, count in self.changed.items()
            )
            file.writelines(
                f"{count}\t{what}\t{self._outside.WHY}\n" for what, count in self._outside.found.items()
            )


def changes(before: dict[str, int], after: dict[str, int]) -> list[str]:
    """Places whose value is another one; of a new member its own name."""
    found = [label for label, one in after.items() if before.get(label, one if ":" in label else None) != one]
    gone = [label for label in before if label not in after]
    return [label for label in dict.fromkeys([*found, *gone]) if not label.endswith(" members")]
