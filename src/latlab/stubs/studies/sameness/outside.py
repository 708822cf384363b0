"""Records and replays a component of a program from outside: its code isn't touched."""

from __future__ import annotations

import math
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from latlab.errors import LatlabError, UsageError
from latlab.model.evidence.said import said
from latlab.model.evidence.studies import StudyWarning
from latlab.stubs.components import audited as _audited
from latlab.stubs.components import plan as _plan
from latlab.stubs.components import session as _session
from latlab.stubs.components import trace as _trace
from latlab.stubs.studies import runner as _lab
from latlab.stubs.studies.question import StudyPlan
from latlab.stubs.studies.sameness import same as _same
from latlab.system.scratch import scratch

#: What to do where a stub lets a change of state go, by the component's kind.
STATE = {
    "python": "what a call changes is kept where it is named: "
    '@component(mutates=("self",)), or any other argument',
    "c++": "what a call changes is kept where it is part of the result: return it from the component, too",
    "command": "files that a command writes are not made again: let it write to its output",
}
#: Why a component may never be called, by its kind.
NEVER_CALLED = {
    "python": "write module:function as the program imports it; of the script itself, __main__:function",
    "c++": "does the program include <latlab/stub.hpp> and name it so?",
    "command": "is it found through PATH?",
}
_SHOWN = 3  # things that calls do outside of the program that are told by name
_PASSES = 3  # recordings in which changes are looked for: a place that is kept may show another


@dataclass(frozen=True)
class Changes:
    """What calls of a component change besides their results.

    Attributes:
        kept: places that are recorded and written again by the stub, such as ``self.n``.
        lost: those that can't be, and why.
        looked: calls that were looked at.
        calls: all of them.
    """

    kept: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()
    looked: int = 0
    calls: int = 0


def run(lab: _lab.Lab, mode: str, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[bytes]:
    """One run of the command, with what it says kept."""
    found = output_of(lab, mode, flags)
    return subprocess.CompletedProcess(lab.command, found.code, found.out, found.err)


def output_of(
    lab: _lab.Lab, mode: str, flags: tuple[str, ...] = (), elsewhere: Iterable[str] = ()
) -> _same.Output:
    """One run of the command in a variant; "original" runs it as it is."""
    if mode == "original":
        return _same.output_of(lab.command, lab.original, elsewhere=elsewhere)
    lab.prepare(mode, 1.0, 0, flags)
    return _same.output_of(lab.command, lab.environment, limit_s=lab.limit_s())


def output_differs(lab: _lab.Lab) -> str | None:
    """What the command says, leaves or holds with the stub and not without; None where it is the same.

    Raises:
        LatlabError: the stub can't be replayed.
    """
    for old in lab.state.glob("*.differs"):
        old.unlink()
    elsewhere: list[str] = []

    def one(mode: str, code: int, flags: tuple[str, ...] = ()) -> _same.Output:
        # A program that fails now and then does so with its stub, too: its good runs are compared.
        for _ in range(_lab.ATTEMPTS - 1 if lab.runs else 0):
            found = output_of(lab, mode, flags, elsewhere)
            if found.code == code:
                return found
        return output_of(lab, mode, flags, elsewhere)

    original = one("original", 0)
    stub = one("flat", original.code, ("watch",) if lab.plan.kind == "python" else ())
    there = _same.written_elsewhere(lab.files())
    if there:
        elsewhere += there
        stub = replace(stub, files={**stub.files, **there})
        original = one("original", original.code)
    other = _same.difference(stub, original, lambda: one("original", original.code))
    if other is None:
        for path in lab.state.glob("*.differs"):
            return path.read_text(encoding="utf-8")
    return other


def kept(lab: _lab.Lab) -> Changes:
    """Record the component with what its calls change, where that can be kept; so from then on.

    Raises:
        LatlabError: the command fails, or the component can't be recorded.
    """
    found = Changes()
    for _ in range(_PASSES):
        for old in lab.state.glob("*.changes"):
            old.unlink()
        done = run(lab, "record", ("watch",))
        # A single failed run refuses nothing where others succeeded, unless what was kept made it fail.
        for _ in range(_lab.ATTEMPTS - 1 if lab.runs else 0):
            if done.returncode == 0 or any(lab.state.glob("*.error")):
                break
            lab.failed.append(last_said(done))
            done = run(lab, "record", ("watch",))
        if done.returncode != 0:
            lab.require_recorded()
            raise LatlabError(
                f"the command failed with exit code {done.returncode} while recording: {last_said(done)}"
            )
        lab.require_recorded()
        found = changes_of(lab)
        new = [one for one in found.kept if not lab.keeps(one)]
        if not new:
            break
        lab.keep_places(new)
    lab.leave_places(name for name, _ in found.lost)
    lab.lost = told(replace(found, kept=()))
    return found


def told(changes: Changes) -> str:
    """What calls change, in one line."""
    kept_ = ", ".join(map(_place, changes.kept))
    parts = [said(StudyWarning.KEPT, places=kept_)] if changes.kept else []
    outside = [name for name, why in changes.lost if why == _audited.WHY]
    parts += [
        said(StudyWarning.NOT_KEPT, name=_place(name), why=why)
        for name, why in changes.lost
        if why != _audited.WHY
    ]
    if outside:
        more = "" if len(outside) <= _SHOWN else f" and {len(outside) - _SHOWN} more"
        parts.append(said(StudyWarning.LEFT_OUT, what=", ".join(outside[:_SHOWN]) + more))
    return "; ".join(parts)


def _place(name: str) -> str:
    """A place as it is told: arguments without a name have a number."""
    return f"argument {name}" if name.partition(".")[0].isdigit() else name


def changes_of(lab: _lab.Lab) -> Changes:
    """What was found in the last recording."""
    places: dict[str, str] = {}
    looked = calls = 0
    for path in sorted(lab.state.glob("*.changes")):
        head, *lines = path.read_text(encoding="utf-8").splitlines()
        one, all_ = map(int, head.split())
        looked, calls = looked + one, calls + all_
        for line in lines:
            _, name, why = line.split("\t", 2)
            places[name] = places.get(name) or why
    return Changes(
        tuple(name for name, why in places.items() if not why),
        tuple((name, why) for name, why in places.items() if why),
        looked,
        calls,
    )


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
    if lab.plan.kind == "python":
        kept(lab)
    else:
        done = run(lab, "record")
        if done.returncode != 0:
            raise LatlabError(
                f"the command failed with exit code {done.returncode} while recording: {last_said(done)}"
            )
        lab.require_recorded()
    by_call = lab.plan.kind == "command"  # each call is a process of its own, and leaves a row
    found = {} if by_call else {path.stem: _trace.read(path) for path in sorted(lab.state.glob("*.trace"))}
    found = {
        process: definitions
        for process, definitions in found.items()
        if any(definition.name == lab.plan.component for definition in definitions)
    }
    if not (lab.rows_file.exists() if by_call else found):
        started = sum(path.stat().st_size for path in lab.state.glob("*.count"))
        ended = len(list(lab.state.glob("*.trace")))
        if lab.plan.kind == "python" and started > ended:
            raise UsageError(
                f"{started - ended} of {started} processes that import '{lab.plan.component}' were killed "
                "before they could keep what they recorded, and the others never call it",
                remedy="let them end by themselves, or by SIGTERM",
            )
        raise UsageError(
            f"'{lab.plan.component}' is never called by the command", remedy=NEVER_CALLED[lab.plan.kind]
        )
    return found


def record(
    name: str, command: list[str], output: str | Path, *, keyed: bool = False, mutates: Sequence[str] = ()
) -> tuple[int, Changes]:
    """Record a component while a command runs; the number of results, and what its calls change besides.

    Calls of several processes are told apart by their arguments.

    Raises:
        LatlabError: the command fails, or a result can't be serialised.
        UsageError: the component is never called.
        InputError: the trace can't be written there.
    """
    _lab.check_command(command)
    _trace.check_writable(output)
    with scratch("stubs") as folder:
        plan = StudyPlan(component=name, keyed=keyed, mutates=tuple(mutates))
        lab = _lab.Lab(command, plan, folder)
        found = recorded(lab)
        workers = [process for process in found if process.startswith(f"{_plan.WORKER}-")]
        if len(found) > 1 and not keyed and len(workers) < len(found):
            # Which process is which in the replay isn't known from outside: the arguments tell calls apart.
            again = folder / "keyed"
            again.mkdir()
            lab = _lab.Lab(command, replace(plan, keyed=True), again)
            found = recorded(lab)
        whole: dict[str, _trace.Definition] = {}
        for one in found.values():
            whole = _session.joined(name, whole, {definition.name: definition for definition in one})
        definitions = list(whole.values())
        _trace.write(output, definitions)
        changes = changes_of(lab)
    return sum(_trace.count(one.values) for one in definitions if one.name == name), changes


@dataclass(frozen=True)
class Replayed:
    """A run with a recorded component.

    Attributes:
        calls: that were answered.
        held_bytes: memory that the results hold.
        code: with which the command ended.
        differs: what it says, leaves or holds otherwise than without the stub; None where nothing differs.
        compared: whether that was looked at.
        varies: whether what it says differs from run to run by itself: only the rest is compared.
        lost: what the recorded calls did that the stub doesn't, in one line; "" where that is nothing.
    """

    calls: int
    held_bytes: int
    code: int
    differs: str | None
    compared: bool
    varies: bool = False
    lost: str = ""


def replay(
    name: str, trace: str | Path, command: list[str], *, keyed: bool = False, lazy: bool = False,
    views: bool = False, aside: bool = False, compare: bool = True, pickles: bool = False,
) -> Replayed:  # fmt: skip
    """Run a command with the recorded results in the component's place; its output goes where ours goes.

    Args:
        name: of the component, ``module:function`` or ``module:Class.method``.
        trace: what `record` wrote.
        keyed: results by arguments, not by order; as it is where the trace was recorded so.
        lazy: make each result when it is handed out, and not all of them at the start.
        views: hand out arrays as read-only views.
        aside: what the command prints goes to stderr, since stdout is for the result.
        pickles: load results by running whatever the trace names, and not as data alone.
        compare: run the command as it is, too, and compare what it says and writes.

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
    keyed = keyed or _session.told_by_arguments(name, definitions)
    with scratch("stubs") as folder:
        lab = _lab.Lab(command, StudyPlan(component=name, keyed=keyed), folder, own=pickles)
        shutil.copyfile(trace, lab.state / _plan.ANY_TRACE)
        stdin = _same.spooled(lab.folder)
        begin = time.monotonic()
        original = _same.output_of(command, lab.original, stdin=stdin) if compare else None
        limit = max(20.0, 20 * (time.monotonic() - begin)) if compare else math.inf
        chosen = {"lazy": lazy, "views": views, "told": True}
        lab.prepare("flat", 1.0, 0, tuple(flag for flag, wanted in chosen.items() if wanted))
        done = _same.output_of(
            command, lab.environment, stdin=stdin, out=2 if aside else 1, err=2, limit_s=limit
        )
        lab.require_recorded()
        outcomes = [path.read_text(encoding="ascii").split() for path in lab.state.glob("*.outcome")]
        calls = sum(int(one[0]) for one in outcomes)
        left = sum(int(one[2]) for one in outcomes if int(one[0]))
        held = sum(int(path.read_text(encoding="ascii")) for path in lab.state.glob("*.held"))
        differs = None
        if original is not None:
            elsewhere = _same.written_elsewhere(lab.files())

            def again() -> _same.Output:
                return _same.output_of(command, lab.original, stdin=stdin, elsewhere=elsewhere)

            if elsewhere:
                done = replace(done, files={**done.files, **elsewhere})
                original = again()
            differs = _same.difference(done, original, again)
    if calls == 0 and done.code == 0:
        raise UsageError(f"'{name}' is never called by the command", remedy=NEVER_CALLED["python"])
    if left and done.code == 0:
        raise LatlabError(
            f"{name}: called less often than it was recorded ({left} results are left)",
            remedy="record it again, with --keyed where threads or processes take their calls from one queue",
        )
    varies = original is not None and differs is None and not _same.alike(done, original)
    lost = told(Changes(lost=tuple(_session.left_out(name, definitions).items())))
    return Replayed(calls, held, done.code, differs, compare, varies, lost)
