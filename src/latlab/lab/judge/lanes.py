"""Lanes: threads that do the same, each with a queue of its own from the same source.

Where one has more to do than the others it is told by its own name. Where all are as busy as each other they
are one pool, as the threads in which anyio runs what blocks, and it is the pool that limits.
"""

from __future__ import annotations

import re

from latlab.model.queues.analysis import Analysis, Verdict
from latlab.model.queues.observation import Observation

__all__ = ["alike_lanes", "near"]

_ALIKE = 0.8  # of what the busiest stage is busy for
_NUMBER = re.compile(r"[-_ #]?\d+$")


def near(busy: dict[str, float]) -> set[str]:
    """Those that are about as busy as the busiest."""
    most = max(busy.values(), default=0.0)
    return {label for label, part in busy.items() if part >= _ALIKE * most}


def alike_lanes(found: Analysis, observation: Observation) -> dict[str, str]:
    """Of lanes of which none could be told from the others: by the label of each that of all; else empty.

    Also where none of them is busy all the time, as when fewer work at once than there are.
    """
    if found.verdict not in (Verdict.UNKNOWN, Verdict.NONE) or found.scarce:
        return {}
    busy = ((one.label, one.utilisation) for one in found.stages if one.rate_hz > 0)
    lanes = near({label: part for label, part in busy if part is not None})
    names = {_NUMBER.sub("", label) for label in lanes}
    if len(lanes) < 2 or len(names) != 1 or not all(names):
        return {}
    name = names.pop()
    feeds: dict[str, set[str]] = {label: set() for label in lanes}
    for queue in observation.queues:
        if queue.drain in feeds:
            feeds[queue.drain].update(queue.sources)
    of_all = set.intersection(*feeds.values())
    # One after the other they would be no pool; and the name may be that of one that has less to do.
    if (
        not of_all
        or lanes & set().union(*feeds.values())
        or name in {one.label for one in found.stages} - lanes
    ):
        return {}
    return dict.fromkeys(lanes, name)
