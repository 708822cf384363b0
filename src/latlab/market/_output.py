"""Outputs that keep what was written when the run is killed."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from latlab.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

_PART_ROWS = 1 << 20


@contextmanager
def create(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, compressed by its name; the bytes carry neither name nor time: they are repeatable."""
    with path.open("wb") as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=raw, mtime=0) as file:
                yield cast("IO[bytes]", file)
        elif path.suffix == ".zst":
            import pyarrow as pa

            with pa.CompressedOutputStream(raw, "zstd") as file:
                yield file
        else:
            yield raw


class TextOutput:
    """Lines in a file, with the lines that a killed run left when it is resumed.

    Args:
        path: compressed if ``*.gz`` or ``*.zst``.
        resume: keep the whole lines that are there.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.lines = 0
        self._context: Any
        if not (resume and path.exists()):
            self._context = create(path)
            self._file = self._context.__enter__()
        elif path.suffix in (".gz", ".zst"):
            # A torn compression can't be appended to: what can be read of it is written again, and takes the
            # file's place when it is complete.
            again = path.with_name(path.stem + ".resumed" + path.suffix)
            self._context = create(again)
            self._file = self._context.__enter__()
            for lines in _whole_lines(path):
                self.lines += lines.count(b"\n")
                self._file.write(lines)
            self._file.flush()
            again.replace(path)
        else:
            kept = 0
            for lines in _whole_lines(path):
                self.lines += lines.count(b"\n")
                kept += len(lines)
            self._context = path.open("r+b")
            self._file = self._context.__enter__()
            self._file.truncate(kept)
            self._file.seek(kept)

    def write(self, text: bytes) -> None:
        """Append, and hand it to the system so that a kill can't take it back."""
        if text:
            self._file.write(text)
            self._file.flush()

    def __enter__(self) -> TextOutput:
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)


def _whole_lines(path: Path) -> Iterator[bytes]:
    """What can be read of a file that may be torn, up to the last end of line, in pieces."""
    import pyarrow as pa

    kind = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
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

    Args:
        folder: made if it isn't there.
        resume: go on behind the parts that a killed run left.
    """

    def __init__(self, folder: Path, *, resume: bool) -> None:
        self._folder, self._resume = folder, resume
        folder.mkdir(parents=True, exist_ok=True)
        self._kinds: dict[str, _Parts] = {}
        # Parts of kinds that this input has not are of another run.
        for old in folder.glob("*/part-*.parquet") if not resume else ():
            old.unlink()

    @property
    def rows(self) -> dict[str, int]:
        """Rows by kind, those that were kept among them."""
        return {kind: parts.rows for kind, parts in self._kinds.items()}

    def write(self, kind: str, table: pa.Table) -> None:
        """Append."""
        if kind not in self._kinds:
            self._kinds[kind] = _Parts(self._folder / kind, resume=self._resume)
        self._kinds[kind].write(table)

    def __enter__(self) -> PartsByKind:
        return self

    def __exit__(self, *error: Any) -> None:
        for parts in self._kinds.values():
            parts.flush()


class OneParquet:
    """One Parquet file that grows by tables; a context manager.

    While it grows its rows are in parts in ``PATH.parts``, which become the file when it ends; a killed run
    leaves the parts, which any reader of Parquet folders reads, and a resumed one goes on behind them.

    Args:
        path: the file.
        resume: keep the rows of a killed run, or of a finished one.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = path
        folder = path.with_name(path.name + ".parts")
        if path.exists() and resume and not folder.exists():
            folder.mkdir()
            path.replace(folder / "part-00000.parquet")
        elif path.exists() and not resume:
            path.unlink()
        self._parts = _Parts(folder, resume=resume)

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

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        self._parts.flush()
        # An input that is bad in its middle has given all that it will; an interrupted run goes on some day.
        if kind is None or issubclass(kind, Exception):
            self._join()

    def _join(self) -> None:
        import pyarrow.parquet as pq

        paths = self._parts.paths
        if len(paths) == 1:
            paths[0].replace(self._path)
        elif paths:
            temporary = self._path.with_name(self._path.name + ".tmp")
            with pq.ParquetWriter(temporary, pq.read_schema(paths[0]), compression="zstd") as writer:
                for path in paths:
                    writer.write_table(pq.read_table(path))
            temporary.replace(self._path)
        if paths:
            for path in self._parts.folder.iterdir():
                path.unlink()
            self._parts.folder.rmdir()


def write_table(table: pa.Table, path: Path) -> None:
    """A whole table as Parquet or CSV, by the name.

    Raises:
        InputError: the file can't be written.
    """
    import pyarrow.csv
    import pyarrow.parquet as pq

    try:
        if path.suffix == ".parquet":
            pq.write_table(table, path, compression="zstd")
        else:
            with create(path) as file:
                pyarrow.csv.write_csv(table, file)
    except OSError as error:
        raise InputError(path, f"can't be written: {error.strerror or error}") from error
