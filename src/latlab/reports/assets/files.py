"""Reads the style sheets and scripts that lie beside it."""

from __future__ import annotations

from functools import cache
from importlib import resources

__all__ = ["asset"]


@cache
def asset(name: str) -> str:
    """The text of a file.

    "page.css" is the look of every page; "early.js" runs before a page is drawn, so that it is never seen in
    the wrong colours; "figures.js" draws its figures in the reader's light or dark.
    """
    return (resources.files("latlab.reports.assets") / name).read_text(encoding="utf-8")
