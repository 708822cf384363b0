"""Reads the style sheets and scripts that lie beside it."""

from __future__ import annotations

import base64
from functools import cache
from importlib import resources

__all__ = ["asset", "chart_library"]


@cache
def asset(name: str) -> str:
    """The text of a file.

    "page.css" is the look of every page; "early.js" runs before a page is drawn, so that it is never seen in
    the wrong colours; "figures.js" draws its figures in the reader's light or dark.
    """
    return (resources.files("latlab.reports.assets") / name).read_text(encoding="utf-8")


@cache
def chart_library() -> str:
    """plotly.js 4.1.1, the bundle of Cartesian charts (MIT, licenses/plotly.js.txt), packed, as base64.

    Bundled, so that every report has its figures: 0.7 MB of a page, where all of plotly.js would be 1.9 MB
    packed, from a package of its own.
    """
    packed = resources.files("latlab.reports.assets") / "plotly-cartesian.min.js.gz"
    return base64.b64encode(packed.read_bytes()).decode("ascii")
