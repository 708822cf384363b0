"""Rows in numbered Parquet files, so that a kill costs the last of them at most."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latlab.errors import UsageError
from latlab.formats.trusted import check_own_folder, check_place, make_own_folder
from latlab.market.files.output import part_of, parts_of

if TYPE_CHECKING:
    import pyarrow as pa

_PART_ROWS = 1 << 20


class _Parts:
    """Rows in numbered Parquet files of a folder, each whole or not there: a kill costs the last one at most.

    Args:
        folder: made when the first part is written.
        resume: keep the parts that are there; the first `rows` rows that are written again are skipped.
    """

    def __init__(self, folder: Path, *, resume: bool) -> None:
        import pyarrow.parquet as pq

        self.folder = folder
        if os.path.lexists(folder):
            check_own_folder(folder)
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
        make_own_folder(self.folder)
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
        for path in (folder, self.part):
            if path.exists() and not _only_parts(path):
                raise UsageError(f"{path} holds something else than parts: give the output another name")
        self._resume = resume
        for path in (folder, self.part):
            if os.path.lexists(path):
                check_own_folder(path)
        if resume and folder.exists() and not self.part.exists():
            folder.replace(self.part)
        if not resume and self.part.exists():
            _remove_parts(self.part)
        make_own_folder(self.part)
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

    Attributes:
        folder: where the parts are.
        kept: rows that are there from before; `write` skips as many.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = Path(os.path.realpath(check_place(path)))
        folder = parts_of(self._path)
        if self._path.exists() and resume and not folder.exists():
            make_own_folder(folder)
            self._path.replace(folder / "part-00000.parquet")
        self._parts = _Parts(folder, resume=resume)
        self.folder, self.kept = folder, self._parts.kept

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
            for path in self._parts.folder.glob("part-*"):
                path.unlink()
            if not any(self._parts.folder.iterdir()):  # what somebody else put there stays
                self._parts.folder.rmdir()
