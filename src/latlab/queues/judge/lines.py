"""Lines: stages and queues that hang together. What no queue connects is judged on its own.

Two lines that move in step all the same are one, of which a queue in between is not instrumented: what the
last stage of the first takes leaves the first stage of the second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from latlab.model.queues.analysis import Doubt, DoubtKind
from latlab.queues.judge.measures.series import Series

__all__ = ["in_circles", "lines_of", "unseen_queues"]

_FEWEST = 200  # events: fewer go in step by chance
_IN_STEP = 0.03  # of the events, and …
_MOST_APART = 256  # … at most so many, which a queue in between may hold
_FEW = 8.0  # events: the two counts are read one after another, and may seem so far in the wrong order


def lines_of(series: Series) -> list[list[int]]:
    """The rows of each line, the one with the most events first, without those in which nothing moved."""
    parent: dict[str, str] = {}

    def root(label: str) -> str:
        while parent.setdefault(label, label) != label:
            label = parent[label]
        return label

    for queue in series.queues:
        if queue.drain:
            for source in queue.sources:
                parent[root(source)] = root(queue.drain)
    found: dict[str, list[int]] = {}
    for row, queue in enumerate(series.queues):
        end = queue.drain or next(iter(queue.sources), "")
        # Of a queue that says neither end nobody knows where it belongs: it is a line of its own.
        found.setdefault(root(end) if end else f"queue {queue.number}", []).append(row)
    moved = _moved(series.out) + _moved(series.in_)
    # A line needs somebody who drains.
    kept = [
        rows for rows in found.values() if moved[rows].any() and any(series.queues[row].drain for row in rows)
    ]
    return sorted(kept, key=lambda rows: -int(moved[rows].sum()))


def _moved(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    moved: NDArray[np.int64] = counts[:, -1] - counts[:, 0]
    return moved


def unseen_queues(series: Series, lines: list[list[int]]) -> list[Doubt]:
    """Where a line seems to end, and another to begin with the same events."""
    ends = [_ends(series, rows) for rows in lines]
    names = [{series.queues[row].drain.partition(" (")[0] for row in rows} for rows in lines]
    found = []
    for i, (lasts, _) in enumerate(ends):
        for j, (_, firsts) in enumerate(ends):
            if i == j or names[i] == names[j]:  # copies of one program work at one pace by themselves
                continue
            for last, taken in lasts.items():
                for first, given in firsts.items():
                    if _in_step(taken, given) and float(np.mean(taken - given)) > -_FEW:
                        found.append(Doubt(DoubtKind.UNSEEN_QUEUE, last, first))
    return found


def _ends(
    series: Series, rows: list[int]
) -> tuple[dict[str, NDArray[np.int64]], dict[str, NDArray[np.int64]]]:
    """Of a line, what its last stages took, and what its first ones put in: over time."""
    taken: dict[str, NDArray[np.int64]] = {}
    given: dict[str, NDArray[np.int64]] = {}
    outputs: set[str] = set()
    for row in rows:
        queue = series.queues[row]
        taken[queue.drain] = taken.get(queue.drain, 0) + series.out[row]
        if len(queue.sources) == 1:
            given[queue.source] = given.get(queue.source, 0) + series.in_[row]
        outputs.update(queue.sources)
    lasts = {label: counts for label, counts in taken.items() if label and label not in outputs}
    firsts = {label: counts for label, counts in given.items() if label and label not in taken}
    return lasts, firsts


def _in_step(taken: NDArray[np.int64], given: NDArray[np.int64]) -> bool:
    least = min(int(taken[-1] - taken[0]), int(given[-1] - given[0]))
    if least < _FEWEST:
        return False
    return int(np.ptp(taken - given)) <= min(_MOST_APART, max(4, _IN_STEP * least))


def in_circles(ends: Sequence[tuple[str, str]]) -> set[int]:
    """The queues whose drain is, by whatever way, in front of their source.

    Args:
        ends: of each queue, the nodes that fill and drain it.
    """
    names = {name: i for i, name in enumerate(dict.fromkeys(name for pair in ends for name in pair))}
    reach = np.zeros((len(names), len(names)), np.bool_)
    for source, drain in ends:
        if source and drain and source != drain:
            reach[names[source], names[drain]] = True
    steps = 1
    while steps < len(names):
        reach |= reach @ reach
        steps *= 2
    return {
        row
        for row, (source, drain) in enumerate(ends)
        if source and drain and source != drain and reach[names[drain], names[source]]
    }
