"""What makes the slow requests slow: the part by which they differ from the median ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb

from latlab.model.requests import PartKind, TailAnswer
from latlab.requests.parts import Spent

__all__ = ["tail_answer"]

_FEWEST = 5  # slow requests of which something is said
_LONGER = 1.5  # times as long as the median ones, for there to be a tail
_MAIN = 0.5  # of the difference
_AGREE = 0.55  # of those slow ones that are really long
_USUAL = 0.1  # of the median ones may show the same
_RARE = 1e-3  # p value


def tail_answer(tail: Sequence[Spent], median: Sequence[Spent]) -> TailAnswer:
    """Which part makes the slow requests longer than the median ones; withheld where no single one does."""
    if len(tail) < _FEWEST or len(median) < _FEWEST:
        return TailAnswer(
            f"too few slow requests were seen ({len(tail)}): observe for longer, with --seconds"
        )
    usual = _means(median)
    means = _means(tail)
    length, usually = sum(means.values()), sum(usual.values())
    if length < _LONGER * usually:
        return TailAnswer("the slow requests are hardly longer than the median ones: there is no tail")
    extra = length - usually
    more = {kind: means[kind] - usual.get(kind, 0.0) for kind in means}
    ranked = sorted(more, key=lambda kind: -more[kind])
    said = tuple((kind, more[kind] / extra) for kind in ranked if more[kind] > 0.05 * extra)
    kind = ranked[0]
    slow, few = (sum(_mostly(one, kind, usual, usually, extra) for one in group) for group in (tail, median))
    p_value = _fisher(slow, len(tail), few, len(median))
    where = _where(tail, median, kind, more[kind])
    withheld = ""
    if kind == "unexplained":
        withheld = "most of what makes them longer was not seen"
    elif more[kind] < _MAIN * extra or not _agree(tail, kind, usual, usually, extra):
        withheld = "no single part makes most of them longer"
    elif p_value > _RARE or few > _USUAL * len(median):
        withheld = "median requests show the same"
    elif kind == "runnable" and not where:
        # What observes takes CPU time as well, and is nobody's neighbour in the schedule.
        withheld = (
            "they waited for CPUs, and no single thread had these most of the time; latlab's own work may be "
            "a part of it, so observe on a machine with a CPU to spare"
        )
    return TailAnswer(
        withheld, kind, where, extra, more[kind] / extra,
        slow, len(tail), few, len(median), p_value, said,
    )  # fmt: skip


def _agree(
    tail: Sequence[Spent], kind: PartKind, usual: Mapping[PartKind, float], usually: float, extra: float
) -> bool:
    """Whether this part is the main one in most of the long requests, and stays it without the longest.

    Some of the slow ones are hardly longer than the median: what they spend their time on decides nothing.
    """
    long = [one for one in tail if sum(one.values()) - usually > _MAIN * extra]
    agreeing = sum(_mostly(one, kind, usual, usually, extra) for one in long)
    rest = sorted(tail, key=lambda one: sum(one.values()))[:-1]
    means = _means(rest)
    remaining = sum(means.values()) - usually
    own = means.get(kind, 0.0) - usual.get(kind, 0.0)
    return agreeing >= _AGREE * len(long) and own >= _MAIN * remaining


def _means(group: Sequence[Spent]) -> dict[PartKind, float]:
    found: dict[PartKind, float] = {}
    for one in group:
        for (kind, _), ns in one.items():
            found[kind] = found.get(kind, 0.0) + ns / len(group)
    return found


def _mostly(
    one: Spent, kind: PartKind, usual: Mapping[PartKind, float], usually: float, extra: float
) -> bool:
    """Whether this request is longer than the median ones, and by this part for the most."""
    longer = sum(one.values()) - usually
    own = sum(ns for (part, _), ns in one.items() if part == kind) - usual.get(kind, 0.0)
    # A median request that happens to be a little longer than the others is no slow one.
    return longer > 0.1 * extra and own > _MAIN * longer


def _where(tail: Sequence[Spent], median: Sequence[Spent], kind: PartKind, more: float) -> str:
    """The place that makes most of this part's difference; "" where no single one does."""
    places: dict[str, float] = {}
    for group, sign in ((tail, 1.0), (median, -1.0)):
        for one in group:
            for (part, where), ns in one.items():
                if part == kind:
                    places[where] = places.get(where, 0.0) + sign * ns / len(group)
    best = max(places, key=lambda where: places[where], default="")
    return best if best and places[best] > _MAIN * more else ""


def _fisher(hits: int, among: int, others: int, of_others: int) -> float:
    """The chance of at least so many hits among the first group, were they drawn from both alike."""
    every, total = hits + others, among + of_others
    whole = comb(total, among)
    ways = sum(comb(every, k) * comb(total - every, among - k) for k in range(hits, min(every, among) + 1))
    return float(ways / whole) if hits else 1.0
