"""The command lines and environments of the processes that measure."""

from __future__ import annotations

import marshal
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import latlab
from latlab.bench.results import google
from latlab.bench.results.targets import Target
from latlab.errors import LatlabError
from latlab.model.bench import Settings

__all__ = [
    "command",
    "compiled",
    "environment",
    "listing",
    "native",
    "native_runner",
    "python",
    "search_path",
]


def native_runner() -> str:
    """The program that measures shared objects and commands."""
    return str(Path(latlab.__file__).parent / "bin" / "latlab-bench")


def command(
    target: Target,
    settings: Settings,
    end: socket.socket | None,
    layout: int,
    copy: int | None = None,
    *,
    first: bool,
) -> list[str]:
    """What starts a measuring process.

    Args:
        target: what it measures.
        settings: how.
        end: of a socket to the other side of the pair.
        layout: as in `process`.
        copy: a file in memory that stands for the target's compiled file.
        first: whether it begins.
    """
    peer = -1 if end is None else end.fileno()
    file = None if copy is None else f"/proc/self/fd/{copy}"
    if target.kind == "google":
        return google.command(_path(target), str(target.fixture), settings.iterations, file)
    if target.kind != "python":
        placed = ["--layout", str(layout)] if layout and target.kind == "object" else []
        if target.kind == "command" and file is not None:
            placed += ["--fixture", file]
            file = None
        return [*native(target, file), *placed, *_options(target, settings, peer, first=first)]
    config = {
        "path": str(target.path),
        "list": False,
        "sys_path": search_path(target),
        "fixture": target.fixture,
        "parameters": dict(target.parameters),
        "iterations": settings.iterations,
        "warmup": settings.warmup,
        "batch": settings.batch,
        "cpu": -1 if settings.cpu is None else settings.cpu,
        "fifo": settings.priority,
        "lock": settings.lock_memory,
        "memory": settings.memory_limit_bytes,
        "layout": layout,
        "count": settings.count,
        "cold": settings.cold,
        "turns": (peer, first, settings.turn, settings.unmeasured),
    }
    return python(target, config)


def listing(target: Target) -> list[str]:
    """What lists the benchmarks of a program of Google Benchmark."""
    return [str(_path(target)), "--benchmark_list_tests=true"]


def _path(target: Target) -> Path:
    if target.path is None:
        raise LatlabError(f"{target.text}: it has no file")
    return target.path


def native(target: Target, file: str | None = None) -> list[str]:
    """The program that measures, and what it opens, where `file` stands for the target's own."""
    if target.kind == "object":
        return [native_runner(), "object", file or str(target.path)]
    return [native_runner(), "command"] if target.kind == "command" else [file or str(target.path)]


def compiled(target: Target) -> Path | None:
    """The file whose code is measured; None of Python's and of what isn't compiled."""
    if target.kind == "python":
        return None
    found = target.path
    if target.kind == "command":
        base = target.cwd or Path.cwd()
        name = shutil.which(str(base / target.command[0]) if "/" in target.command[0] else target.command[0])
        found = None if name is None else Path(name)
    if found is None:
        return None
    with open(found, "rb") as file:
        return found.resolve() if file.read(4) == b"\x7fELF" else None


def _options(target: Target, settings: Settings, peer: int, *, first: bool) -> list[str]:
    options = ["--iterations", str(settings.iterations), "--warmup", str(settings.warmup)]
    options += ["--fifo", str(settings.priority), "--cpu", str(-1 if settings.cpu is None else settings.cpu)]
    options += ["--memory", str(settings.memory_limit_bytes)]
    options += ["--count", str(settings.count)] if settings.count else []
    if target.kind == "command":  # what is locked isn't inherited by the command
        return [*options, "--", *target.command]
    options += ["--batch", str(settings.batch), "--lock", "1" if settings.lock_memory else "0"]
    options += ["--cold", "1"] if settings.cold else []
    if peer >= 0:
        options += ["--peer", str(peer), "--first", "1" if first else "0"]
        options += ["--turn", str(settings.turn), "--unmeasured", str(settings.unmeasured)]
    for name, value in target.parameters.items():
        options += ["--param", f"{name}={value}"]
    return [*options, "--fixture", str(target.fixture)]


def search_path(target: Target) -> list[str]:
    """Where a process of latlab's own interpreter looks for modules."""
    return [*target.search, *(p for p in sys.path if p)]


def python(target: Target, config: dict[str, Any]) -> list[str]:
    """What starts `child` with its configuration."""
    script = str(Path(__file__).with_name("child.py"))
    if target.interpreter is not None:  # it finds its own modules, and reads version 4 whatever its age
        config = {**config, "sys_path": None, "search": list(target.search)}
        return [target.interpreter, script, marshal.dumps(config, 4).hex()]
    # Without `site` the interpreter starts in half the time, and its work (the search path) is handed over.
    # Import hooks, which editable installations use, can't be: with any of them `site` has to run again.
    # A worktree's modules must not be found by the hook of an installed checkout of the same project.
    plain = bool(target.search) or all(
        getattr(f, "__module__", "").startswith(("importlib", "_frozen")) for f in sys.meta_path
    )
    return [sys.executable, *(["-S"] if plain else []), script, marshal.dumps(config).hex()]


def environment(layout: int, target: Target, *, counting: bool = False) -> dict[str, str] | None:
    """The variables of a process: the stack begins behind them, so that their length draws where."""
    if target.kind == "command" and target.search:
        before = os.environ.get("PYTHONPATH")
        return {**os.environ, "PYTHONPATH": os.pathsep.join([*target.search, *([before] if before else [])])}
    if counting and target.kind in ("object", "program"):
        before = os.environ.get("LD_PRELOAD")
        library = str(Path(native_runner()).with_name("liblatlab-allocations.so"))
        return {**os.environ, "LD_PRELOAD": ":".join([library, *([before] if before else [])])}
    if not layout:
        return None
    hashed = {} if "PYTHONHASHSEED" in os.environ else {"PYTHONHASHSEED": str(layout)}
    return {**os.environ, **hashed, "LATLAB_LAYOUT": "x" * (1 + (layout >> 12) % 4096)}
