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
from latlab.model.evidence.bench import LevelSaid
from latlab.model.evidence.said import said
from latlab.stats.sequential import FEWEST, findable, level_changes
from latlab.stats.variance import midmean

__all__ = ["accept", "accepted", "history"]

Accepted = Mapping[str, Sequence[str]]
# A change that two results should show; where they can't, the answer says what can.
_WANTED = 0.1


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
        verdict: "slower" if the last change made it slower and isn't accepted, "faster", "unchanged", or
        "inconclusive" for too few results.
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
    wanted = {Path(label).name for key in (name, "*") for label in accepted.get(key, ())}
    changes: list[dict[str, Any]] = [
        {
            "at": points[c.index][0],
            "index": c.index,
            "found_at": points[c.found][0],
            "before_ns": math.exp(c.before),
            "after_ns": math.exp(c.after),
            "effect": math.expm1(c.after - c.before),
            "accepted": Path(points[c.index][0]).name in wanted,
        }
        for c in level_changes(
            [math.log(v) for v in values], alarm_probability=probability, smallest=math.log1p(effect)
        )
    ]
    level = values[int(changes[-1]["index"]) if changes else 0 :]
    document["findable"] = {
        count: max(effect, math.expm1(change))
        for count, change in findable([math.log(v) for v in level], alarm_probability=probability).items()
    }
    if not changes:
        why = said(LevelSaid.UNCHANGED, effect=effect)
        finds = document["findable"]
        if finds[2] > _WANTED:
            why = said(LevelSaid.UNCHANGED_AS_FAR, effect=effect, two=finds[2], eight=finds[8])
        return {**document, "verdict": "unchanged", "why": why}
    last = changes[-1]
    change = float(last["effect"])
    verdict = "slower" if change > 0 else "faster"
    since = {"change": abs(change), "at": last["at"]}
    if last["accepted"]:
        verdict, why = "unchanged", said(LevelSaid.ACCEPTED, direction=verdict, **since)
    else:
        kind = LevelSaid.SLOWER if verdict == "slower" else LevelSaid.FASTER
        why = said(kind, **since)
    return {**document, "changes": changes, "verdict": verdict, "why": why}


def accepted(path: Path) -> dict[str, list[str]]:
    """The levels that are accepted, by benchmark; none where the file isn't there.

    Raises:
        InputError: the file is damaged.
    """
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text())["accepted"]
        return {str(name): [str(label) for label in labels] for name, labels in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            path, "holds no accepted levels", remedy="write it with latlab bench accept"
        ) from None


def accept(path: Path, label: str, benchmark: str = "*") -> None:
    """Keep that the level from a result on is wanted, in a file that can be committed."""
    known = accepted(path)
    labels = known.setdefault(benchmark, [])
    if Path(label).name not in labels:
        labels.append(Path(label).name)
    documents.write(path, {"schema": 1, "accepted": known})
