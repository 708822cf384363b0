"""Tables as Parquet, Feather or CSV, by the name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from latlab.errors import UsageError
from latlab.market.files.output import create, unwritable

if TYPE_CHECKING:
    import pyarrow as pa

_TABLES = {".parquet": "parquet", ".feather": "feather", ".arrow": "feather", ".csv": "csv"}


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

        sink: Any = self._sink
        if self._kind == "parquet":
            return pq.ParquetWriter(sink, schema, compression="zstd")
        if self._kind == "feather":
            return pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd"))
        return pyarrow.csv.CSVWriter(sink, schema)

    def __enter__(self) -> TableOutput:
        self._sink = TableFile(self._context.__enter__())
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None and self._writer is not None:
                self._writer.close()
        except BaseException as failed:
            self._give_up()
            if not self._context.__exit__(type(failed), failed, failed.__traceback__):
                raise
        else:
            if kind is not None:
                self._give_up()
            self._context.__exit__(kind, error, trace)

    def _give_up(self) -> None:
        self._sink.dropped = True
        if self._writer is not None:
            self._writer.close()


class TableFile:
    """A file for one of Arrow's writers, which may be closed when the file can take no more.

    A writer of Parquet that is never closed writes its end when it is collected, and says on stderr that it
    could not.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.dropped, self.closed = file, False, False

    def write(self, data: Any) -> int:
        """Write, or take what is given to no purpose once `dropped`."""
        return len(data) if self.dropped else self._file.write(data)

    def flush(self) -> None:
        """Hand what is written to the system."""
        if not self.dropped:
            self._file.flush()

    def close(self) -> None:
        """The file is closed by its owner."""
        self.closed = True


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
            f"'{path}' is not the name of a table: write *.parquet, *.feather, *.csv, *.csv.gz or *.csv.zst"
        )
    return kind


def write_tables(tables: Iterable[pa.Table], path: Path) -> int:
    """Tables, one behind the other, as Parquet, Feather or CSV, by the name; their rows.

    Raises:
        UsageError: the name is of no such kind.
        InputError: the file can't be written.
    """
    try:
        with TableOutput(path) as output:
            for table in tables:
                output.write(table)
    except OSError as error:
        raise unwritable(path, error) from error
    return output.rows


def write_table(table: pa.Table, path: Path) -> None:
    """A whole table, as `write_tables` does."""
    write_tables([table], path)
