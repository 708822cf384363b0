"""What limits at each point of a forecast: the stage up to its knee, then what takes over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from latlab.model.diagnosis.answer import Forecast, ForecastPoint
from latlab.model.queues.analysis import Verdict

__all__ = ["most_named", "with_limits"]

_SILENT = frozenset((str(Verdict.NONE), str(Verdict.UNKNOWN)))  # a run with these names nothing


def with_limits(found: Forecast) -> Forecast:
    """A forecast whose points say what limits there, as its knee and what takes over tell.

    Where no speed-up pays, that is what takes over from the first; without a knee only the stage that takes
    no time at all no longer limits. What is not known stays open.
    """
    if found.kind == "open":
        return found

    def of(point: ForecastPoint) -> str | None:
        faster = point.speedup or 0.0
        if found.kind == "none" or faster >= (1.0 if found.knee is None else found.knee.value):
            return found.takes_over
        return found.stage

    return replace(
        found,
        baseline=replace(found.baseline, limits=of(found.baseline)),
        points=tuple(replace(point, limits=of(point)) for point in found.points),
    )


def most_named(limits: Sequence[str]) -> str | None:
    """What most of the runs of a point name, where half of them agree; None where they don't.

    A short run often can't tell two stages apart that are about as slow, and says so: then none is named.
    """
    named = Counter(one for one in limits if one not in _SILENT)
    if not named:
        return None
    name, times = named.most_common(1)[0]
    return name if 2 * times >= len(limits) else None
