"""The null test of a forecast: the stub at 0 % must do what the unmodified system does.

A difference between the two that is as large as the gain that is claimed proves none: nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass

from latlab.model.answer import Forecast, ForecastPoint
from latlab.words import share

__all__ = ["NullTest", "null_test", "withheld"]

_MOST_FLOOR = 0.25  # of the time that the machine takes: then no two runs are alike
_SMALL = 0.01  # what two runs of one program differ by
_MORE_BUDGET = 4  # times the budget: half the error


@dataclass(frozen=True, slots=True)
class NullTest:
    """Why a forecast is not to be believed.

    Attributes:
        drift: relative difference of the stub at 0 % from the unmodified system.
        gain: relative gain that is claimed for the first speed-up.
        floor: share of the time that the machine takes by itself, where that alone is the reason; else None.
    """

    drift: float
    gain: float
    floor: float | None = None


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
        return NullTest(drift, gain)
    return NullTest(drift, gain, floor_share) if floor_share > _MOST_FLOOR else None


def withheld(found: Forecast, floor_share: float, budget_s: float) -> str | None:
    """Why a forecast is withheld, with what would settle it; None where it passes.

    Args:
        floor_share: of the time that the machine takes by itself.
        budget_s: that it was made with.
    """
    failed = null_test(found, floor_share)
    if failed is None:
        return None
    again = f"repeat it with --budget {_MORE_BUDGET * budget_s:.0f}"
    if failed.floor is not None:
        return (
            f"the forecast for {found.stage} is withheld: the machine takes {share(failed.floor)} of time "
            f"by itself; quiet it (latlab system check), then {again}"
        )
    return (
        f"the forecast for {found.stage} is withheld: its stub at 0 % differs from the unmodified system by "
        f"{share(abs(failed.drift), digits=1)}, and the claimed gain is {share(abs(failed.gain), digits=1)}; "
        f"{again}"
    )


def _relative(base: ForecastPoint, other: ForecastPoint) -> float | None:
    """How much more the other carries: of throughput, or of the inverse of a command's time."""
    for name, better_is_more in (("capacity_hz", True), ("time_ns", False), ("rate_hz", True)):
        before, after = getattr(base, name), getattr(other, name)
        if before is not None and after is not None and before.value > 0 and after.value > 0:
            ratio: float = after.value / before.value
            return ratio - 1 if better_is_more else 1 / ratio - 1
    return None
