"""Records and replays a component of a program from outside: its code isn't touched."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from latlab.errors import LatlabError, UsageError
from latlab.stubs.components import plan as _plan
from latlab.stubs.components import trace as _trace
from latlab.stubs.studies import runner as _lab
from latlab.stubs.studies.question import StudyPlan

#: What to do where a stub lets a change of state go.
STATE = 'what a call changes is kept where it is named: @component(mutates=("self",)), or any other argument'
_SHOWN = 60  # characters of a line that differs


def run(lab: _lab.Lab, mode: str) -> subprocess.CompletedProcess[bytes]:
    """One run of the command, with what it says kept."""
    lab.prepare(mode, 1.0, 0)
    return subprocess.run(
        lab.command, env=lab.environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )


def output_differs(lab: _lab.Lab, stub: subprocess.CompletedProcess[bytes]) -> str | None:
    """What the command says with the stub and does not say without; None where it is the same.

    It is run twice as it is: of what differs from run to run by itself, such as times, nothing can be told.

    Args:
        stub: the run with the stub, at full time.
    """
    first, second = (
        subprocess.run(lab.command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        for _ in range(2)
    )
    if first.returncode != second.returncode:
        return None
    if first.returncode != stub.returncode:
        return f"it ends with {stub.returncode} and not with {first.returncode}"
    lines = [done.stdout.decode(errors="replace").splitlines() for done in (first, second, stub)]
    if lines[0] == lines[1] and len(lines[2]) != len(lines[0]):
        return f"it prints {len(lines[2])} lines and not {len(lines[0])}"
    for number, (one, other, changed) in enumerate(zip(*lines, strict=False), 1):
        if one == other != changed:
            return f"its line {number} is {changed[:_SHOWN]!r} and not {one[:_SHOWN]!r}"
    return None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    last = (done.stderr + b"\n" + done.stdout).decode(errors="replace").strip().splitlines()
    return last[0] if last else "it printed nothing"


def last_said(done: subprocess.CompletedProcess[bytes]) -> str:
    """The last line of an error, or what stands first of the rest."""
    last = done.stderr.decode(errors="replace").strip().splitlines() or _said(done).splitlines()
    return last[-1]


def recorded(lab: _lab.Lab) -> dict[str, list[_trace.Definition]]:
    """The definitions of each process.

    Raises:
        LatlabError: the command fails.
        UsageError: the component is never called.
    """
    done = run(lab, "record")
    if done.returncode != 0:
        raise LatlabError(
            f"the command failed with exit code {done.returncode} while recording: {last_said(done)}"
        )
    _raise_swallowed(lab)
    if lab.plan.kind == "command":
        return {}
    found = {path.stem: _trace.read(path) for path in sorted(lab.state.glob("*.trace"))}
    found = {
        process: definitions
        for process, definitions in found.items()
        if any(definition.name == lab.plan.component for definition in definitions)
    }
    if not found:
        raise UsageError(
            f"'{lab.plan.component}' is never called by the command",
            remedy="is its module imported so? A function of the script itself needs the decorator",
        )
    return found


def _raise_swallowed(lab: _lab.Lab) -> None:
    """An error of ours is the command's failure, even where the command went on."""
    for path in lab.state.glob("*.error"):
        raise LatlabError(path.read_text(encoding="utf-8"))


def record(
    name: str, command: list[str], output: str | Path, *, keyed: bool = False, mutates: Sequence[str] = ()
) -> int:
    """Record a component while a command runs; the number of results.

    Raises:
        LatlabError: the command fails, or a result can't be serialised.
        UsageError: the component is never called, or by several processes.
    """
    _lab.check_command(command)
    with tempfile.TemporaryDirectory() as folder:
        plan = StudyPlan(component=name, keyed=keyed, mutates=tuple(mutates))
        lab = _lab.Lab(command, plan, Path(folder))
        found = recorded(lab)
        if len(found) > 1:
            raise UsageError(f"'{name}' is called by {len(found)} processes; a trace is of one")
        (process, definitions), *_ = found.items()
        shutil.copyfile(lab.state / f"{process}.trace", output)
    return sum(len(one.values) for one in definitions if one.name == name)


def replay(
    name: str, trace: str | Path, command: list[str], *, keyed: bool = False, lazy: bool = False,
    views: bool = False, aside: bool = False,
) -> tuple[int, int, int]:  # fmt: skip
    """Run a command with the recorded results in the component's place; its output goes where ours goes.

    Args:
        name: of the component, ``module:function`` or ``module:Class.method``.
        trace: what `record` wrote.
        keyed: results by arguments, not by order.
        lazy: make each result when it is handed out, and not all of them at the start.
        views: hand out arrays as read-only views.
        aside: what the command prints goes to stderr, since stdout is for the result.

    Returns:
        how many calls were answered, the memory that the results hold in bytes, and the command's exit code.

    Raises:
        InputError: the trace is none, or holds nothing of the component.
        UsageError: the component is never called.
        LatlabError: it is called less often than it was recorded.
    """
    _lab.check_command(command)
    definitions = _trace.read(trace)
    if all(one.name != name for one in definitions):
        there = ", ".join(one.name for one in definitions if one.type == "python") or "nothing"
        raise UsageError(f"{trace} holds nothing of '{name}' (it holds {there})")
    with tempfile.TemporaryDirectory() as folder:
        lab = _lab.Lab(command, StudyPlan(component=name, keyed=keyed), Path(folder))
        shutil.copyfile(trace, lab.state / _plan.ANY_TRACE)
        chosen = {"lazy": lazy, "views": views, "told": True}
        lab.prepare("flat", 1.0, 0, tuple(flag for flag, wanted in chosen.items() if wanted))
        done = subprocess.run(command, env=lab.environment, stdout=2 if aside else None, check=False)
        _raise_swallowed(lab)
        outcomes = [path.read_text(encoding="ascii").split() for path in lab.state.glob("*.outcome")]
        calls = sum(int(one[0]) for one in outcomes)
        left = sum(int(one[2]) for one in outcomes if int(one[0]))
        held = sum(int(path.read_text(encoding="ascii")) for path in lab.state.glob("*.held"))
    if calls == 0 and done.returncode == 0:
        raise UsageError(
            f"'{name}' is never called by the command",
            remedy="is its module imported so? A function of the script itself needs the decorator",
        )
    if left and done.returncode == 0:
        raise LatlabError(
            f"{name}: called less often than it was recorded ({left} results are left)",
            remedy="record it again",
        )
    return calls, held, done.returncode
