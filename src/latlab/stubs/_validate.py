"""Is a component deterministic, and does the system pass its own test with the component's stub?"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from latlab.errors import LatlabError, UsageError
from latlab.stubs import _plan, _study, _trace


def _run(name: str, command: list[str], folder: Path, mode: str) -> subprocess.CompletedProcess[bytes]:
    if shutil.which(command[0]) is None:
        raise UsageError(f"there is no command '{command[0]}'")
    lab = _study._Lab(command, _study.StudyPlan(component=name), folder)
    entry = _plan.Entry(mode, name, str(lab.state))
    (folder / "plan").write_text(_plan.text([entry]), encoding="utf-8")
    return subprocess.run(command, env=lab.environment, capture_output=True, check=False)


def _recorded(name: str, command: list[str], folder: Path) -> list[_trace.Definition]:
    done = _run(name, command, folder, "record")
    path = folder / "state.trace"
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise LatlabError(f"the command failed with exit code {done.returncode} while recording: {last[0]}")
    definitions = _trace.read(path) if path.exists() else []
    if not any(definition.name == name for definition in definitions):
        raise UsageError(
            f"'{name}' is never called by the command",
            remedy="is its module imported so? A function of the script itself needs the decorator",
        )
    return definitions


def record(name: str, command: list[str], output: str | Path) -> int:
    """Record a component while a command runs; the number of results.

    Raises:
        LatlabError: the command fails, or a result can't be serialised.
        UsageError: the component is never called.
    """
    with tempfile.TemporaryDirectory() as folder:
        definitions = _recorded(name, command, Path(folder))
        shutil.copyfile(Path(folder) / "state.trace", output)
    return sum(len(one.values) for one in definitions if one.name == name)


def validate(name: str, command: list[str]) -> dict[str, Any]:
    """Record twice, compare, and run the command with the stub."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        a = _recorded(name, command, Path(first))
        b = _recorded(name, command, Path(second))
        difference = _difference(name, a, b)
        result: dict[str, Any] = {"schema": 1, "component": name, "deterministic": difference is None}
        if difference is not None:
            return {**result, "valid": False, "verdict": f"{name} is not deterministic: {difference}"}
        done = _run(name, command, Path(first), "flat")
    valid = done.returncode == 0
    verdict = f"{name}: two recordings are the same, and the command passes with the stub"
    if not valid:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        verdict = f"{name}: the command fails with the stub (exit code {done.returncode}): {last[0]}"
    return {**result, "valid": valid, "verdict": verdict}


def _difference(name: str, a: list[_trace.Definition], b: list[_trace.Definition]) -> str | None:
    one, other = (next(d for d in each if d.name == name) for each in (a, b))
    if len(one.values) != len(other.values):
        return f"{len(one.values)} calls, then {len(other.values)}"
    ordered = [sorted(each.values, key=lambda v: (v.thread, v.run)) for each in (one, other)]
    for first, second in zip(*ordered, strict=True):
        if first.data != second.data:
            return f"the results of run {first.run} of thread {first.thread} differ"
    return None
