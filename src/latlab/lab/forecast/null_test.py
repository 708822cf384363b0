"""The null test of a forecast: the stub at 0 % must do what the unmodified system does.

A difference between the two that is as large as the gain that is claimed proves none: nothing is claimed. A
smaller one widens every interval, so that it holds what the points are against either of the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from latlab.model.diagnosis.answer import Forecast, ForecastPoint, Interval
from latlab.model.evidence.forecast import ForecastWarning, Withheld
from latlab.model.evidence.said import said

__all__ = ["NullTest", "null_test", "with_drift", "withheld"]

_MOST_FLOOR = 0.25  # of the time that the machine takes: then no two runs are alike
_SMALL = 0.01  # what two runs of one program differ by
_MORE_BUDGET = 4  # times the budget: half the error
_MOST_BUDGET = 40  # times: what takes longer isn't worth the wait


@dataclass(frozen=True, slots=True)
class NullTest:
    """Why a forecast is not to be believed.

    Attributes:
        drift: relative difference of the stub at 0 % from the unmodified system.
        gain: relative gain that is claimed for the first speed-up.
        floor: share of the time that the machine takes by itself, where that alone is the reason; else None.
        more: times the budget that would settle it; None: none would, since the stub changes the system.
    """

    drift: float
    gain: float
    floor: float | None = None
    more: int | None = _MORE_BUDGET


def null_test(found: Forecast, floor_share: float) -> NullTest | None:
    """The reason to withhold a measured forecast; None where it passes, or is a model."""
    if found.method != "stub":
        return None
    stubbed = next((point for point in found.points if point.speedup == 0.0), None)
    faster = next((point for point in found.points if point.speedup), None)
    if stubbed is None or faster is None:
        return None
    drift, gain = _relative(found.baseline, stubbed), _relative(found.baseline, faster)
    if drift is None or gain is None:
        return None
    if abs(drift) > abs(gain) or (abs(drift) > abs(gain - drift) and abs(drift) > _SMALL):
        return NullTest(drift, gain, more=_settling(found.baseline, stubbed, drift, gain))
    return NullTest(drift, gain, floor_share) if floor_share > _MOST_FLOOR else None


def with_drift(found: Forecast) -> Forecast:
    """A measured forecast whose intervals hold the drift of its stub at 0 %; a model as it is."""
    stubbed = next((point for point in found.points if point.speedup == 0.0), None)
    if found.method != "stub" or stubbed is None:
        return found
    factors = {name: _factor(found.baseline, stubbed, name) for name in _DRIFTS}
    points = tuple(
        point
        if point.speedup == 0.0
        else replace(
            point,
            rate_hz=_widened(point.rate_hz, factors["rate_hz"]),
            capacity_hz=_widened(point.capacity_hz, factors["capacity_hz"]),
            time_ns=_widened(point.time_ns, factors["time_ns"]),
        )
        for point in found.points
    )
    drift = _relative(found.baseline, stubbed) or 0.0
    more = (said(ForecastWarning.DRIFT, drift=abs(drift)),) if abs(drift) > _SMALL else ()
    return replace(found, points=points, warnings=found.warnings + more)


_DRIFTS = ("rate_hz", "capacity_hz", "time_ns")  # what has a mean; a tail's own interval is wider than that


def _factor(base: ForecastPoint, stubbed: ForecastPoint, name: str) -> float:
    """What a value of a stub is multiplied with, to be one of the unmodified system."""
    before, after = getattr(base, name), getattr(stubbed, name)
    if before is None or after is None or before.value <= 0 or after.value <= 0:
        return 1.0
    return float(before.value / after.value)


def _widened(found: Interval | None, factor: float) -> Interval | None:
    if found is None or found.low is None or found.high is None:
        return found
    return Interval(found.value, min(found.low, found.low * factor), max(found.high, found.high * factor))


def _settling(base: ForecastPoint, stubbed: ForecastPoint, drift: float, gain: float) -> int | None:
    """Times the budget with which the drift would be known to half the gain; None where it is real."""
    error = math.hypot(*(_half(point) for point in (base, stubbed)))
    if not error or not gain:
        return _MORE_BUDGET
    if abs(drift) > 2 * error:
        return None
    return max(2, min(_MOST_BUDGET, math.ceil((2 * error / abs(gain)) ** 2)))


def _half(point: ForecastPoint) -> float:
    """Half the relative width of what a point is judged by."""
    found = point.capacity_hz or point.time_ns or point.rate_hz
    if found is None or found.low is None or found.high is None or found.value <= 0:
        return 0.0
    return (found.high - found.low) / 2 / found.value


def withheld(found: Forecast, floor_share: float, budget_s: float, *, tried: bool = False) -> str | None:
    """Why a forecast is withheld, with what would settle it; None where it passes.

    Args:
        floor_share: of the time that the machine takes by itself.
        budget_s: that it was made with.
        tried: it is told all the same, as uncertain, since the fix is tried and stands beside it.
    """
    failed = null_test(found, floor_share)
    if failed is None:
        return None
    again = (
        said(Withheld.LARGER_BUDGET, seconds=failed.more * budget_s)
        if failed.more is not None
        else said(Withheld.NO_RUNS_HELP)
    )
    of_it = {
        "stage": found.stage,
        "fate": said(Withheld.TRIED if tried else Withheld.KEPT_BACK),
        "again": again,
    }
    if failed.floor is not None:
        return said(Withheld.NOISE, floor=failed.floor, **of_it)
    return said(Withheld.DRIFT, drift=abs(failed.drift), gain=abs(failed.gain), **of_it)


def _relative(base: ForecastPoint, other: ForecastPoint) -> float | None:
    """How much more the other carries: of throughput, or of the inverse of a command's time."""
    for name, better_is_more in (("capacity_hz", True), ("time_ns", False), ("rate_hz", True)):
        before, after = getattr(base, name), getattr(other, name)
        if before is not None and after is not None and before.value > 0 and after.value > 0:
            ratio: float = after.value / before.value
            return ratio - 1 if better_is_more else 1 / ratio - 1
    return None
