"""The trace file of recorded results, written and read alike by Python and by include/latlab/stub.hpp.

Over 400 lines: writer, reader and decoder of one format, and its description.

Version 1, or 2 where it holds plain values (little-endian).
"LATSTUB\\0", u32 version, u32 zero; then entries of a 32-byte head and a payload that is padded to 8 bytes:

    u8 tag   1 definition, 2 value, 3 end, 4 plain values, one after the other
    u8 flag  1: NULL, and no data follows
    u8 encoding  0 packed members by the definition's layout, 1 pickle, 2 plain values
    u8 zero
    u32 id   of the definition
    u32 run  the value's run number within its definition and thread, from 0
    u32 thread
    u64 size of the payload
    u64 zero; of plain values how many there are, and run is the first one's

A definition's payload is name, type and layout, each with its NUL. An end carries the number of values in
its size's place and has no payload: a file without one was cut short.

A plain value is a byte and what it asks for: 0 None, 1 False, 2 True, 3 an integer (i64), 4 a float (f8), 5 a
text and 6 bytes (u32 length, data), 7 a tuple (u32 length, plain values).

Layout: `b` bool, `i1 i2 i4 i8 u1 u2 u4 u8` integers, `f4 f8` floats, `s` string (u32 length), `N[x]` array
of N, `v(x)` vector, list or set (u32 length), `m(k,v)` map (u32 length), `o(x)` optional (u8),
`{a b …}` members, `rN` N bytes as they are.
"""

from __future__ import annotations

import io
import os
import pickle
import re
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from latlab._core import stubs_replay
from latlab.errors import InputError
from latlab.formats.trusted import FileWindow, TrustedFile, to_write
from latlab.words import plural

MAGIC: Final = b"LATSTUB\0"
VERSIONS: Final = (1, 2)
_HEAD: Final = struct.Struct(stubs_replay.TRACE_FILE_HEAD_FORMAT)
_ENTRY: Final = struct.Struct(stubs_replay.TRACE_HEAD_FORMAT)
_DEFINITION, _VALUE, _END, _PLAIN_VALUES = 1, 2, 3, 4
PACKED, PICKLE, PLAIN = 0, 1, 2
_BUFFER_BYTES: Final = 1 << 20
_LARGEST_DEFINITION: Final = 1 << 20  # include/latlab/stub_trace.hpp has it, too
_WALKED_FROM: Final = 4 << 20  # a smaller file can't fill the memory, whatever it says


# Tuples, as in _plan.py: dataclasses take longer to import than all the rest.
class Value(NamedTuple):
    """One recorded value; `data` is None where NULL was recorded. Of encoding PLAIN it is `many` of them."""

    run: int
    thread: int
    encoding: int
    data: bytes | None
    many: int = 1


class Definition(NamedTuple):
    """A named value and its type, with everything that was recorded of it."""

    name: str
    type: str
    layout: str
    values: list[Value]


class Writer:
    """Writes a trace as it comes, in bounded memory; an older file stays until the new one is complete.

    It has a buffer of its own: a child that this process forks has nothing to write at its end.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        # A device or a pipe is written to at the end, not put away for a file.
        self._special = os.path.exists(path) and not os.path.isfile(path)  # noqa: PTH110, PTH113
        self._part = f"{self._path}.part"
        self._file: Any
        if self._special:
            import tempfile

            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # until close()
        else:
            self._file = open(self._part, "wb", buffering=0, opener=to_write)  # noqa: SIM115
        self._process = os.getpid()
        self._buffer = bytearray(_HEAD.pack(MAGIC, VERSIONS[0], 0))
        self._definitions = 0
        self._values = 0
        self._plain = False

    def define(self, name: str, kind: str, layout: str) -> int:
        """A definition; its number."""
        text = b"".join(part.encode() + b"\0" for part in (name, kind, layout))
        self._entry(_DEFINITION, 0, 0, self._definitions, 0, 0, text, 0)
        self._definitions += 1
        return self._definitions - 1

    def value(self, number: int, value: Value) -> None:
        """A value of the definition of that number, or plain values."""
        run, thread, encoding, data, many = value
        self._values += many
        if encoding == PLAIN:
            self._plain = True
            self._entry(_PLAIN_VALUES, 0, encoding, number, run, thread, data or b"", many)
        else:
            self._entry(_VALUE, int(data is None), encoding, number, run, thread, data or b"", 0)

    def close(self) -> None:
        """Write what is left, and put the file in its place."""
        if os.getpid() != self._process:
            return
        self._buffer += _ENTRY.pack(_END, 0, 0, 0, 0, 0, 0, self._values, 0)
        self._flush()
        if self._plain:
            os.pwrite(self._file.fileno(), _HEAD.pack(MAGIC, VERSIONS[1], 0), 0)
        if self._special:
            self._file.seek(0)
            with open(self._path, "wb", opener=to_write) as file:
                while data := self._file.read(_BUFFER_BYTES):
                    file.write(data)
        self._file.close()
        if not self._special:
            os.replace(self._part, self._path)  # noqa: PTH105  # a program under study waits for each import

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._file.close()
        if not self._special and os.getpid() == self._process:
            os.unlink(self._part)  # noqa: PTH108  # as in close()

    def _entry(
        self, tag: int, flag: int, encoding: int, number: int, run: int, thread: int, data: bytes, count: int
    ) -> None:
        self._buffer += _ENTRY.pack(tag, flag, encoding, 0, number, run, thread, len(data), count)
        self._buffer += data
        self._buffer += b"\0" * (-len(data) % 8)
        if len(self._buffer) >= _BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        if os.getpid() == self._process:  # the file is the parent's
            left = memoryview(self._buffer)
            while left:
                left = left[self._file.write(left) :]
            left.release()
        self._buffer = bytearray()


def write(path: str | os.PathLike[str], definitions: list[Definition]) -> None:
    """Write a whole trace; an older file stays until the new one is complete."""
    writer = Writer(path)
    for definition in definitions:
        number = writer.define(definition.name, definition.type, definition.layout)
        for value in definition.values:
            writer.value(number, value)
    writer.close()


def count(values: list[Value]) -> int:
    """How many values they are."""
    return sum(one.many for one in values)


def plain(value: Value) -> list[Any]:
    """The values of an entry of plain ones.

    Raises:
        ValueError: it is damaged.
    """
    return stubs_replay.plain_values(value.data or b"", value.many)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a place for a trace before anything is recorded.

    Raises:
        InputError: no file can be made there.
    """
    part = f"{os.fspath(path)}.part"
    try:
        with open(part, "wb", opener=to_write):
            pass
        os.unlink(part)  # noqa: PTH108  # as in write()
    except OSError as error:
        raise InputError(path, f"can't be written ({error.strerror})") from error


def read(path: str | os.PathLike[str]) -> list[Definition]:
    """Read a whole trace.

    Raises:
        InputError: it is none, of another version, damaged, or cut short; with the offset.
    """
    try:
        with TrustedFile(path, named=True) as file:
            return _definitions(path, file)
    except OSError as error:
        raise InputError(path, f"can't be read ({error.strerror})") from error


def _definitions(path: str | os.PathLike[str], file: TrustedFile) -> list[Definition]:
    data = FileWindow(file)
    head = data.take(0, _HEAD.size)
    if len(head) < _HEAD.size or not head.startswith(MAGIC):
        raise InputError(
            path, "is not a trace of a stub", place="offset 0", remedy="see 'latlab stubs record'"
        )
    version = _HEAD.unpack(head)[1]
    if version not in VERSIONS:
        raise InputError(
            path,
            f"is of version {version}, and {' and '.join(map(str, VERSIONS))} are read",
            place="offset 8",
            remedy="record it again",
        )
    if data.size >= _WALKED_FROM:
        # All heads come before the first payload: what a damaged file claims to hold isn't read for nothing.
        for _ in _entries(path, data):
            pass
    definitions: dict[int, Definition] = {}
    for begin, (tag, flag, encoding, _, number, run, thread, size, count) in _entries(path, data):
        payload = data.take(begin, size)
        if len(payload) < size:
            raise _cut_short(path, begin)
        if tag == _DEFINITION:
            parts = payload.split(b"\0")
            if len(parts) != 4:
                raise InputError(path, "holds a damaged definition", place=f"offset {begin}")
            try:
                name, kind, layout = (part.decode() for part in parts[:3])
                definitions[number] = Definition(name, kind, layout, [])
            except UnicodeDecodeError as error:
                raise InputError(path, "holds a damaged definition", place=f"offset {begin}") from error
            continue
        if number not in definitions:
            raise InputError(path, "holds a value of no definition", place=f"offset {begin}")
        if tag == _PLAIN_VALUES:
            definitions[number].values.append(Value(run, thread, PLAIN, payload, count))
        else:
            definitions[number].values.append(Value(run, thread, encoding, None if flag & 1 else payload))
    return list(definitions.values())


def _entries(path: str | os.PathLike[str], data: FileWindow) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Where the payload of each definition and value begins, and its head."""
    at, count = _HEAD.size, 0
    while True:
        entry = data.take(at, _ENTRY.size)
        if len(entry) < _ENTRY.size:
            raise _cut_short(path, at)
        head = _ENTRY.unpack(entry)
        tag, size = head[0], head[7]
        if tag == _END:
            if size != count:
                raise InputError(path, f"ends after {count} values, not {size}", place=f"offset {at}")
            return
        if tag not in (_DEFINITION, _VALUE, _PLAIN_VALUES):
            raise InputError(
                path, f"holds an unknown entry ({tag})", place=f"offset {at}", remedy="record it again"
            )
        begin = at + _ENTRY.size
        if size > data.size - begin:
            raise _cut_short(path, at)
        if tag == _DEFINITION and size > _LARGEST_DEFINITION:
            raise InputError(path, "holds a damaged definition", place=f"offset {begin}")
        if tag == _PLAIN_VALUES and head[8] > size:
            raise InputError(path, "holds more plain values than bytes", place=f"offset {begin}")
        yield begin, head
        at = begin + size + (-size % 8)
        count += head[8] if tag == _PLAIN_VALUES else tag == _VALUE


def _cut_short(path: str | os.PathLike[str], at: int) -> InputError:
    return InputError(path, "is cut short", place=f"offset {at}", remedy="record it again")


class _Opaque:
    """Stands in for a class that isn't loaded: decoding a trace runs nothing of it."""

    arguments: tuple[Any, ...]
    items: list[Any]

    # Not in __init__, which a pickle need not call.
    def __new__(cls, *arguments: Any, **named: Any) -> _Opaque:
        made = super().__new__(cls)
        made.arguments, made.items = (*arguments, *named.items()), []
        return made

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        self.state = state

    # What a pickle fills lists, dicts and sets of such a class with.
    def append(self, item: Any) -> None:
        self.items.append(item)

    def extend(self, items: Any) -> None:
        self.items.extend(items)

    def __setitem__(self, key: Any, item: Any) -> None:
        self.items.append((key, item))

    def __repr__(self) -> str:
        inside = getattr(self, "state", None)
        shown = self.arguments if inside is None else inside
        return f"{self.__class__.__name__}({shown}{f' {self.items}' if self.items else ''})"


_HARMLESS = {
    "builtins": {"set", "frozenset", "bytearray", "complex", "range", "slice", "Ellipsis", "NotImplemented"}
}


class _Decoder(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in _HARMLESS.get(module, ()):
            return super().find_class(module, name)
        return type(f"{module}.{name}", (_Opaque,), {})

    def persistent_load(self, pid: Any) -> str:
        return f"<{pid[0]} {pid[1]}>"


def decode_pickle(data: bytes) -> Any:
    """A pickled value, with every class but the plain ones shown and not loaded."""
    return _Decoder(io.BytesIO(data)).load()


_TOKEN = re.compile(r"\s*(?:([iu][1248]|f[48]|b|s)|r(\d+)|(\d+)\[|([vo])\(|m\(|(\{))")
_FORMATS = {
    "b": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
    "f4": "f", "f8": "d",
}  # fmt: skip


def decode_packed(layout: str, data: bytes) -> list[Any]:
    """The members of a packed value, nested ones as lists, maps as pairs.

    Raises:
        ValueError: the layout is none, or the data doesn't fit it.
    """
    found, _, at = _unpack(layout, 0, data, 0)
    if at != len(data):
        raise ValueError(f"{plural(len(data) - at, 'byte')} are left over")
    return found if isinstance(found, list) and layout.lstrip().startswith("{") else [found]


def _take(data: bytes, at: int, code: str) -> tuple[Any, int]:
    size = struct.calcsize("<" + code)
    if at + size > len(data):
        raise ValueError("the data is shorter than its layout")
    return struct.unpack_from("<" + code, data, at)[0], at + size


def _unpack(layout: str, where: int, data: bytes, at: int) -> tuple[Any, int, int]:
    """(value, place behind this layout, place behind its data)"""
    match = _TOKEN.match(layout, where)
    if match is None:
        raise ValueError(f"no layout at {where}: {layout[where : where + 10]!r}")
    where = match.end()
    simple, raw, array, shape, members = match.groups()
    if simple == "s":
        size, at = _take(data, at, "I")
        if at + size > len(data):
            raise ValueError("a string is longer than the data")
        return data[at : at + size].decode(errors="replace"), where, at + size
    if simple:
        value, at = _take(data, at, _FORMATS[simple])
        return value, where, at
    if raw:
        if at + int(raw) > len(data):
            raise ValueError("the data is shorter than its layout")
        return data[at : at + int(raw)].hex(), where, at + int(raw)
    if members:
        found = []
        while layout[where:].lstrip()[:1] != "}":
            value, where, at = _unpack(layout, where, data, at)
            found.append(value)
        return found, layout.index("}", where) + 1, at
    if array or shape == "v":
        count, at = (int(array), at) if array else _take(data, at, "I")
        found, end = [], where
        for _ in range(count):
            value, end, at = _unpack(layout, where, data, at)
            found.append(value)
        return found, _skip(layout, where) + 1, at
    if shape == "o":
        present, at = _take(data, at, "?")
        end = _skip(layout, where) + 1
        if not present:
            return None, end, at
        value, _, at = _unpack(layout, where, data, at)
        return value, end, at
    count, at = _take(data, at, "I")
    after_key = _skip(layout, where) + 1
    pairs = []
    for _ in range(count):
        key, _, at = _unpack(layout, where, data, at)
        value, _, at = _unpack(layout, after_key, data, at)
        pairs.append([key, value])
    return pairs, _skip(layout, after_key) + 1, at


def _skip(layout: str, where: int) -> int:
    """The place behind one layout."""
    match = _TOKEN.match(layout, where)
    if match is None:
        raise ValueError(f"no layout at {where}")
    simple, raw, array, shape, members = match.groups()
    where = match.end()
    if simple or raw:
        return where
    if members:
        while layout[where:].lstrip()[:1] != "}":
            where = _skip(layout, where)
        return layout.index("}", where) + 1
    where = _skip(layout, where) + 1
    return where if array or shape else _skip(layout, where) + 1


def flatten(value: Any) -> Iterator[str]:
    """The plain values within a decoded one, as text."""
    if isinstance(value, _Opaque):
        yield from flatten(list(value.arguments))
        yield from flatten(getattr(value, "state", []))
        yield from flatten(value.items)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(key)
            yield from flatten(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from flatten(item)
    elif isinstance(value, (bytes, bytearray)):
        yield value.hex()
    elif isinstance(value, bool):
        yield str(int(value))
    else:
        yield str(value)


def members(definition: Definition, value: Value) -> Any:
    """A value's members, decoded; None for NULL."""
    if value.data is None:
        return None
    if value.encoding == PICKLE:
        decoded = decode_pickle(value.data)
        return decoded.get("v") if isinstance(decoded, dict) and "k" in decoded else decoded
    return decode_packed(definition.layout, value.data)


def _read_values(path: str | os.PathLike[str]) -> Iterator[tuple[Definition, Value, Any]]:
    """Each value with what it says of itself and what is inside of it."""
    for definition in read(path):
        for value in definition.values:
            try:
                if value.encoding == PLAIN:
                    inside = plain(value)
                else:
                    inside = members(definition, value)
            except Exception as error:  # a damaged pickle raises what it likes
                raise InputError(
                    path,
                    f"holds a damaged value ({error})",
                    place=f"{definition.name}, run {value.run}",
                ) from error
            if value.encoding != PLAIN:
                yield definition, value, inside
                continue
            for number, one in enumerate(inside):
                data = None if one is None else b"\0" * _size_of(one)
                yield definition, Value(value.run + number, value.thread, PLAIN, data), one


def _size_of(value: Any) -> int:
    """Bytes of a plain value."""
    if isinstance(value, tuple):
        return 5 + sum(map(_size_of, value))
    if isinstance(value, (str, bytes)):
        return 5 + len(value.encode() if isinstance(value, str) else value)
    return 1 if value is None or isinstance(value, bool) else 9


def as_text(path: str | os.PathLike[str], *, labelled: bool = False) -> Iterator[str]:
    """One line a value: run;size of name;name;size of type;type;NULL flag[;size of data;members].

    Sizes of name and type count their NUL. With labels, a line a value names each part.
    """
    for definition, value, inside in _read_values(path):
        name, kind = definition.name, definition.type
        head = [value.run, len(name.encode()) + 1, name, len(kind.encode()) + 1, kind]
        if labelled:
            shown = "NULL" if value.data is None else f"({plural(len(value.data), 'byte')}) {inside!r}"
            yield f"run {value.run}, thread {value.thread}: {name} [{kind}] = {shown}"
        elif value.data is None:
            yield ";".join(map(str, [*head, 1]))
        else:
            yield ";".join([*map(str, [*head, 0, len(value.data)]), *flatten(inside)])


def as_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The same as a document: an object a value; `bytes` and `members` are null where it is NULL."""
    return {
        "values": [
            {
                "run": value.run,
                "thread": value.thread,
                "name": definition.name,
                "type": definition.type,
                "bytes": None if value.data is None else len(value.data),
                "members": None if value.data is None else list(flatten(inside)),
            }
            for definition, value, inside in _read_values(path)
        ]
    }
