"""Outputs that keep what was written when the run is killed."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from latlab.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


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
        kept = _whole_lines(path) if resume and path.exists() else b""
        self.lines = kept.count(b"\n")
        self._context = create(path)
        self._file = self._context.__enter__()
        self._file.write(kept)

    def write(self, text: bytes) -> None:
        """Append, and hand it to the system so that a kill can't take it back."""
        if text:
            self._file.write(text)
            self._file.flush()

    def __enter__(self) -> TextOutput:
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)


def _whole_lines(path: Path) -> bytes:
    """What can be read of a file that may be torn, up to the last end of line."""
    text = bytearray()
    try:
        if path.suffix in (".gz", ".zst"):
            import pyarrow as pa

            kind = "gzip" if path.suffix == ".gz" else "zstd"
            with pa.input_stream(str(path), compression=kind) as stream:
                while block := stream.read(1 << 20):
                    text += block
        else:
            text += path.read_bytes()
    except OSError:
        # A torn compression: what came before the tear is what the killed run had saved.
        pass
    return bytes(text[: text.rfind(b"\n") + 1])


@contextmanager
def create_parquet(path: Path) -> Iterator[Callable[[pa.Table], None]]:
    """A Parquet file that grows by tables; a table without rows only gives the schema."""
    import pyarrow.parquet as pq

    writer: Any = None

    def write(table: pa.Table) -> None:
        nonlocal writer
        if writer is None:
            writer = pq.ParquetWriter(path, table.schema, compression="zstd")
        if table.num_rows:
            writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


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
