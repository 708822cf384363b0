"""The humps of a run's latencies, as far as its messages and its clock tell them apart: pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from latlab.model.messaging.results import Hump, SlowPeriod
from latlab.stats.shapes.humps import Humps, find_humps

__all__ = ["hides_a_rare_way", "humps_of"]

Integers = npt.NDArray[np.int64]
# Not 5 %: the dip test is exact for independent values of a uniform distribution, and neighbours are alike.
_LEVEL = 0.01
_COARSEST_NS = 1000.0  # counters of time stamps have steps of nanoseconds; some virtual ones, of tens
# Of fewer messages than these a hump may be missed: where it shows at a weaker level, and of very few
# messages, where one hump is all that shows.
_ENOUGH, _FEW, _WEAK_LEVEL = 500, 100, 0.2
_ENOUGH_OF_RARE, _WEAK_LEVEL_OF_RARE = 20_000, 0.1  # of which 20 took a way that one of 1,000 takes
_TESTED = 10_000  # drawn at random: neighbours are alike, and every k-th would alias with the traffic
_LEAST_SHARE = 0.0005  # of the messages, that take a way of their own: every thousandth is a hump
# A rare hump, lighter than this, takes so many times as long as the one before it: what a stall delays is
# late in steps of the messages' distance.
_RARE, _ANOTHER_WAY = 0.02, 1.5
_APART = 0.02  # of the latency, that no message takes beside a rare hump: the steps of clocks are shorter
_READINGS = 2.0  # of the clock, which a loop that looks for messages takes in turn


def humps_of(latency: Integers, clock_ns: float) -> tuple[tuple[Hump, ...], float, bool]:
    """(the humps, the p-value of the dip test, whether the messages are too few to tell their number).

    Args:
        latency: of each message, ns.
        clock_ns: how long a reading of the clock takes. A loop that polls stamps at multiples of it: these
            steps are not humps of the latency.
    """
    found = _find(latency, _LEVEL)
    humps = _told_apart([Hump(h.at, h.weight) for h in found.humps], _READINGS * clock_ns)
    unsure = 0 < latency.size < _FEW and len(found.humps) == 1
    if not unsure and latency.size < _ENOUGH_OF_RARE:
        weak = _find(latency, _WEAK_LEVEL if latency.size < _ENOUGH else _WEAK_LEVEL_OF_RARE)
        unsure = len(weak.humps) > len(found.humps)
    return humps, found.p_value, unsure


def hides_a_rare_way(humps: Sequence[Hump], period: SlowPeriod | None) -> bool:
    """Whether every k-th message is slow, and none of the later humps is of about as many messages."""
    if period is None or period.every is None or not humps:
        return False
    weight = 1 / period.every
    return not any(0.5 * weight <= hump.weight <= 2 * weight for hump in humps[1:])


def _find(latency: Integers, level: float) -> Humps:
    return find_humps(
        latency,
        alpha=level,
        coarsest=_COARSEST_NS,
        max_values=_TESTED,
        least_share=_LEAST_SHARE,
        apart=_APART,
    )


def _told_apart(humps: list[Hump], apart_ns: float) -> tuple[Hump, ...]:
    """Humps that are closer together than the clock tells are one, where the heaviest is, and a rare one is
    one with its neighbour unless that takes another way altogether."""
    groups: list[list[Hump]] = []
    for hump in humps:
        if groups and hump.at_ns - groups[-1][-1].at_ns < apart_ns:
            groups[-1].append(hump)
        else:
            groups.append([hump])
    found = [_one(group) for group in groups]
    while True:
        near = [
            i
            for i in range(len(found) - 1)
            if min(found[i].weight, found[i + 1].weight) < _RARE
            and found[i + 1].at_ns < _ANOTHER_WAY * found[i].at_ns
        ]
        if not near:
            return tuple(found)
        i = min(near, key=lambda i: found[i + 1].at_ns / found[i].at_ns)
        found[i : i + 2] = [_one(found[i : i + 2])]


def _one(humps: Sequence[Hump]) -> Hump:
    return Hump(max(humps, key=lambda hump: hump.weight).at_ns, sum(hump.weight for hump in humps))
