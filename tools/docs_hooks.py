"""What the documentation site needs beside its pages: the command line's tables without a placeholder."""

from __future__ import annotations

from typing import Any

_PLACEHOLDERS = ("`Sentinel.UNSET`", "<code>Sentinel.UNSET</code>")


def on_page_content(html: str, **_: Any) -> str:
    """An option without a default has a dash there: click's own marker for it is no text for readers."""
    for placeholder in _PLACEHOLDERS:
        html = html.replace(placeholder, "–")
    return html
