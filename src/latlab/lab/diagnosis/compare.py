"""Holds two diagnoses against each other: before and after a change."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from latlab.errors import InputError
from latlab.formats.recording import Recording, open_recording
from latlab.model.diagnosis.answer import AnswerComparison, Change
from latlab.model.machine.environment import differences

__all__ = ["compare_answers"]

_REMEDY = "give two folders that `latlab diagnose` has written"
_ENDED = 0.95  # of the seconds that were asked for: a command that took less ended by itself
_WORTH = 0.05  # of the time
_MOST_ROLES = 8
_NOISE = 0.1  # a single run's quantile moves by so much between two runs of the same thing


def compare_answers(before: Path, after: Path) -> AnswerComparison:
    """What has changed between two diagnoses.

    A latency that is known with an interval has changed where the intervals don't overlap; one of a single
    run where it differs by more than a tenth. How long a program takes is not decided by one run each.

    Raises:
        InputError: a folder that holds no finished diagnosis.
    """
    recordings = open_recording(before), open_recording(after)
    a, b = (_answer(one) for one in recordings)
    changes = []
    for name, key in (("p50", "p50_ns"), ("p99", "p99_ns"), ("p99.9", "p99.9_ns")):
        one, two = (_latency(answer, name, key) for answer in (a, b))
        if one is not None and two is not None:
            changes.append(_change(f"end to end {name}", "ns", one, two, more_is_worse=True))
    rates = [_baseline(answer).get("capacity_hz") for answer in (a, b)]
    if rates[0] and rates[1] and a["limiting_stage"] == b["limiting_stage"]:
        name = f"maximum throughput through {a['limiting_stage']}"
        changes.append(_change(name, "events/s", rates[0], rates[1], more_is_worse=False))
    changes += _budgets(a, b)
    times = [_whole_ns(answer, one) for answer, one in zip((a, b), recordings, strict=True)]
    if times[0] and times[1]:
        changes.append(Change("the whole program", "ns", times[0], times[1], "open"))
    changes += _roles(a, b)
    return AnswerComparison(
        before=str(before),
        after=str(after),
        limiting_before=_limit(a),
        limiting_after=_limit(b),
        changes=tuple(changes),
        warnings=tuple(str(one) for one in differences(recordings[0].environment, recordings[1].environment)),
        decides=_decides(recordings) if any(change.verdict == "open" for change in changes) else "",
    )


def _answer(recording: Recording) -> dict[str, Any]:
    if "answer" not in recording.documents():
        raise InputError(recording.path, "holds no diagnosis", remedy=_REMEDY)
    return recording.document("answer")


def _limit(answer: dict[str, Any]) -> str | None:
    """What limits; of threads with its kind, where that is no thread."""
    name, kind = answer["limiting_stage"], answer.get("limit", {}).get("kind")
    return f"{name} ({kind})" if name and name != kind and kind not in (None, "thread") else name


def _question(recording: Recording) -> dict[str, Any]:
    return dict(recording.parameters.get("question", {}))


def _whole_ns(answer: dict[str, Any], recording: Recording) -> float | None:
    """What a command took by itself; None of one that was ended, or of a process that goes on."""
    seconds = answer.get("observed", {}).get("seconds")
    question = _question(recording)
    ended = bool(question.get("command")) and seconds is not None
    return 1e9 * seconds if ended and seconds < _ENDED * question["seconds"] else None


def _roles(a: dict[str, Any], b: dict[str, Any]) -> list[Change]:
    """Roles whose part of the progress, or whose running, changed by a twentieth of the time."""
    roles = [{role["name"]: role for role in answer.get("roles", ())} for answer in (a, b)]
    found = []
    for name in dict.fromkeys((*roles[0], *roles[1])):
        for key, what in (("limits", "limits"), ("running", "runs"), ("runnable", "waits for a CPU")):
            one, two = (float(of.get(name, {}).get(key, 0.0)) for of in roles)
            if abs(two - one) > _WORTH:
                found.append(Change(f"{name} {what}", "share", one, two, "part"))
    return sorted(found, key=lambda change: -abs(change.after - change.before))[:_MOST_ROLES]


def _decides(recordings: Sequence[Recording]) -> str:
    """The command that runs both in turn until it is known."""
    before, after = (shlex.join(_question(one)["command"]) for one in recordings)
    if before == after:
        return "latlab bench ab OLD NEW  # the commands of the program as it was and as it is"
    return shlex.join(["latlab", "bench", "ab", before, after])


def _baseline(answer: dict[str, Any]) -> dict[str, Any]:
    forecasts = answer["forecasts"]
    return dict(forecasts[0]["baseline"]) if forecasts else {}


def _latency(answer: dict[str, Any], name: str, key: str) -> dict[str, Any] | None:
    """With its interval where the forecast has measured the unmodified system again and again."""
    repeated = _baseline(answer).get(key)
    if repeated is not None:
        return dict(repeated)
    once = answer["end_to_end_ns"]
    return None if once is None else {"value": once[name], "low": None, "high": None}


def _change(what: str, unit: str, one: dict[str, Any], two: dict[str, Any], *, more_is_worse: bool) -> Change:
    a, b = float(one["value"]), float(two["value"])
    if None in (one["low"], two["low"]):
        clear = abs(b - a) > _NOISE * max(a, 1e-9)
    else:
        clear = two["low"] > one["high"] or two["high"] < one["low"]
    verdict: Literal["same", "worse", "better"] = "same"
    if clear:
        verdict = "worse" if (b > a) == more_is_worse else "better"
    return Change(what, unit, a, b, verdict)


def _budgets(a: dict[str, Any], b: dict[str, Any]) -> list[Change]:
    """The parts of the budgets that changed by a twentieth of the total; they explain, and are not judged."""
    if a["budget"] is None or b["budget"] is None:
        return []
    parts = [{(p["kind"], p["where"]): p["ns"] for p in answer["budget"]["parts"]} for answer in (a, b)]
    total = max(a["budget"]["total_ns"], b["budget"]["total_ns"])
    found = []
    for key in sorted(set(parts[0]) | set(parts[1])):
        one, two = (part.get(key, 0.0) for part in parts)
        if abs(two - one) > 0.05 * total:
            found.append(Change(" ".join(key).strip(), "ns", one, two, "part"))
    return sorted(found, key=lambda change: -abs(change.after - change.before))
