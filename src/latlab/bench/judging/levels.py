"""A history of results: where each benchmark changed its level, and whether it is slower now than before."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from latlab.bench.results.imports import Results
from latlab.errors import InputError
from latlab.formats import documents
from latlab.formats.trusted import MOST_TEXT_BYTES, read_file
from latlab.model.evidence.bench import LevelSaid
from latlab.model.evidence.said import said
from latlab.stats.sequential import FEWEST, findable, level_changes
from latlab.stats.variance import midmean

__all__ = ["accept", "accepted", "history"]

Accepted = Mapping[str, Sequence[str]]
# A change that two results should show; where they can't, the answer says how many it takes.
_WANTED = 0.1
# Two levels are one if they are apart by no more than this part of what they are away from the wanted one.
_ALIKE = 0.3


def history(
    results: Sequence[tuple[str, Results]],
    *,
    smallest_effect: float,
    false_alarms: float = 0.1,
    results_per_year: float = 365.0,
    accepted: Accepted | None = None,
) -> list[dict[str, Any]]:
    """The changes of level of every benchmark.

    Args:
        results: (label, content) of each result, the oldest first.
        smallest_effect: relative change that counts.
        false_alarms: a year, of all benchmarks together: each has its part of them.
        results_per_year: how often results come.
        accepted: by benchmark the labels of results whose level is wanted; "*" stands for all benchmarks.

    Returns:
        for each benchmark its name, values, changes (with the label of the first result after each),
        findable (by number of results: the smallest change that they find with a probability of 0.9) and
        verdict: "slower" if its level is above the fastest since the last that was accepted, "faster",
        "unchanged", or "inconclusive" for too few results, or for a level that it has come back from before.
    """
    series: dict[str, list[tuple[str, float]]] = {}
    for label, content in results:
        for name, groups in content.tests.items():
            if groups:
                ordered = sorted(midmean(g) for g in groups)
                series.setdefault(name, []).append((label, ordered[(len(ordered) - 1) // 2]))
    probability = min(0.1, false_alarms / results_per_year / max(1, len(series)))
    return [
        _one(name, points, smallest_effect, probability, accepted or {}) for name, points in series.items()
    ]


def _one(
    name: str,
    points: Sequence[tuple[str, float]],
    effect: float,
    probability: float,
    accepted: Accepted,
) -> dict[str, Any]:
    values = [value for _, value in points]
    document: dict[str, Any] = {"name": name, "results": len(values), "typical_ns": values, "changes": []}
    if len(values) <= FEWEST:
        return {
            **document,
            "verdict": "inconclusive",
            "why": said(LevelSaid.TOO_FEW, results=len(values), enough=FEWEST + 1),
        }
    wanted = [label for key in (name, "*") for label in accepted.get(key, ())]
    found = level_changes(
        [math.log(v) for v in values], alarm_probability=probability, smallest=math.log1p(effect)
    )
    ends = [*(c.index for c in found), len(points)][1:]
    changes: list[dict[str, Any]] = [
        {
            "at": points[c.index][0],
            "index": c.index,
            "found_at": points[c.found][0],
            "before_ns": math.exp(c.before),
            "after_ns": math.exp(c.after),
            "effect": math.expm1(c.after - c.before),
            "back": c.back,
            "accepted": any(_is_it(point, label) for point, _ in points[c.index : end] for label in wanted),
        }
        for c, end in zip(found, ends, strict=True)
    ]
    level = values[int(changes[-1]["index"]) if changes else 0 :]
    document["findable"] = {
        count: max(effect, math.expm1(change))
        for count, change in findable([math.log(v) for v in level], alarm_probability=probability).items()
    }
    if not changes:
        why = said(LevelSaid.UNCHANGED, effect=effect)
        finds = document["findable"]
        enough = [count for count, change in finds.items() if change <= _WANTED]
        if not enough:
            most, reach = max(finds.items())
            why = said(
                LevelSaid.UNCHANGED_TOO_WIDE, effect=effect, wanted=_WANTED, most=most, reach=reach
            )  # fmt: skip
        elif finds[2] > _WANTED:
            why = said(
                LevelSaid.UNCHANGED_AS_FAR, effect=effect, wanted=_WANTED, enough=min(enough), two=finds[2]
            )
        return {**document, "verdict": "unchanged", "why": why}
    verdict, sentence = _standing(changes, effect)
    return {**document, "changes": changes, "verdict": verdict, "why": sentence}


def _standing(changes: Sequence[Mapping[str, Any]], effect: float) -> tuple[str, str]:
    """The verdict over the level now: against the fastest since the last that was accepted.

    A slowdown stays one after a further, smaller change; it ends where the level is the one before again.
    """
    wanted = float(changes[0]["before_ns"])
    levels = [wanted]
    improved = False
    begun: Mapping[str, Any] | None = None  # the change that left the wanted level upwards
    for index, change in enumerate(changes):
        # What is the level before again has its time, not that of the few results since.
        levels.append(levels[index - 1] if change["back"] else float(change["after_ns"]))
        improved = levels[-1] < wanted / (1 + effect)
        if change["accepted"] or levels[-1] <= wanted:
            wanted = levels[-1]
        begun = (begun or change) if levels[-1] > wanted * (1 + effect) else None
    last = changes[-1]
    if begun is not None:
        above = levels[-1] / wanted - 1
        if (visit := _been_there(changes, levels, changes.index(begun), wanted)) is not None:
            return "inconclusive", said(
                LevelSaid.TWO_LEVELS, change=above, at=begun["at"], before=visit["at"], level=last["at"]
            )
        return "slower", said(LevelSaid.SLOWER, change=above, at=begun["at"], level=last["at"])
    since = {"change": abs(float(last["effect"])), "at": last["at"]}
    direction = "slower" if last["effect"] > 0 else "faster"
    if last["accepted"]:
        return "unchanged", said(LevelSaid.ACCEPTED, direction=direction, **since)
    if improved:
        return "faster", said(LevelSaid.FASTER, **since)
    if not last["back"]:
        return "unchanged", said(LevelSaid.UNCHANGED, effect=effect)
    left = changes[-2]
    return "unchanged", said(LevelSaid.UNDONE, change=float(left["effect"]), at=left["at"], until=last["at"])


def _been_there(
    changes: Sequence[Mapping[str, Any]], levels: Sequence[float], begun: int, wanted: float
) -> Mapping[str, Any] | None:
    """The change by which the series had been on the level of now before, and come back from it; or None.

    Who goes there, back, and there again may be a machine with two levels.
    """
    now = math.log(levels[-1] / wanted)
    for index in range(begun - 1):
        up, down = changes[index], changes[index + 1]
        there, after = (math.log(level / wanted) for level in (levels[index + 1], levels[index + 2]))
        if up["accepted"] or down["accepted"] or up["effect"] < 0:
            continue
        if abs(there - now) < _ALIKE * now and abs(after) < _ALIKE * now:
            return up
    return None


def _is_it(path: str, label: str) -> bool:
    """Whether a path and a label name one result: by as many of their last parts as both have."""
    pairs = list(zip(reversed(Path(path).parts), reversed(Path(label).parts), strict=False))
    return all(one == other for one, other in pairs)


def accepted(path: Path) -> dict[str, list[str]]:
    """The levels that are accepted, by benchmark; none where the file isn't there.

    Raises:
        InputError: the file is damaged.
    """
    if not path.exists():
        return {}
    try:
        found = json.loads(read_file(path, MOST_TEXT_BYTES))["accepted"]
        return {str(name): [str(label) for label in labels] for name, labels in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            path, "holds no accepted levels", remedy="write it with latlab bench accept"
        ) from None


def accept(path: Path, label: str, benchmark: str = "*") -> None:
    """Keep that the level of a result is wanted, in a file that can be committed."""
    known = accepted(path)
    labels = known.setdefault(benchmark, [])
    if label not in labels:
        labels.append(label)
    documents.write(path, {"schema": 1, "accepted": known})
