"""How a benchmark's time grows with its size, and what more threads do to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from latlab import words
from latlab.stats.shapes.complexity import growth

__all__ = ["growth_json", "sweep_text", "threads_json"]

Point = tuple[str, Mapping[str, Any], float]


def growth_json(points: Sequence[Point]) -> list[dict[str, Any]]:
    """The law by which each benchmark's typical time grows with `size`.

    Args:
        points: (fixture, parameters, p50 in nanoseconds) of each benchmark.
    """
    out = []
    for name, series in _series(points, "size").items():
        found = growth([size for size, _ in series], [ns for _, ns in series])
        out.append(
            {
                "name": name,
                "sizes": [size for size, _ in series],
                "p50_ns": [ns for _, ns in series],
                "span": found.span,
                "ratio": found.ratio,
                "laws": list(found.laws),
                "error": found.error,
                "why": found.why,
            }
        )
    return out


def threads_json(points: Sequence[Point]) -> list[dict[str, Any]]:
    """What more threads do to each benchmark's typical time.

    Args:
        points: as of `growth_json`.
    """
    out = []
    for name, series in _series(points, "threads").items():
        first = series[0][1]
        out.append(
            {
                "name": name,
                "threads": [count for count, _ in series],
                "p50_ns": [ns for _, ns in series],
                "speed_up": [first / ns for _, ns in series],
            }
        )
    return out


def sweep_text(grown: Sequence[Mapping[str, Any]], threaded: Sequence[Mapping[str, Any]]) -> str:
    """Both, a line a benchmark."""
    lines = []
    for one in grown:
        seen = f"{words.number(one['ratio'])} × the time for {words.number(one['span'])} × the size"
        seen = f"{one['name']}: {seen} ({words.count(one['sizes'][0])} to {words.count(one['sizes'][-1])})"
        if len(one["laws"]) == 1:
            law = "does not grow" if one["laws"] == ["1"] else f"grows as {one['laws'][0]}"
            lines.append(f"{seen}; {law} (fit off by {words.share(one['error'])})")
        elif one["laws"]:
            lines.append(f"{seen}; the law is open, {' and '.join(one['laws'])} fit: {one['why']}")
        else:
            lines.append(f"{seen}; the law is open: {one['why']}")
    for one in threaded:
        each = zip(one["threads"], one["p50_ns"], one["speed_up"], strict=True)
        steps = [f"{count}: {words.duration(ns)} ({words.number(up)} ×)" for count, ns, up in each]
        lines.append(f"{one['name']}: threads {', '.join(steps)}")
    return "\n".join(lines)


def _series(points: Sequence[Point], parameter: str) -> dict[str, list[tuple[int, float]]]:
    out: dict[str, list[tuple[int, float]]] = {}
    for fixture, parameters, ns in points:
        if not isinstance(parameters.get(parameter), int):
            continue
        rest = ",".join(f"{k}={v}" for k, v in sorted(parameters.items()) if k != parameter)
        out.setdefault(f"{fixture}[{rest}]" if rest else fixture, []).append((parameters[parameter], ns))
    return {name: sorted(series) for name, series in out.items() if len(series) > 1}
