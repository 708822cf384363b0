"""The humps of a run's latencies, as far as its messages and its clock tell them apart: pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from latlab.model.messaging.results import Hump
from latlab.stats.shapes.humps import find_humps
from latlab.stats.thinning import drawn

__all__ = ["hump_sample", "humps_of"]

Integers = npt.NDArray[np.int64]
# Not 5 %: the dip test is exact for independent values of a uniform distribution, and neighbours are alike.
_LEVEL = 0.01
_COARSEST_NS = 1000.0  # counters of time stamps have steps of nanoseconds; some virtual ones, of tens
# Of fewer messages than these a hump may be missed: where it shows at a weaker level, and of very few
# messages, where one hump is all that shows.
_ENOUGH, _FEW, _WEAK_LEVEL = 500, 100, 0.2
_READINGS = 2.0  # of the clock, which a loop that looks for messages takes in turn


def humps_of(latency: Integers, clock_ns: float) -> tuple[tuple[Hump, ...], float, bool]:
    """(the humps, the p-value of the dip test, whether the messages are too few to tell their number).

    Args:
        latency: of each message, ns.
        clock_ns: how long a reading of the clock takes. A loop that polls stamps at multiples of it: these
            steps are not humps of the latency.
    """
    sample = hump_sample(latency)
    found = find_humps(sample, alpha=_LEVEL, coarsest=_COARSEST_NS)
    humps = _told_apart([Hump(h.at, h.weight) for h in found.humps], _READINGS * clock_ns)
    unsure = 0 < latency.size < _FEW and len(found.humps) == 1
    if not unsure and latency.size < _ENOUGH:
        weak = find_humps(sample, alpha=_WEAK_LEVEL, coarsest=_COARSEST_NS)
        unsure = len(weak.humps) > len(found.humps)
    return humps, found.p_value, unsure


def _told_apart(humps: list[Hump], apart_ns: float) -> tuple[Hump, ...]:
    """Humps that are closer together than the clock tells are one, where the heaviest is."""
    groups: list[list[Hump]] = []
    for hump in humps:
        if groups and hump.at_ns - groups[-1][-1].at_ns < apart_ns:
            groups[-1].append(hump)
        else:
            groups.append([hump])
    return tuple(
        Hump(max(group, key=lambda hump: hump.weight).at_ns, sum(hump.weight for hump in group))
        for group in groups
    )


def hump_sample(latency: Integers, most: int = 10_000) -> Integers:
    """The latencies that are tested for humps: neighbours are alike, and the test is of independent values.

    Drawn at random: every k-th one would meet a period of the traffic always or never.
    """
    return drawn(latency, most)
