"""Which components a Python program has, before anything is measured and without running its code."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from latlab.errors import InputError

__all__ = ["component_at", "require_component"]

_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

_PYTHON = re.compile(r"(python|pypy)[\d.]*$")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_PROBE_S = 20.0
# What makes names that no text shows, and what changes where modules are found.
_DYNAMIC = re.compile(r"import \*|__getattr__|globals\(|setattr\(|exec\(|sys\.modules")
_MOVES = re.compile(r"sys\.path|__path__|sys\.modules|meta_path|chdir|addsitedir")
# A parent is looked up as a module is, which runs nothing of it; its children where its package says.
_PROBE = """
import importlib.machinery, importlib.util, sys
first, name = sys.argv[1:]
if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    sys.path[0] = first
parts = name.split(".")
spec = importlib.util.find_spec(parts[0])
for n in range(2, len(parts) + 1):
    if spec is None or not spec.submodule_search_locations:
        break
    where = spec.submodule_search_locations
    spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:n]), where)
print("" if spec is None else spec.origin or "?")
"""


class _Started(NamedTuple):
    """How a command starts Python.

    Attributes:
        first: the folder that stands first on its path.
        text: of the program, as far as it is known.
        script: its file; "" where it is none.
    """

    interpreter: str
    flags: tuple[str, ...]
    first: str
    text: str
    script: str = ""


def require_component(
    component: str, command: Sequence[str], source: str | os.PathLike[str], place: str
) -> None:
    """Refuse a component that a command can't have, as far as that can be known.

    It can't where the command starts something other than Python, where the component goes by a name that
    was given to the decorator, and where the program finds its modules or makes its names by itself.

    Args:
        component: ``module:function`` or ``module:Class.method``.
        source: the file that names it.
        place: its key there.

    Raises:
        InputError: there is no such module, or nothing of that name in it.
    """
    module, _, name = component.partition(":")
    started = _started(command)
    known = re.fullmatch(r"\w+(\.\w+)*", module) is not None and module != "__main__"
    if started is None or not known or not name or component in started.text:
        return
    origin = _origin(started, module)
    if origin == "" and module.rpartition(".")[2] == Path(started.script).stem:
        origin = started.script  # of the script itself, whatever package its folder is
    remedy = "name what the stage calls as module:function or module:Class.method, as the program imports it"
    if origin == "" and _MOVES.search(started.text) is None:
        what = f"there is no module {module!r} where {' '.join(command)!r} looks for modules"
        raise InputError(source, what, place=place, remedy=remedy)
    if not origin or not origin.endswith(".py") or not Path(origin).is_file():
        return
    text = Path(origin).read_text(encoding="utf-8", errors="replace")
    first = name.partition(".")[0]
    if re.search(rf"\b{re.escape(first)}\b", text) is None and _DYNAMIC.search(text) is None:
        raise InputError(source, f"there is no {first!r} in {origin}", place=place, remedy=remedy)


def component_at(file: str, line: int) -> str:
    """The function of Python around a line, as a component is named: ``module:Class.method``.

    "" where a stub can't stand in for it from outside: it has no name of its module, or returns before its
    work is done, as generators and coroutines do.
    """
    path = Path(file)
    try:
        node: ast.AST = ast.parse(path.read_bytes()) if path.suffix == ".py" else ast.Module([], [])
    except (OSError, SyntaxError, ValueError):
        return ""
    names = []
    while (inner := _around(node, line)) is not None and not isinstance(node, ast.FunctionDef):
        node = inner
        names.append(inner.name)
    if not isinstance(node, ast.FunctionDef) or inner is not None:
        return ""
    nested = [one for one in ast.walk(node) if one is not node and isinstance(one, (*_NAMED, ast.Lambda))]
    own = set(ast.walk(node)).difference(*map(ast.walk, nested))
    if any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in own):
        return ""
    module = [] if path.stem == "__init__" else [path.stem]
    while module != ["__main__"] and (path.parent / "__init__.py").exists():
        path = path.parent
        module.insert(0, path.name)
    return f"{'.'.join(module)}:{'.'.join(names)}"


def _around(node: ast.AST, line: int) -> _Named | None:
    """The outermost function or class within a node that a line is in."""
    for one in ast.walk(node):  # by depth
        if one is not node and isinstance(one, _NAMED) and one.lineno <= line <= (one.end_lineno or 0):
            return one
    return None


def _started(command: Sequence[str]) -> _Started | None:
    """How the command starts Python; None where it starts something else, or nothing that is known."""
    interpreter = shutil.which(command[0]) if command else None
    if interpreter is None or not _PYTHON.match(Path(command[0]).name):
        return None
    words, flags = list(command[1:]), []
    while words and words[0].startswith("-") and words[0] not in ("-", "-m", "-c"):
        flags += [words.pop(0) for _ in range(2 if words[0] in _WITH_VALUE else 1) if words]
    if len(words) >= 2 and words[0] in ("-m", "-c"):
        return _Started(interpreter, tuple(flags), str(Path.cwd()), words[1] if words[0] == "-c" else "")
    if not words or not Path(words[0]).is_file():
        return None
    script = Path(words[0]).resolve()
    text = script.read_text(encoding="utf-8", errors="replace")
    return _Started(interpreter, tuple(flags), str(script.parent), text, str(script))


def _origin(started: _Started, module: str) -> str | None:
    """The module's file; "" where there is none, "?" where it has no file, None where nobody can say."""
    command = [started.interpreter, *started.flags, "-c", _PROBE, started.first, module]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_PROBE_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
