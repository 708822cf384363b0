"""JSON as latlab writes it: strict, numpy-safe, written whole or not at all; and read without a traceback."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import enum
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path, PurePath
from typing import Any

from latlab.errors import InputError
from latlab.formats.trusted import read_file, to_write
from latlab.words import printable

__all__ = ["dumps", "naming", "plain", "read", "write", "write_text"]

# Left as they are by JSON: DEL and C1 (a terminal takes U+009B for the escape sequence's beginning), and what
# turns the direction of writing (UAX 9).
_STEERS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_LARGE = 1 << 18  # characters
_MOST_BYTES = 256 << 20  # of a document behind the door: parsed it takes ten times as much


def plain(value: Any) -> Any:
    """Turn a result into what JSON can say.

    Dataclasses and mappings become objects, arrays and sets lists, numpy scalars their Python values, paths
    and dates text, enumerations their values. NaN and the infinities become None: JSON has no word for them,
    and a quantity that is not defined is not a number.

    Raises:
        TypeError: for anything else, since its text would not be read back as what it was.
    """
    if value is None or isinstance(value, bool | str):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):  # numpy's float64 too
        return float(value) if math.isfinite(value) else None
    # Without numpy in the process nothing can be numpy's, and `--help` needs not wait for it.
    np = sys.modules.get("numpy")
    if np is not None and isinstance(value, np.generic):
        return plain(value.item())
    if np is not None and isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Set):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    raise TypeError(f"a {type(value).__name__} can't be written as JSON")


def dumps(value: Any, *, indent: int | None = None) -> str:
    """`plain`, as JSON text; non-ASCII letters stay themselves, what steers a terminal is escaped."""
    return _escaped(_encoded(plain(value), indent))


def _encoded(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)


def _escaped(text: str) -> str:
    return _STEERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def write(path: str | os.PathLike[str], document: Mapping[str, Any]) -> None:
    """Write a document as `write_text` does: indented, a large one with one line for each of its keys."""
    value = plain(document)
    lines = [f"  {_encoded(key)}: {_encoded(item)}" for key, item in value.items()]
    # Indented text of megabytes is no better to read, and is made ten times slower.
    large = sum(map(len, lines)) > _LARGE
    text = "{\n" + ",\n".join(lines) + "\n}" if large else _encoded(value, indent=2)
    write_text(path, _escaped(text) + "\n")


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Lets a failure to write name the file that was asked for.

    The system names none where the disk is full, and the unfinished one where that can't be opened.
    """
    try:
        yield
    except OSError as error:
        error.filename = os.fspath(path)
        raise


def write_text(path: str | os.PathLike[str], text: str | Iterable[str]) -> None:
    """Write a text, or its pieces, so that a reader, or a kill, finds the old one or the new one whole.

    A device or a pipe (/dev/stdout) is written to, not put away for a file.
    """
    target = Path(path)
    pieces = [text] if isinstance(text, str) else text
    if target.exists() and not target.is_file():
        with naming(path), open(target, "w", encoding="utf-8", opener=to_write) as file:
            file.writelines(pieces)
        return
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        # "x": made anew, so that a link that somebody laid there is not written through.
        unfinished.unlink(missing_ok=True)
        with naming(path), open(unfinished, "x", encoding="utf-8") as file:
            file.writelines(pieces)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


def read(path: str | os.PathLike[str], *, door: bool = False) -> dict[str, Any]:
    """Read a JSON document whose top is an object.

    Args:
        door: read it through `latlab.formats.trusted`: it may lie in a folder that others write. What steers
            a terminal is then replaced in its texts.

    Raises:
        InputError: when the file is missing, no UTF-8, no JSON, or no object; with the offset.
    """
    source = Path(path)
    try:
        raw = read_file(source, _MOST_BYTES) if door else source.read_bytes()
    except FileNotFoundError:
        raise InputError(source, "there is no such file") from None
    except OSError as error:
        raise InputError(source, f"can't be read ({error.strerror})") from None
    try:
        document = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(
            source, "not UTF-8, so not JSON", place=f"offset {error.start}", remedy=_AGAIN
        ) from None
    except json.JSONDecodeError as error:
        place = f"offset {len(error.doc[: error.pos].encode())}"
        raise InputError(source, f"not JSON ({error.msg.lower()})", place=place, remedy=_AGAIN) from None
    except (RecursionError, ValueError):
        # Nested a thousand deep, or a number of a thousand digits: no writer of ours does that.
        raise InputError(source, "nested too deeply or too long", remedy=_AGAIN) from None
    if not isinstance(document, dict):
        raise InputError(source, f"holds a {type(document).__name__}, not an object", remedy=_AGAIN)
    return {printable(key): _harmless(value) for key, value in document.items()} if door else document


def _harmless(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_harmless(one) for one in value]
    if isinstance(value, dict):
        return {printable(key): _harmless(one) for key, one in value.items()}
    return value


_AGAIN = "copy the file again from where it was written"
