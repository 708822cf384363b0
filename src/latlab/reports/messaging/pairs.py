"""A comparison of two workloads as text and JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from latlab.messaging import Comparison
from latlab.model.statistics.paired import Ruling
from latlab.words import count, duration, share, table

__all__ = ["comparison_json", "render_comparison"]

_FINDINGS = {
    Ruling.SLOWER: "B is slower than A.",
    Ruling.FASTER: "B is faster than A.",
    Ruling.MIXED: "B is slower than A by one measure and faster by another.",
    Ruling.REFUSED: "No verdict: A differs from itself here, so this machine can't tell A from B.",
}

_OF_THE_MACHINE = ("others", "hypervisor")
_MOST_PAIRS = 1000  # without --pairs


def _change(value: float | None) -> str:
    return "?" if value is None else share(value, signed=True)


def render_comparison(c: Comparison, a: str, b: str) -> str:
    """The finding first, then the measures, then what to know about them."""
    effect = c.changes[0].result.smallest_effect
    if c.verdict is Ruling.INCONCLUSIVE:
        finding = _undecided(c)
    else:
        within = f"B is as fast as A: the change is within {share(effect, digits=0)}."
        finding = _FINDINGS.get(c.verdict, within)
    rows = []
    for change in c.changes:
        result, (low, high) = change.result, change.result.interval
        rows.append(
            (
                change.name,
                duration(change.a),
                duration(change.b),
                _change(result.effect),
                f"{_change(low)} to {_change(high)}",
                str(result.verdict),
            )
        )
    head = ("", "A", "B", "change", "interval", "verdict")
    lines = [finding, f"A is {a}, B is {b}; {c.runs} runs of each.", "", table(head, rows)]
    if c.verdict is Ruling.INCONCLUSIVE:
        lines += _settling(c)
    if c.control is not None:
        control = "no difference" if c.verdict is not Ruling.REFUSED else f"{c.control.verdict} than itself"
        lines.append(f"null control: A against itself, {c.control.pairs} pairs: {control}")
    for side, doubts in c.doubts.items():
        for kind, number in doubts.items():
            lines.append(
                f"note: {number} of {c.runs} runs of {side} are not trustworthy by themselves ({kind})"
            )
    return "\n".join(lines)


def _undecided(c: Comparison) -> str:
    """What is sure although nothing is decided, by the first measure."""
    low, high = c.changes[0].result.interval
    sure = [f"at most {share(abs(low))} faster"] if low is not None and low > -1 else []
    sure += [] if high is None else [f"at most {share(high)} slower"]
    return f"Not decided: B is {' and '.join(sure)}." if sure else "Not decided: the pairs are too few."


def _settling(c: Comparison) -> list[str]:
    """What decides it, and how long that takes; what made the runs vary, where that is known."""
    needed, lines = c.changes[0].result.needed_pairs, []
    disturbed = sum(doubts.get(kind, 0) for doubts in c.doubts.values() for kind in _OF_THE_MACHINE)
    if disturbed > c.runs:
        lines.append(
            f"other programs took CPUs from {share(disturbed / (2 * c.runs), digits=0)} of the runs, which "
            "is what varies here: stop them, or give the runs a real-time priority (priority = 10)"
        )
    if needed is not None:
        control = 0 if c.control is None else c.control.pairs
        budget = f"--seconds {math.ceil((needed + control) * c.pair_s)}"
        budget += f" --pairs {needed}" if needed > _MOST_PAIRS else ""
        lines.append(f"about {count(needed)} pairs like these decide it: {budget}")
    return lines


def comparison_json(c: Comparison) -> dict[str, Any]:
    """The comparison for machines; effects and intervals are relative changes of B's times."""
    return {
        "verdict": str(c.verdict),
        "runs": c.runs,
        "pair_s": c.pair_s,
        "changes": [{"name": x.name, "a_ns": x.a, "b_ns": x.b, **asdict(x.result)} for x in c.changes],
        "control": None if c.control is None else asdict(c.control),
        "doubts": {side: dict(doubts) for side, doubts in c.doubts.items()},
    }
