"""Starts the processes that measure, and turns what becomes of them into samples or one-line errors."""

from __future__ import annotations

import json
import marshal
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import latlab
from latlab.bench._targets import Target
from latlab.errors import LatlabError, NotTrustworthyError, UsageError
from latlab.model.bench import Sample, Settings

__all__ = ["fixtures", "measure_once", "native_runner"]

_THREW, _UNEVEN, _AFFINITY, _MEMORY, _MISSING, _COMMAND = 10, 11, 12, 13, 14, 16


def native_runner() -> str:
    """The program that measures shared objects and commands."""
    return str(Path(latlab.__file__).parent / "bin" / "latlab-bench")


def fixtures(
    target: Target, *, timeout_s: float = 60.0
) -> tuple[dict[str, dict[str, list[Any]]], dict[str, str]]:
    """(fixtures of the target's file with their parameters, the user's words for the report).

    Raises:
        LatlabError: the file can't be loaded.
    """
    if target.kind == "command":
        return {}, {}
    if target.kind == "python":
        config = {"path": str(target.path), "list": True, "sys_path": _search_path()}
        found = marshal.loads(_run(target, _python(config), timeout_s))
        return found["fixtures"], {k: str(v) for k, v in found["report"].items()}
    document = json.loads(_run(target, [*_native(target), "--list", "1"], timeout_s))
    return {name: {} for name in reversed(document["fixtures"])}, {}


def measure_once(target: Target, settings: Settings) -> Sample:
    """Measure one side in one fresh process.

    Raises:
        NotTrustworthyError: the fixture changed its affinity, or its counts differ.
        LatlabError: it threw, hung, took too much memory, or isn't there.
    """
    begin = time.perf_counter()
    if target.kind == "python":
        config = {
            "path": str(target.path),
            "list": False,
            "sys_path": _search_path(),
            "fixture": target.fixture,
            "parameters": dict(target.parameters),
            "iterations": settings.iterations,
            "warmup": settings.warmup,
            "batch": settings.batch,
            "cpu": -1 if settings.cpu is None else settings.cpu,
            "fifo": settings.priority,
            "lock": settings.lock_memory,
            "memory": settings.memory_limit_bytes,
        }
        measured, done = marshal.loads(_run(target, _python(config), settings.timeout_s))
        raw, batch, operations, hz, quantum, read = measured
    else:
        output = _run(target, [*_native(target), *_options(target, settings)], settings.timeout_s)
        head, _, raw = output.partition(b"\n")
        try:
            done = json.loads(head)
            batch, operations, hz = done["batch"], done["operations"], done["hz"]
            quantum, read = done["quantum_ticks"], done["read_ticks"]
        except (ValueError, KeyError):
            raise LatlabError(f"{target.text}: the measuring process wrote no result") from None
    ticks = np.frombuffer(raw, dtype="<u8")
    if len(ticks) != settings.iterations or hz <= 0:
        raise LatlabError(f"{target.text}: {len(ticks)} of {settings.iterations} iterations came back")
    return Sample(
        times_ns=ticks * (1e9 / hz / batch / operations),
        batch=batch,
        operations=operations,
        quantum_ns=quantum * 1e9 / hz,
        read_ns=read * 1e9 / hz,
        process_s=time.perf_counter() - begin,
        context=tuple(key for key in ("pinned", "fifo", "locked") if done[key]),
    )


def _native(target: Target) -> list[str]:
    if target.kind == "object":
        return [native_runner(), "object", str(target.path)]
    return [native_runner(), "command"] if target.kind == "command" else [str(target.path)]


def _options(target: Target, settings: Settings) -> list[str]:
    options = ["--iterations", str(settings.iterations), "--warmup", str(settings.warmup)]
    options += ["--fifo", str(settings.priority), "--cpu", str(-1 if settings.cpu is None else settings.cpu)]
    options += ["--memory", str(settings.memory_limit_bytes)]
    if target.kind == "command":  # what is locked isn't inherited by the command
        return [*options, "--", *target.command]
    options += ["--batch", str(settings.batch), "--lock", "1" if settings.lock_memory else "0"]
    for name, value in target.parameters.items():
        options += ["--param", f"{name}={value}"]
    return [*options, "--fixture", str(target.fixture)]


def _search_path() -> list[str]:
    return [p for p in sys.path if p]


def _python(config: dict[str, Any]) -> list[str]:
    # Without `site` the interpreter starts in half the time, and its work (the search path) is handed over.
    # Import hooks, which editable installations use, can't be: with any of them `site` has to run again.
    plain = all(getattr(f, "__module__", "").startswith(("importlib", "_frozen")) for f in sys.meta_path)
    script = str(Path(__file__).with_name("_child.py"))
    return [sys.executable, *(["-S"] if plain else []), script, marshal.dumps(config).hex()]


def _run(target: Target, command: Sequence[str], timeout_s: float) -> bytes:
    # A session of its own, so that what a hanging fixture has started ends with it.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise LatlabError(
            f"{target.text}: one process has not ended within {timeout_s:g} s",
            remedy="give it fewer iterations or more time by --timeout",
        ) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode == 0:
        return output
    lines = errors.decode(errors="replace").strip().splitlines()
    raise _error(target, process.returncode, lines[-1] if lines else "it said nothing")


def _error(target: Target, code: int, said: str) -> LatlabError:
    name = target.text if target.fixture is None or ":" in target.text else f"{target.text}:{target.fixture}"
    if code == _THREW:
        return LatlabError(f"{name}: it threw: {said}")
    if code == _UNEVEN:
        return NotTrustworthyError(f"{name}: {said}", remedy="let every run() do the same operations")
    if code == _AFFINITY:
        return NotTrustworthyError(f"{name}: {said}", remedy="leave the processor to --cpus")
    if code == _MEMORY:
        return LatlabError(f"{name}: {said}", remedy="mend the fixture or raise --memory")
    if code == _MISSING:
        return UsageError(f"{name}: {said}")
    if code == _COMMAND:
        return LatlabError(f"{name}: {said}")
    ended = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    return LatlabError(f"{name}: the measuring process {ended}: {said}")
