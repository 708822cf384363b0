"""Starts a Python program so that its queues are counted, without a changed line of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from latlab._core import counting

__all__ = ["injected"]

_FOLDER = Path(__file__).parents[1] / "_inject"


def injected(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The environment with which any Python program below counts its queues.

    What runs in the program is `_inject/`: standard library alone, for any CPython from 3.8 on. Programs of
    other kinds don't notice; one that ignores the environment (python -I, -E) isn't counted.

    Args:
        environment: that the program would have had; LATLAB_COUNTERS names where counter files are made.
        folder: for the layout that the program's side reads.
    """
    layout = folder / "layout"
    layout.write_text("".join(f"{name} {value}\n" for name, value in counting.layout().items()))
    path = [str(_FOLDER), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(path), "LATLAB_INJECT": str(layout)}
