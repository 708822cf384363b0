"""Runs a notebook's cells one after the other, in this process, and keeps what each shows.

Usage: notebook.py NOTEBOOK.ipynb   (writes the outputs into it)

A cell's last expression is shown as Jupyter shows it: by `_repr_svg_`, `_repr_html_` or its repr.
No Jupyter is needed.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def shown(value: object) -> dict[str, str]:
    """What a notebook keeps of a value, by the kind of text."""
    found = {"text/plain": repr(value)}
    for name, kind in (("_repr_html_", "text/html"), ("_repr_svg_", "image/svg+xml")):
        if (draw := getattr(value, name, None)) is not None:
            found[kind] = str(draw())
    return found


def run_cell(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """The outputs of one cell."""
    tree = ast.parse(source, f"cell {number}")
    last = (
        ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    )
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if last is not None:
            value = eval(compile(last, f"cell {number}", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue()})
    if value is not None:
        result = {"data": shown(value), "execution_count": number, "metadata": {}}
        outputs.append({"output_type": "execute_result", **result})
    return outputs


def run(notebook: dict[str, Any]) -> None:
    """Runs all cells in the present folder; the outputs are put into the notebook."""
    names: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            cell["execution_count"] = number
            cell["outputs"] = run_cell("".join(cell["source"]), names, number)


if __name__ == "__main__":
    path = Path(sys.argv[1]).resolve()
    document = json.loads(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        run(document)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
