"""A report as one HTML page that needs nothing else: no network, no second file, light or dark as the reader
likes.

The order of calls is the order of the page, so a report reads like its argument: the verdict, then the
evidence, then how to reproduce it.

    page = Page("Bottleneck: book", "demo pipeline, 20 s of market data")
    page.verdict("The stage 'book' limits: it is busy 97 % of the time.", "bad")
    page.section("Queues", "How full each queue was.")
    page.table(["queue", "p99 fill"], [["feed → book", 1023]])
    page.figure(figures.steps({"feed → book": (t_s, fill)}, "s", "fill"), "Fill over time.")
    page.reproduce(recording.command, recording.environment, recording.seed)
    page.write("report.html")
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from latlab import __version__
from latlab import words as _text
from latlab.formats import documents
from latlab.model.machine.environment import Environment
from latlab.reports.assets.files import asset, chart_library

__all__ = ["Page"]

Tone = Literal["plain", "good", "warn", "bad"]


class Page:
    """A report. Every method takes plain text and escapes it; only `svg` takes markup, of our own making.

    Args:
        title: the question. Above it stands the answer: what the first verdict says, in a line.
        lead: what was measured, in one line.
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self._title, self._lead = title, lead
        self._finding = ""
        self._parts: list[str] = []
        self._sections: list[tuple[str, str]] = []
        self._has_figures = False

    def verdict(self, text: str, tone: Tone = "plain", *, link: str = "") -> None:
        """The answer, set apart: one sentence, or several separated by empty lines.

        Args:
            link: the anchor of the section that its numbers come from; "" for none.
        """
        if not self._finding:
            self._finding = _headline(text)
        self._parts.append(f'<div class="verdict {tone}">{_paragraphs(text, link)}</div>')

    def section(self, title: str, text: str = "", *, anchor: str = "") -> None:
        """A heading, which the page's index lists, and what it is about.

        Args:
            title: of the section.
            text: below it.
            anchor: that links lead to; by default a number.
        """
        anchor = anchor or f"s{len(self._sections) + 1}"
        self._sections.append((anchor, title))
        self._parts.append(f'<h2 id="{anchor}">{html.escape(title)}</h2>{_paragraphs(text)}')

    def paragraph(self, text: str, *, link: str = "") -> None:
        """Text; an empty line separates paragraphs. `link` is as in `verdict`."""
        self._parts.append(_paragraphs(text, link))

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        caption: str = "",
        *,
        links: Sequence[str] = (),
    ) -> None:
        """A table; columns of numbers are right-aligned, None is shown as "–".

        Args:
            columns: the headings.
            rows: one sequence per row.
            caption: below it.
            links: for each row the anchor of the section that its numbers come from, "" for none.

        Raises:
            ValueError: when a row is longer or shorter than the columns.
        """
        self._parts.append(
            f'<div class="card" tabindex="0">{_table(columns, rows, links)}{_caption(caption)}</div>'
        )

    def figure(self, figure: Any, caption: str = "", *, height: int = 360) -> None:
        """A figure: of `latlab.reports.sections.figures`, a dict of data and layout, or plotly's own object.

        Args:
            figure: what to draw: lines, bars, boxes, violins or heat maps.
            caption: what it shows, and what to see in it.
            height: in pixels.
        """
        plotted = figure.to_plotly_json() if hasattr(figure, "to_plotly_json") else figure
        drawn = {"data": plotted["data"], "layout": {"height": height, **plotted.get("layout", {})}}
        # plotly's own theme of ours stands in the page's script: its template would only repeat defaults.
        drawn["layout"].pop("template", None)
        source = documents.dumps(drawn, indent=None).replace("<", "\\u003c")
        self._has_figures = True
        told = html.escape(f"Figure: {caption or self._title}", quote=True)
        self._parts.append(
            f'<div class="card" tabindex="0"><div class="plot" role="img" aria-label="{told}" '
            f'style="height:{height}px"></div>'
            f'<script type="application/json" class="figure">{source}</script>{_caption(caption)}</div>'
        )

    def svg(self, markup: str, caption: str = "") -> None:
        """A drawing of our own, such as `latlab.reports.sections.topology.draw` makes; inserted as it is."""
        if "aria-label" not in markup:
            told = html.escape(f"Drawing: {caption or self._title}", quote=True)
            markup = markup.replace("<svg ", f'<svg aria-label="{told}" ', 1)
        self._parts.append(f'<div class="card" tabindex="0">{markup}{_caption(caption)}</div>')

    def details(self, summary: str, text: str) -> None:
        """Preformatted text that is folded away until somebody wants it."""
        self._parts.append(
            f"<details><summary>{html.escape(summary)}</summary><pre>{html.escape(text)}</pre></details>"
        )

    def reproduce(
        self,
        command: str | None,
        environment: Environment,
        seed: int | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        """The section "How to reproduce": command, seed, versions, parameters and environment."""
        self.section("How to reproduce")
        if command:
            self._parts.append(f"<pre>{html.escape(command)}</pre>")
        stated = [("seed", "none: nothing in this run was drawn by chance" if seed is None else str(seed))]
        stated.append(("latlab", str(environment.get("latlab.version", __version__))))
        stated.append(("revision", _revision(environment)))
        stated.append(("measured at", str(environment.get("captured_at", "unknown"))))
        stated.append(("machine", environment.summary()))
        stated.append(("jitter floor", environment.floor()))
        self._parts.append(f'<div class="card" tabindex="0">{_table(["", ""], stated)}</div>')
        if parameters:
            self.details("Parameters", documents.dumps(parameters, indent=2))
        environs = _table(["", ""], [(name, str(environment[name])) for name in environment])
        self._parts.append(
            f'<details><summary>Environment</summary><div class="card" tabindex="0">{environs}</div>'
            "</details>"
        )

    def html(self) -> str:
        """The whole page."""
        index = "".join(f'<a href="#{anchor}">{html.escape(title)}</a>' for anchor, title in self._sections)
        heading = html.escape(self._finding or self._title)
        question = f'<p class="question">{html.escape(self._title)}</p>' if self._finding else ""
        library = ""
        if self._has_figures:
            library = f'<script type="application/gzip" id="library">{chart_library()}</script>'
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{heading}</title><link rel='icon' href='data:,'>"
            f"<style>{asset('page.css')}</style><script>{asset('early.js')}</script></head><body><main>"
            f"<header>{question}<h1>{heading}</h1><p class='lead'>{html.escape(self._lead)}</p>"
            '<button id="theme" title="light or dark" aria-label="light or dark">◐</button>'
            f'<nav aria-label="sections">{index}</nav></header>{"".join(self._parts)}'
            f"<footer>Made by latlab {__version__}. This page is complete: it needs no network.</footer>"
            f"</main>{library}<script>{asset('figures.js')}</script></body></html>\n"
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, whole or not at all.

        Returns:
            Its path.
        """
        documents.write_text(path, self.html())
        return Path(path)


_LONGEST_HEADING = 120
_LONGEST_WORD = 18
_SENTENCE_END = re.compile(r"[.](?=\s|$)")


def _headline(text: str) -> str:
    """The first sentence of a verdict, or its first clause, where it fits a heading; else nothing."""
    first = _SENTENCE_END.split(text.strip().split("\n\n")[0], maxsplit=1)[0].strip()
    clauses = [first.split("; ")[0], first.split(": ")[0] if first.count(": ") > 1 else first]
    for candidate in (first, *clauses, first.split(", and ")[0]):
        if 0 < len(candidate) <= _LONGEST_HEADING:
            return candidate.replace("`", "")
    return ""


# A number with its unit; not the one in a name as book-0, nor in an escaped character as &#x27;.
_NUMBER = re.compile(r"(?<![\w&#.:/-])\d[\d,]*(?:\.\d+)?(?:\s?(?:%|ns|µs|ms|s|events/s)(?!\w))?")

# What a sentence puts between backticks for a terminal.
_NAME = re.compile(r"`([^`]+)`")


def _paragraphs(text: str, link: str = "") -> str:
    blocks = (html.escape(block.strip()) for block in text.split("\n\n"))
    blocks = (_NAME.sub(r"<code>\1</code>", block) for block in blocks)
    if link:
        blocks = (_NUMBER.sub(rf'<a href="#{html.escape(link)}">\g<0></a>', block) for block in blocks)
    return "".join(f"<p>{block}</p>" for block in blocks if block)


def _caption(text: str) -> str:
    return f'<p class="caption">{html.escape(text)}</p>' if text else ""


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]], links: Sequence[str] = ()) -> str:
    cells = _text.cells(columns, rows)
    right = _text.right_aligned(columns, rows)
    mark = [' class="n"' if is_right else "" for is_right in right]
    head = "".join(
        f"<th{m}>{html.escape(name)}</th>" if name else "<td></td>"
        for m, name in zip(mark, columns, strict=True)
    )
    anchors = links or [""] * len(cells)
    body = "".join(
        "<tr>"
        + "".join(f"<td{m or _whole(c)}>{_linked(c, a)}</td>" for m, c in zip(mark, row, strict=True))
        + "</tr>"
        for row, a in zip(cells, anchors, strict=True)
    )
    heading = f"<thead><tr>{head}</tr></thead>" if any(columns) else ""
    return f"<table>{heading}<tbody>{body}</tbody></table>"


def _whole(text: str) -> str:
    """A cell of words is not broken inside a word; one with a path may be."""
    return ' class="w"' if max(map(len, text.split()), default=0) <= _LONGEST_WORD else ""


def _linked(text: str, anchor: str) -> str:
    escaped = html.escape(text)
    return f'<a href="#{html.escape(anchor)}">{escaped}</a>' if anchor and text else escaped


def _revision(environment: Environment) -> str:
    revision = environment.get("git.revision")
    if revision is None:
        return "unknown"
    return f"{revision} (with uncommitted changes)" if environment.get("git.modified") else str(revision)
