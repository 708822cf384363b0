"""A comparison of two workloads as text and JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from latlab.messaging import Comparison
from latlab.model.statistics.paired import Ruling
from latlab.words import duration, share, table

__all__ = ["comparison_json", "render_comparison"]

_FINDINGS = {
    Ruling.SLOWER: "B is slower than A.",
    Ruling.FASTER: "B is faster than A.",
    Ruling.MIXED: "B is slower than A by one measure and faster by another.",
    Ruling.REFUSED: "No verdict: A differs from itself here, so this machine can't tell A from B.",
    Ruling.INCONCLUSIVE: "Not decided: more pairs are needed.",
}


def _change(value: float | None) -> str:
    return "?" if value is None else share(value, signed=True)


def render_comparison(c: Comparison, a: str, b: str) -> str:
    """The finding first, then the measures, then what to know about them."""
    effect = c.changes[0].result.smallest_effect
    finding = _FINDINGS.get(c.verdict, f"B is as fast as A: the change is within {share(effect, digits=0)}.")
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
    needed = c.changes[0].result.needed_pairs
    if c.verdict is Ruling.INCONCLUSIVE and needed is not None:
        lines.append(f"about {needed} pairs decide it: --seconds and --pairs are the budget")
    if c.control is not None:
        control = "no difference" if c.verdict is not Ruling.REFUSED else f"{c.control.verdict} than itself"
        lines.append(f"null control: A against itself, {c.control.pairs} pairs: {control}")
    for side, doubts in c.doubts.items():
        for kind, count in doubts.items():
            lines.append(
                f"note: {count} of {c.runs} runs of {side} are not trustworthy by themselves ({kind})"
            )
    return "\n".join(lines)


def comparison_json(c: Comparison) -> dict[str, Any]:
    """The comparison for machines; effects and intervals are relative changes of B's times."""
    return {
        "verdict": str(c.verdict),
        "runs": c.runs,
        "changes": [{"name": x.name, "a_ns": x.a, "b_ns": x.b, **asdict(x.result)} for x in c.changes],
        "control": None if c.control is None else asdict(c.control),
        "doubts": {side: dict(doubts) for side, doubts in c.doubts.items()},
    }
