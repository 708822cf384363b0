"""Outputs: written aside and renamed when whole; what a killed run wrote is kept aside."""

from __future__ import annotations

import gzip
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from latlab.errors import InputError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_PART_ROWS = 1 << 20
_TABLES = {".parquet": "parquet", ".feather": "feather", ".arrow": "feather", ".csv": "csv"}


def guard(inputs: Sequence[object], outputs: Sequence[object]) -> None:
    """Refuse outputs that are an input, or each other, by whatever name.

    Args:
        inputs: paths; ``-`` is the standard input. Others (addresses of feeds) are passed over.
        outputs: paths, or None.

    Raises:
        UsageError: one of them would take the place of another.
    """
    written: dict[object, object] = {}
    read = {number: path for path in inputs if (number := _inode(path, 0)) is not None}
    for path in outputs:
        if not isinstance(path, str | os.PathLike) or "://" in str(path):
            continue
        number = _inode(path, 1)
        for known, what in ((number, path), (_inode(part_of(Path(path)), None), part_of(Path(path)))):
            if known is not None and known in read:
                raise UsageError(f"{what} is the input {read[known]}: give the output another name")
        inside = [p for p in inputs if Path(path).is_dir() and _is_in(p, Path(path))]
        if inside:
            raise UsageError(f"the input {inside[0]} is in the folder {path}, which would be written anew")
        key = number if number is not None else os.path.realpath(path)
        if key in written:
            raise UsageError(f"{path} and {written[key]} are the same file: give each output its own")
        written[key] = path


def _inode(path: object, descriptor: int | None) -> tuple[int, int] | None:
    """Of a regular file or a folder that is there."""
    if not isinstance(path, str | os.PathLike):
        return None
    try:
        standard = str(path) == "-" and descriptor is not None
        found = os.fstat(descriptor or 0) if standard else Path(path).stat()
    except (OSError, ValueError):
        return None
    return (
        (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) else None
    )


def _is_in(path: object, folder: Path) -> bool:
    if not isinstance(path, str | os.PathLike) or not Path(path).exists():
        return False
    return folder.resolve() in Path(path).resolve().parents


def part_of(path: Path) -> Path:
    """Where an output stands until it is whole."""
    return path.with_name(path.name + ".part") if path.name else path


def _aside(path: Path) -> tuple[Path, Path | None]:
    """What to write to, and what to rename it to: a link's target; a pipe or a device is written as it is."""
    real = Path(os.path.realpath(path))
    if real.exists() and not real.is_file():
        if real.is_dir():
            raise UsageError(f"{path} is a folder: give a file")
        return real, None
    return part_of(real), real


@contextmanager
def create(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, compressed by its name; ``-`` is the standard output.

    It is written aside and takes its name when it is whole: an error or an interruption leaves what was
    there. The bytes carry neither name nor time: they are repeatable.
    """
    if str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part, whole = _aside(path)
    try:
        with part.open("wb") as raw, _compressing(raw, path.suffix) as file:
            yield file
    except BaseException:
        if whole is not None:
            part.unlink(missing_ok=True)
        raise
    if whole is not None:
        part.replace(whole)


@contextmanager
def _compressing(raw: IO[bytes], suffix: str) -> Iterator[IO[bytes]]:
    if suffix == ".gz":
        with gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=raw, mtime=0) as file:
            yield cast("IO[bytes]", file)
    elif suffix == ".zst":
        import pyarrow as pa

        with pa.CompressedOutputStream(raw, "zstd") as file:
            yield file
    else:
        yield raw


class TextOutput:
    """Lines that stand in ``PATH.part`` until the output is whole; a killed run's can be resumed.

    Args:
        path: compressed if ``*.gz`` or ``*.zst``; ``-`` is the standard output.
        resume: keep the whole lines that a killed run left, or a finished one.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.lines = 0
        self._standard = str(path) == "-"
        if self._standard:
            if resume:
                raise UsageError("the standard output can't be resumed")
            self._file: IO[bytes] = sys.stdout.buffer
            return
        self.part, self._whole = _aside(path)
        left = next((p for p in (self.part, self._whole) if p is not None and p.is_file()), None)
        again = self.part.with_name(self.part.name + ".resumed")
        target = again if resume and left is not None and self._whole is not None else self.part
        self._raw = target.open("wb")
        self._context = _compressing(self._raw, path.suffix)
        self._file = self._context.__enter__()
        if target is again and left is not None:
            # A torn compression can't be appended to: what can be read of it is written again, and takes its
            # place when it is complete.
            for lines in _whole_lines(left, path.suffix):
                self.lines += lines.count(b"\n")
                self._file.write(lines)
            self._file.flush()
            again.replace(self.part)

    def write(self, text: bytes) -> None:
        """Append, and hand it to the system so that a kill can't take it back."""
        if text:
            self._file.write(text)
            self._file.flush()

    def commit(self) -> None:
        """Nothing more comes: the output takes its name."""
        if not self._standard:
            self._close()
            if self._whole is not None:
                self.part.replace(self._whole)

    def _close(self) -> None:
        self._context.__exit__(None, None, None)
        self._raw.close()

    def __enter__(self) -> TextOutput:
        return self

    def __exit__(self, *error: Any) -> None:
        if not self._standard and not self._raw.closed:
            self._close()


def _whole_lines(path: Path, suffix: str) -> Iterator[bytes]:
    """What can be read of a file that may be torn, up to the last end of line, in pieces."""
    import pyarrow as pa

    kind = {".gz": "gzip", ".zst": "zstd"}.get(suffix)
    rest = b""
    # A torn compression ends in an error: what came before the tear is what the killed run had saved.
    with suppress(OSError), pa.input_stream(str(path), compression=kind) as stream:
        while block := stream.read(1 << 20):
            end = block.rfind(b"\n") + 1
            if end:
                yield rest + block[:end]
                rest = b""
            rest += block[end:]


class _Parts:
    """Rows in numbered Parquet files of a folder, each whole or not there: a kill costs the last one at most.

    Args:
        folder: made when the first part is written.
        resume: keep the parts that are there; the first `rows` rows that are written again are skipped.
    """

    def __init__(self, folder: Path, *, resume: bool) -> None:
        import pyarrow.parquet as pq

        self.folder = folder
        self.paths = sorted(folder.glob("part-*.parquet"))
        if not resume:
            for path in self.paths:
                path.unlink()
            self.paths = []
        self.kept: int = sum(pq.read_metadata(path).num_rows for path in self.paths)
        self.rows = 0
        self._waiting: list[pa.Table] = []
        self._count = 0

    def write(self, table: pa.Table) -> None:
        skip = max(0, min(table.num_rows, self.kept - self.rows))
        self.rows += table.num_rows
        table = table.slice(skip)
        # Without rows too: the first table gives the schema.
        if table.num_rows or not (self._waiting or self.paths):
            self._waiting.append(table)
            self._count += table.num_rows
        if self._count >= _PART_ROWS:
            self.flush()

    def flush(self) -> None:
        """What waits becomes a part."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not self._waiting:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"part-{len(self.paths):05}.parquet"
        temporary = path.with_suffix(".tmp")
        pq.write_table(pa.concat_tables(self._waiting), temporary, compression="zstd")
        temporary.replace(path)
        self.paths.append(path)
        self._waiting, self._count = [], 0


class PartsByKind:
    """A folder with a folder of parts for each kind of rows; a context manager.

    It grows as ``PATH.part`` and takes its name when it is whole.

    Args:
        folder: of an earlier run, or not there.
        resume: go on behind the parts that a killed run left, or a finished one.

    Raises:
        UsageError: there is a folder, or a file, of something else.
    """

    def __init__(self, folder: Path, *, resume: bool) -> None:
        self._whole, self.part = folder, part_of(folder)
        if folder.exists() and not _only_parts(folder):
            raise UsageError(f"{folder} holds something else than parts: give the output another name")
        self._resume = resume
        if resume and folder.exists() and not self.part.exists():
            folder.replace(self.part)
        if not resume and self.part.exists():
            _remove_parts(self.part)
        self.part.mkdir(parents=True, exist_ok=True)
        self._kinds: dict[str, _Parts] = {}

    @property
    def rows(self) -> dict[str, int]:
        """Rows by kind, those that were kept among them."""
        return {kind: parts.rows for kind, parts in self._kinds.items()}

    def write(self, kind: str, table: pa.Table) -> None:
        """Append."""
        if kind not in self._kinds:
            self._kinds[kind] = _Parts(self.part / kind, resume=self._resume)
        self._kinds[kind].write(table)

    def __enter__(self) -> PartsByKind:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        for parts in self._kinds.values():
            parts.flush()
        if kind is None:
            if self._whole.exists():
                _remove_parts(self._whole)
            self.part.replace(self._whole)


def _only_parts(folder: Path) -> bool:
    """Whether nothing is there that `PartsByKind` does not write."""
    if not folder.is_dir():
        return False
    kinds = [path for path in folder.iterdir() if path.name[0] != "."]
    files = [file for kind in kinds if kind.is_dir() for file in kind.iterdir()]
    named = (file.name.startswith("part-") and file.suffix in (".parquet", ".tmp") for file in files)
    return all(kind.is_dir() for kind in kinds) and all(named)


def _remove_parts(folder: Path) -> None:
    for file in folder.glob("*/part-*"):
        file.unlink()
    for kind in folder.iterdir():
        kind.rmdir()
    folder.rmdir()


class OneParquet:
    """One Parquet file that grows by tables; a context manager.

    While it grows its rows are in parts in ``PATH.parts``, which any reader of Parquet folders reads;
    `commit` makes the file of them. A resumed run goes on behind those of a killed one.

    Args:
        path: the file.
        resume: keep the rows of a killed run, or of a finished one.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = Path(os.path.realpath(path))
        folder = self._path.with_name(self._path.name + ".parts")
        if self._path.exists() and resume and not folder.exists():
            folder.mkdir()
            self._path.replace(folder / "part-00000.parquet")
        self._parts = _Parts(folder, resume=resume)

    @property
    def folder(self) -> Path:
        """Where the parts are."""
        return self._parts.folder

    @property
    def kept(self) -> int:
        """Rows that are there from before; `write` skips as many."""
        return self._parts.kept

    @property
    def rows(self) -> int:
        """Rows written, those that were kept among them."""
        return self._parts.rows

    def skip(self, rows: int) -> None:
        """The first so many rows will not be written again: the caller leaves them out."""
        self._parts.rows += rows

    def write(self, table: pa.Table) -> None:
        """Append; a table without rows only gives the schema."""
        self._parts.write(table)

    def __enter__(self) -> OneParquet:
        return self

    def __exit__(self, *error: Any) -> None:
        self._parts.flush()

    def commit(self) -> None:
        """Nothing more comes: the parts become the file."""
        import pyarrow.parquet as pq

        self._parts.flush()
        paths = self._parts.paths
        if len(paths) == 1:
            paths[0].replace(self._path)
        elif paths:
            temporary = part_of(self._path)
            with pq.ParquetWriter(temporary, pq.read_schema(paths[0]), compression="zstd") as writer:
                for path in paths:
                    writer.write_table(pq.read_table(path))
            temporary.replace(self._path)
        if paths:
            for path in self._parts.folder.iterdir():
                path.unlink()
            self._parts.folder.rmdir()


class TableOutput:
    """Tables of one schema, one behind the other, as Parquet, Feather or CSV by the name, in little memory.

    A context manager; the file takes its name when the block ends without an error.
    """

    def __init__(self, path: Path) -> None:
        self._kind = table_kind(path)
        self._context = create(path)
        self._writer: Any = None
        self.rows = 0

    def write(self, table: pa.Table) -> None:
        """Append; the first also gives the schema."""
        if self._writer is None:
            self._writer = self._open(table.schema)
        if table.num_rows or self.rows == 0:
            self._writer.write_table(table)
        self.rows += table.num_rows

    def _open(self, schema: pa.Schema) -> Any:
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet as pq

        if self._kind == "parquet":
            return pq.ParquetWriter(self._file, schema, compression="zstd")
        if self._kind == "feather":
            return pa.ipc.new_file(self._file, schema, options=pa.ipc.IpcWriteOptions(compression="zstd"))
        return pyarrow.csv.CSVWriter(self._file, schema)

    def __enter__(self) -> TableOutput:
        self._file = self._context.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._writer is not None and kind is None:
            self._writer.close()
        self._context.__exit__(kind, error, trace)


def table_kind(path: str | os.PathLike[str]) -> str:
    """Of what kind a table of this name is: parquet, feather or csv.

    Raises:
        UsageError: it is none that can be written.
    """
    name = Path(path).name
    for packed in (".gz", ".zst"):
        if name.endswith(".csv" + packed):
            return "csv"
    if name == "-":
        return "csv"
    kind = _TABLES.get(Path(name).suffix)
    if kind is None:
        raise UsageError(
            f"'{path}' names no kind of table: write *.parquet, *.feather, *.csv, *.csv.gz or *.csv.zst"
        )
    return kind


def write_table(table: pa.Table, path: Path) -> None:
    """A whole table as Parquet, Feather or CSV, by the name.

    Raises:
        UsageError: the name is of no such kind.
        InputError: the file can't be written.
    """
    try:
        with TableOutput(path) as output:
            output.write(table)
    except OSError as error:
        raise InputError(path, f"can't be written: {error.strerror or error}") from error
