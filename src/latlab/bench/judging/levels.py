"""A history of results: where each benchmark changed its level, and whether it is slower now than before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latlab.bench.results.imports import Results
from latlab.stats.change_points import change_points
from latlab.stats.variance import midmean

__all__ = ["FEWEST", "history"]

FEWEST = 8  # results: with fewer, no split of a series has a permutation p-value below 0.02
_SHORTEST = 3


def history(
    results: Sequence[tuple[str, Results]], *, smallest_effect: float, alpha: float = 0.02
) -> list[dict[str, Any]]:
    """The changes of level of every benchmark.

    Args:
        results: (label, content) of each result, the oldest first.
        smallest_effect: relative change that counts.
        alpha: level of each change point's test.

    Returns:
        for each benchmark its name, values, changes (with the label of the first result after each) and
        verdict:
        "slower" if the last change that matters made it slower, "faster", "unchanged", or "inconclusive" for
        fewer than 8 results.
    """
    series: dict[str, list[tuple[str, float]]] = {}
    for label, content in results:
        for name, groups in content.tests.items():
            if groups:
                typical = float(np.median([midmean(g) for g in groups]))
                series.setdefault(name, []).append((label, typical))
    return [_one(name, points, smallest_effect, alpha) for name, points in series.items()]


def _one(name: str, points: Sequence[tuple[str, float]], effect: float, alpha: float) -> dict[str, Any]:
    values = [value for _, value in points]
    document: dict[str, Any] = {"name": name, "results": len(values), "typical_ns": values, "changes": []}
    if len(values) < FEWEST:
        return {
            **document,
            "verdict": "inconclusive",
            "why": f"{len(values)} results can't carry a change point; it takes {FEWEST}",
        }
    changes = [
        {
            "at": points[p.index][0],
            "index": p.index,
            "before_ns": p.before,
            "after_ns": p.after,
            "effect": p.after / p.before - 1,
            "p_value": p.p_value,
        }
        for p in change_points(values, alpha=alpha, shortest=_SHORTEST)
        if abs(p.after / p.before - 1) >= effect
    ]
    last = changes[-1] if changes else None
    if last is None:
        return {**document, "verdict": "unchanged", "why": f"no change of level of {effect:.2%} or more"}
    verdict = "slower" if float(str(last["effect"])) > 0 else "faster"
    return {
        **document,
        "changes": changes,
        "verdict": verdict,
        "why": f"{verdict} by {abs(float(str(last['effect']))):.2%} since {last['at']} "
        f"(p = {float(str(last['p_value'])):.2g})",
    }
