"""Tables as Parquet, Feather or CSV, by the name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
