"""A report as Markdown with its pictures beside it: the calls of `latlab.reports.html.Page`.

Of the figures boxplots are drawn, as SVG of fixed size; what else a page has to show needs the HTML page.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from latlab import words as _text
from latlab.formats.documents import write_text
from latlab.model.machine.environment import Environment

__all__ = ["MarkdownPage", "box_svg"]


class MarkdownPage:
    """A report in Markdown; see `latlab.reports.html.Page` for what each call means."""

    def __init__(self, title: str, lead: str = "") -> None:
        self._parts = [f"# {title}", lead] if lead else [f"# {title}"]
        self._pictures: list[tuple[str, str]] = []

    def verdict(self, text: str, _tone: str = "plain") -> None:
        """The answer, set apart."""
        self._parts.append("\n".join(f"> {line}".rstrip() for line in text.splitlines()))

    def section(self, title: str, text: str = "") -> None:
        """A heading and what it is about."""
        self._parts += [f"## {title}", text] if text else [f"## {title}"]

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], caption: str = "") -> None:
        """A table."""
        right = _text.right_aligned(columns, rows)
        lines = [_row(columns), _row(["---:" if is_right else "---" for is_right in right])]
        lines += [_row(cells) for cells in _text.cells(columns, rows)]
        self._parts += ["\n".join(lines), caption] if caption else ["\n".join(lines)]

    def figure(self, figure: Mapping[str, Any], caption: str = "") -> None:
        """A figure of boxplots becomes a picture; another is left to the HTML page."""
        if not all(trace["type"] == "box" and "median" in trace for trace in figure["data"]):
            return
        self._pictures.append((caption, box_svg(figure)))
        self._parts.append(f"\0{len(self._pictures) - 1}")

    def reproduce(
        self, command: str | None, environment: Environment, seed: int | None, parameters: Mapping[str, Any]
    ) -> None:
        """Command, seed, versions and machine."""
        self._parts.append(f"```text\n{command}\n```")
        stated = [("seed", str(seed)), ("measured at", str(environment.get("captured_at", "unknown")))]
        stated += [("machine", environment.summary())]
        keys = ("latlab.version", "compiler", "python.version", "numpy", "kernel.release", "cpu.model",
                "host.hypervisor", "clock.source", "load.1min")  # fmt: skip
        stated += [(key, str(environment[key])) for key in keys if environment.get(key) is not None]
        stated += [(str(k), str(v)) for k, v in parameters.items() if v is not None and k != "seed"]
        self.table(("fact", "value"), stated)

    def markdown(self, stem: str) -> str:
        """The page, whose pictures are called STEM-1.svg and so on."""
        parts = [
            f"![{self._pictures[int(p[1:])][0]}]({stem}-{int(p[1:]) + 1}.svg)" if p.startswith("\0") else p
            for p in self._parts
        ]
        return "\n\n".join(parts) + "\n"

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page and its pictures beside it; returns where it lies."""
        target = Path(path)
        for index, (_, svg) in enumerate(self._pictures, 1):
            write_text(target.with_name(f"{target.stem}-{index}.svg"), svg)
        write_text(target, self.markdown(target.stem))
        return target


def box_svg(figure: Mapping[str, Any]) -> str:
    """Boxplots of `sections.figures.boxes` as a drawing: quartiles, whiskers, extremes; one scale.

    The scale reaches from the least whisker to the greatest with a tenth on either side; an extreme beyond is
    written beside its box instead of drawn.
    """
    traces = figure["data"]
    low = min(float(t["lowerfence"][0]) for t in traces)
    high = max(float(t["upperfence"][0]) for t in traces)
    room = 0.1 * (high - low) or 0.1 * abs(high) or 1.0
    low, high = max(low - room, 0.0) if low >= 0 else low - room, high + room
    left, width, row = 220, 460, 34
    axis = 30 + row * len(traces)

    def x(value: float) -> float:
        return left + width * (min(max(value, low), high) - low) / (high - low)

    title = figure.get("layout", {}).get("yaxis", {}).get("title", {}).get("text", "")
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 170}" height="{axis + 50}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for step in range(6):
        value = low + (high - low) * step / 5
        out.append(f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="20" y2="{axis}" stroke="#ddd"/>')
        out.append(f'<text x="{x(value):.1f}" y="{axis + 16}" text-anchor="middle">{value:.4g}</text>')
    out.append(f'<text x="{left + width / 2}" y="{axis + 36}" text-anchor="middle">{escape(title)}</text>')
    for index, t in enumerate(traces):
        y = 40 + row * index
        first, middle, third, fence, upper = (
            float(t[key][0]) for key in ("q1", "median", "q3", "lowerfence", "upperfence")
        )
        out.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(str(t["name"]))}</text>')
        out.append(f'<line x1="{x(fence):.1f}" x2="{x(upper):.1f}" y1="{y}" y2="{y}" stroke="#345"/>')
        out.append(
            f'<rect x="{x(first):.1f}" y="{y - 9}" width="{max(x(third) - x(first), 1):.1f}" height="18" '
            'fill="#9cf" stroke="#345"/>'
        )
        out.append(
            f'<line x1="{x(middle):.1f}" x2="{x(middle):.1f}" y1="{y - 9}" y2="{y + 9}" stroke="#c33" '
            'stroke-width="2"/>'
        )
        out.append(
            f'<text x="{left + width + 8}" y="{y + 4}">p50 {middle:.4g}, max {max(t["y"][0]):.4g}</text>'
        )
    return "\n".join([*out, "</svg>"]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
