"""A recording: what a run measured, with its parameters, seed, command and environment, in a folder.

Over 400 lines: writer, reader and check of one layout, which must agree on what may be missing.

    <recording>/
      recording.json       written first: format, version, kind, parameters, seed, command, times
      environment.json     written first: the environment (latlab.model.machine.environment)
      <series>.arrows      one Arrow IPC stream per series; every append is one chunk of it
      <document>.json      results, each written whole or not at all
      complete.json        written last: chunks, rows and bytes of each series

A chunk is handed to the kernel in one piece before `append` returns. A run that is killed, at any moment,
therefore keeps every chunk that it finished, and at most an unfinished one at the end of a series, which a
reader leaves aside. (That is against the death of the process. Nothing is synced to the disk, so a power cut
may take the last seconds: syncing stalls the writer for milliseconds, in the middle of a measurement.)

Version history:
    1  the layout above.
"""

from __future__ import annotations

import datetime
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from latlab.errors import InputError, UsageError
from latlab.formats import _arrow_stream, documents
from latlab.formats.columns import Columns, as_struct, read_stream, type_name
from latlab.formats.trusted import TrustedFile, is_trusted_owner
from latlab.model.machine.environment import Environment
from latlab.words import plural
from latlab.words import size as size_text

__all__ = [
    "FORMAT",
    "VERSION",
    "Recording",
    "RecordingWriter",
    "is_recording",
    "make_empty_folder",
    "open_recording",
]

FORMAT = "latlab recording"
VERSION = 1

_MANIFEST, _ENVIRONMENT, _COMPLETE = "recording", "environment", "complete"
_RESERVED = frozenset({_MANIFEST, _ENVIRONMENT, _COMPLETE})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_SMALL = 64 << 20  # bytes that are read however little memory is free
_COPY_AGAIN = "copy the recording again from where it was made"


class RecordingWriter:
    """Writes a recording; a context manager that marks it complete unless the block raises.

    Not thread-safe: one thread writes one recording.

    Args:
        path: the folder to make. It must not hold anything yet.
        kind: what was measured ("queues", "jitter"): tells readers which report fits.
        parameters: what the run was asked for; whatever `documents.plain` can write.
        environment: from `latlab.system.environment.capture`.
        seed: of every random choice in the run.
        command: how to repeat the run; by default this process's command line.

    Raises:
        UsageError: when the folder is not empty, or can't be made.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        kind: str,
        *,
        parameters: Mapping[str, Any],
        environment: Environment,
        seed: int | None = None,
        command: Sequence[str] | str | None = None,
    ) -> None:
        self.path = Path(path)
        self._series: dict[str, _SeriesWriter] = {}
        self._closed = False
        make_empty_folder(self.path)
        manifest = {
            "schema": 1,
            "format": FORMAT,
            "version": VERSION,
            "kind": kind,
            "started_at": _now(),
            "seed": seed,
            "command": _command_line(command),
            "parameters": parameters,
        }
        # The environment first: a folder with a manifest is a recording, and a recording has an environment.
        documents.write(self.path / f"{_ENVIRONMENT}.json", environment.to_json())
        documents.write(self.path / f"{_MANIFEST}.json", manifest)

    def append(self, series: str, batch: Mapping[str, Any] | Any) -> None:
        """Write one chunk of a series; it is safe from a kill once this returns.

        Args:
            series: its name: letters, digits, dots, dashes and underscores.
            batch: the rows: columns of equal length by name, or an Arrow batch of any library. The first
                chunk of a series settles its columns and types.

        Raises:
            ValueError: for a name that is none, or columns unlike the first chunk's.
            OSError: when the disk is full or the folder gone; chunks written before stay readable.
        """
        if self._closed:
            raise ValueError("the recording is closed")
        rows = as_struct(batch)
        writer = self._series.get(series)
        if writer is None:
            name = _checked(series)
            coded = [one.name for one in rows.schema.children if one.dictionary is not None]
            if coded:
                raise ValueError(f"column '{coded[0]}' is dictionary-encoded; append its plain values")
            writer = _SeriesWriter(self.path / f"{name}.arrows", rows.schema)
            self._series[series] = writer
        writer.append(rows)

    def put(self, name: str, document: Mapping[str, Any]) -> None:
        """Write a JSON document, whole or not at all; a second one of the same name replaces it.

        Raises:
            ValueError: for a name that is none or that the recording itself uses.
            TypeError: for what JSON can't say.
        """
        if self._closed:
            raise ValueError("the recording is closed")
        if name in _RESERVED:
            raise ValueError(f"'{name}' is the recording's own document")
        documents.write(self.path / f"{_checked(name)}.json", document)

    def close(self) -> None:
        """End the series and mark the recording complete. Closing twice is closing once."""
        if self._closed:
            return
        self._closed = True
        for writer in self._series.values():
            writer.close()
        totals = {
            name: {"chunks": w.chunks, "rows": w.rows, "bytes": w.bytes} for name, w in self._series.items()
        }
        documents.write(
            self.path / f"{_COMPLETE}.json", {"schema": 1, "finished_at": _now(), "series": totals}
        )

    def abandon(self) -> None:
        """Release the files without marking the recording complete: what was written stays readable."""
        self._closed = True
        for writer in self._series.values():
            writer.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()


class _SeriesWriter:
    """One open series: turns batches into bytes, and hands each chunk to the kernel in one call."""

    def __init__(self, path: Path, schema: Any) -> None:
        from nanoarrow.ipc import StreamWriter

        self.chunks = self.rows = self.bytes = 0
        self._schema = schema
        self._pieces = _Pieces()
        self._encoder = StreamWriter.from_writable(self._pieces)
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115 (stays open from chunk to chunk)

    def append(self, rows: Any) -> None:
        if _columns(rows.schema) != _columns(self._schema):
            raise ValueError(
                f"a chunk with columns {_columns(rows.schema)} in a series of {_columns(self._schema)}"
            )
        self._encoder.write_array(rows)
        self._flush()
        self.chunks += 1
        self.rows += rows.length

    def close(self) -> None:
        self._encoder.close()
        self._flush()
        self._file.close()

    def release(self) -> None:
        self._file.close()

    def _flush(self) -> None:
        chunk = memoryview(self._pieces.take())
        self.bytes += len(chunk)
        while chunk:
            chunk = chunk[self._file.write(chunk) :]


class _Pieces:
    """What the encoder takes for a file: gathers its many small writes into one."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        return len(part)

    def take(self) -> bytes:
        whole = b"".join(self._parts)
        self._parts.clear()
        return whole


@dataclass(frozen=True)
class Recording:
    """A recording on disk. Series and documents are read when they are asked for.

    Attributes:
        path: its folder.
        version: of the format that it was written in.
        kind: what was measured.
        parameters: what the run was asked for.
        environment: where it ran.
        seed: of its random choices, or None.
        command: how to repeat it, as a shell would take it; or None.
        started_at: when it began (ISO 8601, UTC).
        complete: whether the writer ended it. A killed run's recording is not complete, and still readable.
        finished_at: when it ended, or None.
    """

    path: Path
    version: int
    kind: str
    parameters: Mapping[str, Any]
    environment: Environment
    seed: int | None
    command: str | None
    started_at: str
    complete: bool
    finished_at: str | None = None
    _totals: Mapping[str, Mapping[str, int]] = field(default_factory=dict, repr=False)

    def names(self) -> list[str]:
        """The series with at least one finished chunk (or, of a complete recording, every one), sorted."""
        if self.complete:
            return sorted(self._totals)
        found = (path.stem for path in self.path.glob("*.arrows") if path.is_file())
        return sorted(name for name in found if self._read(name)[1])

    def series(self, name: str) -> Columns:
        """The rows of a series: every finished chunk.

        Raises:
            InputError: when there is no such series, or its file is damaged; with the offset.
        """
        size, chunks, unfinished = self._read_checked(name)
        path = self._series_path(name)
        end = chunks[-1].end if chunks else 0
        data = self._bytes(path, end)
        try:
            table = read_stream(data)
        except (OSError, ValueError, MemoryError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise InputError(path, f"holds a damaged chunk ({reason})", remedy=_COPY_AGAIN) from None
        expected = self._totals.get(name, {}).get("rows") if self.complete else None
        if expected is not None and expected != table.num_rows:
            raise InputError(
                path,
                f"holds {table.num_rows} rows where the recording was closed with {expected}",
                place=f"offset {size - unfinished}",
                remedy=_COPY_AGAIN,
            )
        return table

    @staticmethod
    def _bytes(path: Path, end: int) -> bytes:
        """A series up to its last finished chunk, where memory has room for it."""
        if end > (free := os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) and end > _SMALL:
            raise InputError(path, f"has {size_text(end)} where {size_text(free)} of memory are free")
        # Read and not mapped: a file that somebody cuts short under a map kills its reader with SIGBUS.
        with TrustedFile(path, named=True) as file:
            data = file.read(0, end)
        if len(data) < end:
            raise InputError(path, "became shorter while it was read", place=f"offset {len(data)}")
        return data

    def unfinished_bytes(self, name: str) -> int:
        """The length of the chunk that a killed writer left unfinished at the end of a series; 0 of a whole
        one.

        Raises:
            InputError: as `series` does.
        """
        return self._read_checked(name)[2]

    def documents(self) -> list[str]:
        """The names of the documents that the run put there, sorted."""
        found = {path.stem for path in self.path.glob("*.json") if path.is_file()}
        return sorted(name for name in found - _RESERVED if not name.startswith("."))

    def document(self, name: str) -> dict[str, Any]:
        """A document.

        Raises:
            InputError: when there is no such document, or it is not JSON object.
        """
        if not _NAME.fullmatch(name) or name not in self.documents():
            raise InputError(self.path, f"has no document '{name}'", remedy=_choice(self.documents()))
        return documents.read(self.path / f"{name}.json", door=True)

    def _series_path(self, name: str) -> Path:
        return self.path / f"{name}.arrows"

    def _read_checked(self, name: str) -> tuple[int, list[_arrow_stream.ArrowMessage], int]:
        path = self._series_path(name)
        if not _NAME.fullmatch(name) or not path.is_file():
            raise InputError(self.path, f"has no series '{name}'", remedy=_choice(self.names()))
        size, chunks, unfinished = self._read(name)
        if not chunks and not self.complete:
            raise InputError(path, "holds no finished chunk: the run was killed while writing the first")
        if self.complete and size != self._totals.get(name, {}).get("bytes", size):
            what = f"{plural(size, 'byte')} where the recording was closed with {self._totals[name]['bytes']}"
            raise InputError(path, what, place=f"offset {size - unfinished}", remedy=_COPY_AGAIN)
        return size, chunks, unfinished

    def _read(self, name: str) -> tuple[int, list[_arrow_stream.ArrowMessage], int]:
        """A series' length, the messages up to its last finished chunk, and how many bytes follow that."""
        path = self._series_path(name)
        with TrustedFile(path, named=True) as file:
            return self._framed(file)

    def _framed(self, file: TrustedFile) -> tuple[int, list[_arrow_stream.ArrowMessage], int]:
        path, size = file.path, file.size
        try:
            found = list(_arrow_stream.messages(lambda at, length: file.read(at, length), size))
        except OSError as error:
            raise InputError(path, f"can't be read ({error.strerror})") from None
        except _arrow_stream.FramingError as error:
            raise InputError(path, error.what, place=f"offset {error.offset}", remedy=_COPY_AGAIN) from None
        if found and found[0].kind != _arrow_stream.SCHEMA:
            raise InputError(path, "begins without a schema", place="offset 0", remedy=_COPY_AGAIN)
        # Dictionaries belong to the chunk after them; without it they are part of an unfinished one.
        while found and found[-1].kind == _arrow_stream.DICTIONARY_BATCH:
            found.pop()
        whole = found[-1].end if found else 0
        ended = size - whole == 8 and file.read(whole, 8) == b"\xff\xff\xff\xff\0\0\0\0"
        unfinished = 0 if ended else size - whole
        has_chunk = any(m.kind == _arrow_stream.RECORD_BATCH for m in found)
        return size, found if has_chunk or self.complete else [], unfinished


def is_recording(path: str | os.PathLike[str]) -> bool:
    """Whether a path looks like a recording: a folder with a manifest."""
    try:
        return (Path(path) / f"{_MANIFEST}.json").is_file()
    except OSError:  # a folder that is closed to us
        return False


def open_recording(path: str | os.PathLike[str]) -> Recording:
    """Open a recording, whether its run ended, still writes, or was killed.

    Raises:
        InputError: when the path is not a recording, one of a newer latlab, or damaged; with the file and the
            key.
    """
    folder = Path(path)
    if not folder.exists():
        raise InputError(
            folder,
            "there is no such recording",
            remedy="'latlab runs list FOLDER' lists the recordings in it",
        )
    manifest_path = folder / f"{_MANIFEST}.json"
    if not folder.is_dir() or not manifest_path.is_file():
        remedy = (
            "a recording is a folder with a recording.json; 'latlab show FILE' says what else latlab reads"
        )
        raise InputError(folder, "is not a recording", remedy=remedy)
    manifest = documents.read(manifest_path, door=True)
    if manifest.get("format") != FORMAT:
        raise InputError(manifest_path, f"is not a {FORMAT}", place="format")
    version = _value(manifest_path, manifest, "version", int)
    if version > VERSION or version < 1:
        what = f"is version {version} of the format, and this latlab reads up to {VERSION}"
        raise InputError(manifest_path, what, place="version", remedy="update latlab")
    environment_path = folder / f"{_ENVIRONMENT}.json"
    try:
        environment = Environment.from_json(documents.read(environment_path, door=True))
    except ValueError as error:
        key, _, what = str(error).partition(": ")
        raise InputError(environment_path, what, place=key, remedy=_COPY_AGAIN) from None
    end = _end(folder)
    return Recording(
        path=folder,
        version=version,
        kind=_value(manifest_path, manifest, "kind", str),
        parameters=_value(manifest_path, manifest, "parameters", dict),
        environment=environment,
        seed=_value(manifest_path, manifest, "seed", int, type(None)),
        command=_value(manifest_path, manifest, "command", str, type(None)),
        started_at=_value(manifest_path, manifest, "started_at", str),
        complete=end is not None,
        finished_at=None if end is None else end[0],
        _totals={} if end is None else end[1],
    )


def _end(folder: Path) -> tuple[str, dict[str, dict[str, int]]] | None:
    """When the writer ended and what it had written, or None where it didn't."""
    path = folder / f"{_COMPLETE}.json"
    if not path.is_file():
        return None
    document = documents.read(path, door=True)
    totals = _value(path, document, "series", dict)
    for name, total in totals.items():
        whole = isinstance(total, dict) and all(
            isinstance(total.get(key), int) for key in ("chunks", "rows", "bytes")
        )
        if not whole or not _NAME.fullmatch(name):
            raise InputError(path, "no totals of a series", place=f"series.{name}", remedy=_COPY_AGAIN)
    return _value(path, document, "finished_at", str), totals


def _value(path: Path, document: Mapping[str, Any], key: str, *types: type) -> Any:
    if key not in document:
        raise InputError(path, "is missing", place=key, remedy=_COPY_AGAIN)
    value = document[key]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise InputError(path, f"a {type(value).__name__} can't stand here", place=key, remedy=_COPY_AGAIN)
    return value


def make_empty_folder(path: Path) -> None:
    """Make a folder for a recording, before there is one to lose.

    Raises:
        UsageError: when it can't be made, or holds something already.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        occupied, owner = any(path.iterdir()), path.stat().st_uid
    except OSError as error:
        raise UsageError(f"{path}: can't be made a folder ({error.strerror})") from None
    if owner != os.geteuid() and not (os.geteuid() == 0 and is_trusted_owner(owner)):
        # Its owner could lay links there, for us to write through.
        raise UsageError(f"{path}: belongs to user {owner}", remedy="name a new folder")
    if occupied:
        raise UsageError(f"{path}: is not empty", remedy="choose another name or remove it first")


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"'{name}' is not a valid name: use letters, digits, dots, dashes and underscores")
    return name


def _columns(schema: Any) -> str:
    """Names and types; whether a value may be missing is each chunk's own."""
    return ", ".join(f"{child.name} ({type_name(child)})" for child in schema.children)


def _choice(names: Sequence[str]) -> str:
    return f"it has {', '.join(names)}" if names else "it has none"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _command_line(command: Sequence[str] | str | None) -> str:
    if isinstance(command, str):
        return command
    words = list(sys.argv if command is None else command)
    if command is None and words:
        words[0] = Path(words[0]).name
    return shlex.join(words)
