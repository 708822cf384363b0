"""Whether a Python component exists, before anything is measured and without running the program's code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from latlab.errors import InputError

__all__ = ["require_component"]

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
    """

    interpreter: str
    flags: tuple[str, ...]
    first: str
    text: str


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
    return _Started(interpreter, tuple(flags), str(script.parent), text)


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
