"""Rows that come by the time that passes and not by the bytes, in tables of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from latlab.errors import InputError
from latlab.market.files.open import Piece

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1 << 18
_LEAST_STEP, _MOST_STEP = 1 << 10, 1 << 18


class ReadStep:
    """How many bytes to read at once, so that they make about `_ROWS` rows."""

    def __init__(self) -> None:
        self.size = _LEAST_STEP

    def fit(self, rows: int) -> None:
        """By the rows that what was read last made."""
        wanted = self.size * _ROWS // max(rows, 1)
        self.size = max(_LEAST_STEP, min(wanted, 2 * self.size, _MOST_STEP))


def in_parts(pieces: Iterator[Piece], step: ReadStep) -> Iterator[Piece]:
    """Pieces in parts of the size that the rows so far ask for."""
    for piece in pieces:
        at = 0
        while at < len(piece):
            size = step.size
            yield piece[at : at + size]
            at += size


def gathered(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of `_ROWS` at least, but the last."""
    import pyarrow as pa

    held: list[pa.Table] = []
    rows = 0
    try:
        for table in tables:
            held.append(table)
            rows += table.num_rows
            if rows >= _ROWS:
                yield pa.concat_tables(held)
                held, rows = [], 0
    except InputError:
        if held:
            yield pa.concat_tables(held)
        raise
    if held:
        yield pa.concat_tables(held)
