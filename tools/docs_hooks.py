"""What the documentation site needs beside its pages: notebooks as pages, tables without placeholders."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

_PLACEHOLDERS = ("`Sentinel.UNSET`", "<code>Sentinel.UNSET</code>")


def on_files(files: Any, config: Any) -> Any:
    """A notebook becomes a page: its text, its cells, and what they showed."""
    from mkdocs.structure.files import File

    for one in [one for one in files if one.src_uri.endswith(".ipynb")]:
        files.remove(one)
        text = page_of(json.loads(Path(one.abs_src_path).read_text(encoding="utf-8")))
        files.append(File.generated(config, one.src_uri.removesuffix(".ipynb") + ".md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A link to a notebook leads to its page."""
    return re.sub(r"\((\S+)\.ipynb\)", r"(\1.md)", markdown)


def page_of(notebook: dict[str, Any]) -> str:
    """A notebook as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            drawn = data.get("image/svg+xml") or data.get("text/html")
            plain = output.get("text") or data.get("text/plain", "")
            parts.append(f"<div>{drawn}</div>" if drawn else f"```text\n{plain}\n```")
    return "\n\n".join(parts) + "\n"


def on_page_content(html: str, **_: Any) -> str:
    """An option without a default has a dash there: click's own marker for it is no text for readers."""
    for placeholder in _PLACEHOLDERS:
        html = html.replace(placeholder, "–")
    return html
