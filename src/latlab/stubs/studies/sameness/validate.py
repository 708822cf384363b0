"""Is a component deterministic, and does the system pass its own test with the component's stub?"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from latlab.errors import InputError, LatlabError
from latlab.formats.trusted import MOST_TEXT_BYTES, read_file
from latlab.model.evidence.said import said
from latlab.model.evidence.studies import ValidationSaid
from latlab.stubs.components import trace as _trace
from latlab.stubs.components import values as _values
from latlab.stubs.components.state import fingerprint as fingerprint_of
from latlab.stubs.studies import runner as _lab
from latlab.stubs.studies.question import StudyPlan
from latlab.stubs.studies.sameness import outside as _outside
from latlab.stubs.studies.sameness.outside import STATE, last_said, output_differs, recorded, run
from latlab.system.scratch import scratch

_REMEDY = "write it with 'latlab stubs validate -o'"


def validate(
    name: str,
    command: list[str],
    *,
    kind: str = "python",
    keyed: bool = False,
    mutates: Sequence[str] = (),
) -> dict[str, Any]:
    """Run the system's own test unchanged, recording (twice, and compare), and with the stub.

    Args:
        name: of the component.
        command: the system's own test; exit code 0 says that it passed.
        kind: as in STUDY.toml.
        keyed: results by arguments.
        mutates: arguments whose state after a call is part of its function.
    """
    _lab.check_command(command)
    result: dict[str, Any] = {
        "schema": 1, "component": name, "kind": kind, "test": command,
        "fingerprint": fingerprint(name, kind),
    }  # fmt: skip
    plan = StudyPlan(component=name, kind=kind, keyed=keyed, mutates=tuple(mutates))
    with (
        scratch("stubs") as first,
        scratch("stubs") as second,
    ):
        lab, again = (_lab.Lab(command, plan, folder) for folder in (first, second))
        unchanged = run(lab, "original")
        if unchanged.returncode != 0:
            raise LatlabError(
                f"the test fails without any stub (exit code {unchanged.returncode}): {last_said(unchanged)}"
            )
        a, b = recorded(lab), recorded(again)
        difference = recordings_differ(name, a, b)
        result["deterministic"] = difference is None
        if difference is not None:
            return {
                **result,
                "valid": False,
                "verdict": said(ValidationSaid.NOT_DETERMINISTIC, name=name, difference=difference),
            }
        done = run(lab, "flat")
        left = lab.left()
        other = output_differs(lab) if done.returncode == 0 and not left else None
        changes = _outside.changes_of(lab)
        result["keeps"] = list(changes.kept)
        result["not_kept"] = [name for name, _ in changes.lost]
    valid = done.returncode == 0 and not left and other is None
    verdict: str = said(ValidationSaid.SAME, name=name)
    if changes.kept:
        verdict = said(ValidationSaid.SAME_KEEPING, name=name, kept=_outside.told(changes))
    elif changes.lost:
        verdict = f"{verdict}; {_outside.told(changes)}"
    if other is not None:
        verdict = said(ValidationSaid.OTHERWISE, name=name, difference=other, state=STATE[kind])
    if done.returncode != 0:
        verdict = said(ValidationSaid.FAILS, name=name, status=done.returncode, last=last_said(done))
    elif left:
        verdict = said(ValidationSaid.FEWER_CALLS, name=name, fewer=left)
    return {**result, "valid": valid, "verdict": verdict}


def accepted(plan: StudyPlan, path: str) -> tuple[bool, str]:
    """What a file that `latlab stubs validate -o` wrote says of this plan's component.

    Raises:
        InputError: the file is none.
    """
    try:
        found = json.loads(read_file(path, MOST_TEXT_BYTES, remedy=_REMEDY).decode("utf-8"))
        same = (found["component"], found["kind"]) == (plan.component, plan.kind)
        valid, mark = bool(found["valid"]), found["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(path, f"is not a validation ({error})", remedy=_REMEDY) from error
    if not same:
        return False, said(ValidationSaid.OTHER_COMPONENT, path=path, component=found["component"])
    if mark != fingerprint(plan.component, plan.kind):
        return False, said(ValidationSaid.CHANGED, path=path)
    return valid, str(found["verdict"])


def fingerprint(name: str, kind: str) -> str | None:
    """Of the component's source (python) or program (command); None where it isn't known from its name."""
    path: str | None = None
    if kind == "command":
        path = shutil.which(name)
    elif kind == "python":
        module = name.partition(":")[0].replace(".", "/")
        for candidate in (Path(f"{module}.py"), Path(module) / "__init__.py"):
            if candidate.is_file():
                path = str(candidate)
        if path is None:
            try:
                spec = importlib.util.find_spec(name.partition(":")[0])
            except (ImportError, ValueError):
                spec = None
            path = spec.origin if spec is not None else None
    if path is None or not Path(path).is_file():
        return None
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def recordings_differ(
    name: str, a: dict[str, list[_trace.Definition]], b: dict[str, list[_trace.Definition]]
) -> str | None:
    """What differs between two recordings of a component, by processes; None where nothing does."""
    if a.keys() != b.keys():
        return said(ValidationSaid.PROCESSES, first=len(a), second=len(b))
    for process in a:
        one, other = (next(d for d in each[process] if d.name == name) for each in (a, b))
        counts = [_trace.count(each.values) for each in (one, other)]
        if counts[0] != counts[1]:
            return said(ValidationSaid.CALLS, first=counts[0], second=counts[1])
        ordered = [sorted(each.values, key=lambda v: (v.thread, v.run)) for each in (one, other)]
        for (thread, number, first), (_, _, second) in zip(*map(_contents, ordered), strict=True):
            if first != second:
                return said(ValidationSaid.RESULTS, run=number, thread=thread)
    return None


def _contents(values: list[_trace.Value]) -> Iterator[tuple[int, int, object]]:
    """Thread, number and content of each value, however it was kept."""
    for value in values:
        if value.encoding == _trace.PLAIN:
            for number, one in enumerate(_trace.plain(value)):
                yield value.thread, value.run + number, (type(one).__name__, repr(one))
        else:
            yield value.thread, value.run, _content(value)


def _content(value: _trace.Value) -> object:
    """A value by its content: a pickle's bytes also say which equal texts are one object."""
    if value.data is None:
        return type(None).__name__, repr(None)
    if value.encoding != _trace.PICKLE:
        return value.data
    try:
        found = _trace.decode_pickle(value.data)
        if found["k"] == "r" and not found["fx"] and _values.is_immutable(found["v"]):
            return type(found["v"]).__name__, repr(found["v"])
        return fingerprint_of(found)
    except Exception:  # noqa: BLE001  # a damaged pickle raises what it likes
        return value.data
