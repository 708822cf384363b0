"""A type of stages, or one stage of it: what is named where several stages do the same work.

Stages of one type that are slow alike share the lead, so that none of them stands out alone: their type is
ranked as one stage, by the mean of its instances, against all others. Where one stands out, and each of its
siblings needs about as long for an event, the type is named as well: making that one faster would only move
the place.
"""

from __future__ import annotations

import numpy as np

from latlab.queues.judge.measures.measured import Measured
from latlab.queues.judge.ranking import Ranking, rank

__all__ = ["rank_types", "type_of_alike"]

_ALIKE = 0.5  # a sibling whose events take at least half as long is slow too
_NEAR = 0.85  # the instances of a type that limits are all about as busy as their mean


def rank_types(measured: Measured, *, loaded: bool) -> tuple[str, int, Ranking] | None:
    """The type that limits where no single stage does: (type, its busiest stage, ranking); else None."""
    groups = _groups(measured)
    several = [members for members in groups if len(members) > 1]
    if not several:
        return None
    busy = np.array([measured.work[members].mean(axis=0) for members in groups])
    per = np.array([measured.per[members].mean(axis=0) for members in groups])
    error = np.array([measured.error[members].max() for members in groups])
    found = rank(busy, per, loaded=loaded, error=error)
    if found.named is None or len(groups[found.named]) < 2:
        return None
    members = groups[found.named]
    shares = measured.work[members].sum(axis=1) / np.maximum(measured.per[members].sum(axis=1), 1e-12)
    if shares.min() < _NEAR * shares.mean():
        return None
    return measured.views[members[0]].type, members[int(shares.argmax())], found


def type_of_alike(measured: Measured, named: int) -> str | None:
    """The type of a stage that limits, if it has siblings and an event takes about as long at each.

    One that has most of their events, as of a hot partition, is named itself: less of them would do, too.
    """
    own = _service(measured, named)
    type_ = measured.views[named].type
    siblings = [i for i, view in enumerate(measured.views) if type_ and view.type == type_ and i != named]
    times = [_service(measured, i) for i in siblings if measured.taken[i].sum() > 0]
    busy = max((float(measured.work[i].sum()) for i in siblings), default=0.0)
    if busy < _ALIKE * float(measured.work[named].sum()):
        return None
    return type_ if times and own > 0 and all(time >= _ALIKE * own for time in times) else None


def _groups(measured: Measured) -> list[list[int]]:
    """Stages by type; a stage without a type is a group of its own."""
    groups: dict[tuple[str, int], list[int]] = {}
    for i, view in enumerate(measured.views):
        groups.setdefault((view.type, -1) if view.type else ("", i), []).append(i)
    return list(groups.values())


def _service(measured: Measured, i: int) -> float:
    """Seconds of work an event."""
    return float(measured.work[i].sum()) / max(1, int(measured.taken[i].sum()))
