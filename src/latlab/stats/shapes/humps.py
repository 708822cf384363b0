"""Humpiness: how many humps a distribution has, where, how heavy, and how sure one may be of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab.stats.shapes.dip import critical_dip, dip_p_value, dip_statistic

__all__ = ["Hump", "Humps", "dip_p_value", "dip_statistic", "find_humps"]

Floats = npt.NDArray[np.float64]


# A hump that is told by the gaps beside it has at least so many values, and this share of all.
_FEWEST_BEYOND = 5
_LEAST_SHARE = 0.02
_GAP_PART = 0.5  # of the level is for the empty stretches
_MOST_FOR_WEIGHTS = 1_000_000
_MOST_FOR_GAPS = 100_000  # values: of them a hump of 0.05 % has 50


@dataclass(frozen=True)
class Hump:
    """One mode of a distribution, in the unit of the values.

    Args:
        at: its location: the middle of the shortest interval with 30 % of its values.
        weight: the part of all values that lies between the valleys at its sides; the weights add up to 1.
        low: the smallest value that belongs to it; of more than a million values, of so many of them.
        high: the largest one, likewise.
    """

    at: float
    weight: float
    low: float
    high: float


@dataclass(frozen=True)
class Humps:
    """The verdict: one hump unless the dip test rejects unimodality at `alpha`.

    Args:
        humps: by location, rising; empty for no values.
        dip: Hartigan's statistic of the values that were tested.
        p_value: the chance of such a dip in unimodal (uniform) independent values; never below 0.0005.
        tested: how many values the test saw (a seeded sample of larger series).
        alpha: the level at which more than one hump is reported.
    """

    humps: tuple[Hump, ...]
    dip: float
    p_value: float
    tested: int
    alpha: float

    @property
    def multimodal(self) -> bool:
        """Whether there is more than one hump."""
        return len(self.humps) > 1


def find_humps(
    values: npt.ArrayLike,
    *,
    alpha: float = 0.05,
    quantum: float | None = None,
    coarsest: float = np.inf,
    max_values: int = 20_000,
    seed: int = 0,
    least_share: float = _LEAST_SHARE,
    apart: float = 0.0,
) -> Humps:
    """Test whether the values have one hump, and find the humps if not.

    The dip test decides whether there is more than one. The taut string through the empirical distribution,
    in a tube of the test's critical radius, then has the fewest modes that the data allow; its steepest
    pieces are the humps and its flattest pieces between them the valleys (P. L. Davies and A. Kovac, Local
    extremes,
    runs, strings and multiresolution, Annals of Statistics 29 (2001)). Nothing depends on a bandwidth or on
    the unit, so a long tail isn't taken for humps. A few per cent of not many values are too few for the dip,
    and so are many humps: those are cut where an empty stretch can't be by chance, whatever one hump's form.
    Of a rare hump, lighter than 2 %, only values whose predecessor is not in it are counted there: what a
    single stall delayed is alike without being a way that messages take.

    The p-value is that of independent values. Latencies that follow one another are alike; test a thinned
    series where that matters.

    Args:
        values: one-dimensional, as they followed one another, which counts for rare humps alone; values that
            are not finite raise ValueError.
        alpha: the chance of finding more than one hump where there is one.
        quantum: the step of the clock that measured the values. Ties are spread over it, since a coarse clock
            is not a reason for humps. Detected when None.
        coarsest: no clock that measured the values has longer steps: what repeats at a longer distance are
            humps of equal values.
        max_values: larger series are tested on a random sample of this size (20,000 show a hump of 2 %).
        seed: of that sample.
        least_share: of the values, that a hump has which is told by the gaps beside it.
        apart: the least stretch beside a rare hump, as a share of the value there.
    """
    every: npt.NDArray[Any] = np.asarray(values).ravel()
    if every.dtype.kind not in "iu":  # integers become floats where they are drawn: there may be millions
        every = every.astype(np.float64)
        if not np.all(np.isfinite(every)):
            raise ValueError("humps are of finite values only")
    if every.size == 0:
        return Humps((), 0.0, 1.0, 0, alpha)
    x = _sorted(every[_rows(every.size, max_values, seed)], quantum, coarsest)
    dip = dip_statistic(x)
    p_value = dip_p_value(dip, x.size)
    cuts = _valleys(x, min(critical_dip(alpha, x.size), 0.95 * dip)) if p_value <= alpha else []
    level = _GAP_PART * alpha
    cuts = sorted([*cuts, *_empty_stretches(x, cuts, level, _LEAST_SHARE)])
    if least_share < _LEAST_SHARE:
        rows = _rows(every.size, _MOST_FOR_GAPS, seed)
        wide = _sorted(every[rows], quantum, coarsest)
        rare = _empty_stretches(wide, cuts, level, least_share, apart)
        if rare:  # once more, by the values alone that began a visit there
            visits = every[rows[~_stayed(every, rows, wide, sorted([*cuts, *rare]))]]
            visits = _sorted(visits, quantum, coarsest)
            rare = _empty_stretches(visits, cuts, level, least_share, apart)
        if rare:
            cuts, x = _beside_rare(wide, cuts, rare), wide
    if every.size > _MOST_FOR_WEIGHTS:
        every = every[_rows(every.size, _MOST_FOR_WEIGHTS, seed)]
    return Humps(_between(every.astype(np.float64), x, cuts), dip, p_value, int(x.size), alpha)


def _sorted(values: npt.NDArray[Any], quantum: float | None, coarsest: float) -> Floats:
    """Ascending, with ties spread over the clock's step."""
    return _spread_ties(np.sort(values.astype(np.float64)), quantum, coarsest)


def _rows(count: int, most: int, seed: int) -> npt.NDArray[np.int64]:
    """At most this many of the values' places, drawn at random."""
    if count <= most:
        return np.arange(count, dtype=np.int64)
    return np.random.default_rng(seed).choice(count, most, replace=False)


def _stayed(
    every: npt.NDArray[Any], rows: npt.NDArray[np.int64], x: Floats, cuts: list[float]
) -> npt.NDArray[np.bool_]:
    """Which of these are in a rare hump after one that is in that or in another rare one."""
    weights = np.diff(np.searchsorted(x, cuts), prepend=0, append=x.size)
    rare = weights < _LEAST_SHARE * x.size
    before = every[np.maximum(rows - 1, 0)]
    stayed: npt.NDArray[np.bool_] = rare[np.searchsorted(cuts, every[rows])]
    return stayed & rare[np.searchsorted(cuts, before)] & (rows > 0)


def _beside_rare(x: Floats, cuts: list[float], rare: list[float]) -> list[float]:
    """The cuts, and those further ones that part a rare hump from another; heavy ones are known already."""
    edges = sorted([*cuts, *rare])
    weights = np.diff(np.searchsorted(x, edges), prepend=0, append=x.size)
    light = weights < _LEAST_SHARE * x.size
    return [cut for i, cut in enumerate(edges) if cut in cuts or light[i] or light[i + 1]]


def _empty_stretches(
    x: Floats, cuts: list[float], level: float, least_share: float, apart: float = 0.0
) -> list[float]:
    """The middles of stretches that are empty although there are many values close together on both sides.

    Each part between the cuts is one hump until a stretch is found in it, and then each side of that.
    """
    least = max(_FEWEST_BEYOND, math.ceil(least_share * x.size))
    places = [0, *np.searchsorted(x, sorted(cuts)).tolist(), x.size]
    parts, found = list(pairwise(places)), []
    while parts:
        begin, end = parts.pop()
        place = _widest_sure(x[begin:end], least, x.size, level, apart)
        if place is not None:
            found.append(float(x[begin + place - 1] + x[begin + place]) / 2)
            parts += [(begin, begin + place), (begin + place, end)]
    return found


def _widest_sure(x: Floats, least: int, most_looks: int, level: float, apart: float) -> int | None:
    """The first value beyond the widest stretch that is not empty by chance, if these have one hump.

    At one side of it at least, the density of a single hump does not rise from the stretch outwards. Of the j
    values that follow the one before it, j - 1 lie between two known places, and the chance that none of them
    is in the stretch is at most (1 - stretch / distance of the places)^(j - 1), as for equal density.
    Both sides have to be that unlikely, the better j of each counting, times the number of looks.
    """
    if x.size < 2 * least:
        return None
    at = np.arange(least, x.size - least + 1)  # the first value beyond
    gap = x[at] - x[at - 1]
    wide = gap > apart * np.abs(x[at])
    at, gap = at[wide], gap[wide]
    if not at.size:
        return None
    beyond = np.maximum(_log_chance(x, at, gap), _log_chance(-x[::-1], x.size - at, gap))
    smaller = np.minimum(at, x.size - at)
    # Only values outside of the middle 90 % of the larger part can be as far apart as those are.
    low = np.where(at <= x.size // 2, at + 0.05 * (x.size - at), 0.05 * at).astype(np.int64)
    high = np.where(at <= x.size // 2, at + 0.95 * (x.size - at - 1), 0.95 * (at - 1)).astype(np.int64)
    looks = np.where(gap >= x[high] - x[low], 2 * smaller, most_looks)
    sure = beyond + np.log(looks) <= math.log(level)
    return int(at[sure][np.argmax(gap[sure])]) if sure.any() else None


def _log_chance(x: Floats, at: npt.NDArray[np.int64], gap: Floats) -> Floats:
    """The logarithm of the chance of so empty a stretch before each x[at], by the values from there on."""
    found = np.zeros(at.size)
    counts, count = [], _FEWEST_BEYOND
    while count <= x.size // 2:
        counts.append(count)
        count = count * 3 // 2
    for count in counts:
        inside = at + count <= x.size
        distance = x[at[inside] + count - 1] - x[at[inside] - 1]
        chance = (count - 1) * np.log1p(-np.minimum(gap[inside] / distance, 1 - 1e-12))
        found[inside] = np.minimum(found[inside], chance)
    rest = x.size - at
    chance = (rest - 1) * np.log1p(-np.minimum(gap / (x[-1] - x[at - 1]), 1 - 1e-12))
    return np.asarray(np.minimum(found, chance) + math.log(len(counts) + 1))


def _between(every: Floats, x: Floats, cuts: list[float]) -> tuple[Hump, ...]:
    if not cuts:
        low, high = float(every.min()), float(every.max())
        return (Hump(float(np.clip(_shorth(x), low, high)), 1.0, low, high),)
    edges = [-np.inf, *cuts, np.inf]
    belongs = np.searchsorted(cuts, every)
    found = []
    for number, (low, high) in enumerate(pairwise(edges)):
        inside = x[(x > low) & (x <= high)]
        members = every[belongs == number]
        if members.size and inside.size:
            at = float(np.clip(_shorth(inside), members.min(), members.max()))
            weight = members.size / every.size
            found.append(Hump(at, weight, float(members.min()), float(members.max())))
    return tuple(found)


def _shorth(x: Floats) -> float:
    """The middle of the shortest interval that holds 30 % of sorted values."""
    count = max(2, int(np.ceil(0.3 * x.size)))
    if x.size < count:
        return float(x[0])
    width = x[count - 1 :] - x[: x.size - count + 1]
    first = int(np.argmin(width))
    return float((x[first] + x[first + count - 1]) / 2.0)


def _spread_ties(x: Floats, quantum: float | None, coarsest: float) -> Floats:
    """Sorted values with each group of ties spread evenly over the clock step that it stands for."""
    points, first, counts = np.unique(x, return_index=True, return_counts=True)
    if points.size == x.size or points.size < 2:
        return x
    gaps = np.diff(points)
    step = quantum if quantum is not None else min(_clock_step(x, points), coarsest)
    half_before = np.minimum(np.concatenate([[step], gaps]), step) / 2.0
    half_after = np.minimum(np.concatenate([gaps, [step]]), step) / 2.0
    rank = np.arange(x.size) - np.repeat(first, counts)
    part = (rank + 0.5) / np.repeat(counts, counts)
    width = np.repeat(half_before + half_after, counts)
    return np.asarray(np.repeat(points - half_before, counts) + part * width)


def _clock_step(x: Floats, points: Floats) -> float:
    """The usual distance of neighbours where most values are; a handful of points' common divisor."""
    gaps = np.diff(points)
    if points.size < 8 and np.all(points == np.rint(points)) and abs(points).max() < 2**53:
        return float(np.gcd.reduce(points.astype(np.int64)))
    middle = (points[:-1] >= x[int(0.05 * x.size)]) & (points[1:] <= x[min(x.size - 1, int(0.95 * x.size))])
    return float(np.median(gaps[middle] if middle.any() else gaps))


def _valleys(x: Floats, radius: float) -> list[float]:
    """Where the taut string in a tube of this radius is flattest between its modes."""
    at, height = _taut_string(x, radius)
    slopes = np.diff(height) / np.maximum(np.diff(at), np.finfo(np.float64).tiny)
    if slopes.size == 0:
        return []
    keep = np.concatenate([[True], np.diff(slopes) != 0.0])
    starts = np.flatnonzero(keep)
    runs = slopes[starts]
    ends = np.append(starts[1:], slopes.size)
    return [
        float((at[starts[i]] + at[ends[i]]) / 2.0)
        for i in range(1, runs.size - 1)
        if runs[i] < runs[i - 1] and runs[i] < runs[i + 1]
    ]


def _taut_string(x: Floats, radius: float) -> tuple[list[float], list[float]]:
    """The shortest path through the tube around the empirical distribution, pinned at both ends.

    The funnel algorithm: the path's last fixed knot, and from it the greatest convex chain below the upper
    wall and the least concave chain above the lower wall, until one crosses the other.
    """
    points, first = np.unique(x, return_index=True)
    middle = (first + np.append(first[1:], x.size)) / (2.0 * x.size)
    lower, upper = (middle - radius).tolist(), (middle + radius).tolist()
    xs = points.tolist()
    lower[0] = upper[0] = 0.0
    lower[-1] = upper[-1] = 1.0
    knots: list[tuple[float, float]] = [(xs[0], 0.0)]
    above: list[tuple[float, float]] = [knots[0]]  # convex chain under the upper wall
    below: list[tuple[float, float]] = [knots[0]]  # concave chain over the lower wall
    for i in range(1, len(xs)):
        _extend(above, (xs[i], upper[i]), below, knots, convex=True)
        _extend(below, (xs[i], lower[i]), above, knots, convex=False)
    knots += above[1:] if len(above) > 1 else []
    return [knot[0] for knot in knots], [knot[1] for knot in knots]


def _extend(
    chain: list[tuple[float, float]],
    point: tuple[float, float],
    other: list[tuple[float, float]],
    knots: list[tuple[float, float]],
    *,
    convex: bool,
) -> None:
    """Add a point to one chain; where it crosses the other one, that one's first pieces are the string."""
    sign = 1.0 if convex else -1.0
    while len(chain) > 1 and sign * (_slope(chain[-2], chain[-1]) - _slope(chain[-1], point)) >= 0.0:
        chain.pop()
    if len(chain) == 1:
        while len(other) > 1 and sign * (_slope(other[0], other[1]) - _slope(other[0], point)) >= 0.0:
            if other[1][0] >= point[0]:
                break
            other.pop(0)
            knots.append(other[0])
            chain[0] = other[0]
    chain.append(point)


def _slope(a: tuple[float, float], b: tuple[float, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])
