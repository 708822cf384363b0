"""Folders of fixtures: asv's, and other folders of Python files."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterator
from pathlib import Path

from latlab.errors import InputError

__all__ = ["is_wanted", "may_hold", "modules", "remedy"]

_FUNCTION = re.compile(rb"^def ([^\W_]\w*)\(\)", re.MULTILINE)  # one that can be called as it is
_CONFIGURATIONS = ("asv.conf.json", "asv.conf.jsonc")


def modules(folder: Path) -> list[tuple[str, Path]]:
    """(dotted name, file) of every module that may hold fixtures; asv's settings say where they are.

    Raises:
        InputError: asv's settings can't be read.
    """
    top = folder
    for name in _CONFIGURATIONS:
        if (folder / name).is_file():
            top = folder / _benchmark_dir(folder / name)
    return [(".".join(path.relative_to(top).with_suffix("").parts), path) for path in sorted(_files(top))]


def _files(folder: Path) -> Iterator[Path]:
    yield from (path for path in folder.glob("*.py") if path.name != "__init__.py")
    for below in folder.iterdir():
        if (below / "__init__.py").is_file():
            yield from _files(below)


def _benchmark_dir(path: Path) -> str:
    """The folder that asv's settings name; they are JSON with comments and commas too many."""
    text = re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', r"\1", path.read_text(), flags=re.DOTALL)
    try:
        found = json.loads(re.sub(r",(\s*[}\]])", r"\1", text)).get("benchmark_dir", "benchmarks")
    except (ValueError, AttributeError):
        raise InputError(path, "is not asv's JSON", remedy="name the folder of its benchmarks") from None
    return str(found)


def is_wanted(name: str, pattern: str | None) -> bool:
    """Whether a pattern of the command line means a name: all of it, its first parts, or with * and ?."""
    if pattern is None:
        return True
    return name == pattern or name.startswith(f"{pattern}.") or fnmatch.fnmatchcase(name, pattern)


def may_hold(module: str, pattern: str | None) -> bool:
    """Whether a module may hold what a pattern means, which is worth to load it."""
    if pattern is None or is_wanted(module, pattern):
        return True
    return any(sign in pattern for sign in "*?[") or f"{pattern}.".startswith(f"{module}.")


def remedy(path: Path | None, text: str) -> str:
    """What to do where nothing was found: tests are measured by pytest."""
    files = [] if path is None else [*path.glob("**/test_*.py")] if path.is_dir() else [path]
    if any(re.search(rb"def test_\w+\([^)]*\bbenchmark", file.read_bytes()) for file in files):
        return f"these are pytest's tests: pytest --latlab {text}"
    own = [] if path is None or path.suffix != ".py" else _FUNCTION.findall(path.read_bytes())
    named = f", as {text}:{own[0].decode()}" if own and ":" not in text else ""
    return f"write a class with a method run(), or name a function{named}"
