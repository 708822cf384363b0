"""Results that a notebook can show: a line, a table, a picture, and the frames of other libraries.

A result says its finding (`finding`) and its rows (`columns`); everything else follows from the two.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latlab.words import number, plural

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = ["Framed", "Picture"]

_WIDTH, _ROW, _NAME = 720, 26, 240
_DRAWN = 40  # rows of a picture: more are a table


@dataclass(frozen=True)
class Picture:
    """A drawing, as SVG: a notebook shows it, and `save` writes it."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<a picture, {plural(len(self.svg), 'byte')} of SVG; save(path) writes it>"

    def save(self, path: str | Path) -> Path:
        """Write the drawing into a file, and return its path."""
        Path(path).write_text(self.svg, encoding="utf-8")
        return Path(path)


class Framed:
    """What a result does that has a finding and rows."""

    @property
    def finding(self) -> str:
        """The result in a sentence."""
        raise NotImplementedError

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """The rows, by column; the first column names them."""
        raise NotImplementedError

    def _bars(self) -> str:
        """The column that a picture draws."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self.finding}>"

    def _repr_html_(self) -> str:
        columns = self.columns()
        names = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_cell(cell))}</td>" for cell in row) + "</tr>"
            for row in zip(*columns.values(), strict=True)
        )
        table = f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>" if body else ""
        return f"<p><b>{html.escape(self.finding)}</b></p>{table}"

    def to_pandas(self) -> pd.DataFrame:
        """A pandas data frame (`pip install 'latlab[frames]'`)."""
        import pandas as pd

        return pd.DataFrame(dict(self.columns()))

    def to_polars(self) -> pl.DataFrame:
        """A polars data frame (`pip install 'latlab[frames]'`)."""
        import polars as pl

        return pl.DataFrame(dict(self.columns()))

    def to_arrow(self) -> pa.Table:
        """An Arrow table (`pip install 'latlab[market]'`)."""
        import pyarrow as pa

        return pa.table({name: list(values) for name, values in self.columns().items()})

    def plot(self) -> Picture:
        """The rows as bars; needs no other library."""
        columns = self.columns()
        names = [str(name) for name in next(iter(columns.values()))][:_DRAWN]
        values = [float(value or 0.0) for value in columns[self._bars()]][:_DRAWN]
        most = max((abs(value) for value in values), default=0.0) or 1.0
        room = _WIDTH - _NAME - 90
        parts = []
        for row, (name, value) in enumerate(zip(names, values, strict=True)):
            y = 44 + row * _ROW
            long = max(1.0, abs(value) / most * room)
            shown = name if len(name) <= 34 else name[:33] + "…"
            parts.append(
                f'<text x="{_NAME - 8}" y="{y + 15}" text-anchor="end">{html.escape(shown)}</text>'
                f'<rect x="{_NAME}" y="{y}" width="{long:.1f}" height="{_ROW - 6}" fill="#0072b2"/>'
                f'<text x="{_NAME + long + 6:.1f}" y="{y + 15}">{html.escape(_cell(value))}</text>'
            )
        head = f'<text x="0" y="20" font-weight="bold">{html.escape(self._bars())}</text>'
        height = 54 + len(names) * _ROW
        return Picture(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'height="{height}" role="img" font-family="sans-serif" font-size="13">'
            f"<title>{html.escape(self.finding)}</title>{head}{''.join(parts)}</svg>"
        )


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return number(value)
    return str(value)
