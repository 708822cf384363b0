"""Periods in the times of outliers, with their significance. Pure.

Over 400 lines: one search, whose steps hand each other what they have ruled out.

A threshold hides most beats of a disturbance: only those become outliers that were long enough. So a beat
is looked for that may have missed most of its times: up to `_DENSEST` beats a point, and down to `_SHARE` of
them seen.

Bursts are merged first, until the intervals are no burstier than chance's. The spectrum of the remaining
points (power |Σ exp 2πift|² / N, which is exponential with mean 1 for points without a beat: the Rayleigh
test; Mardia and Jupp, Directional Statistics, 5.3) is divided by its running median, so that a slowly
changing rate raises no peak; the p-value counts all frequencies and all subsets that were looked at
(Bonferroni). Missing beats take nothing from a peak, and whole multiples of a beat's frequency have peaks,
too. So a peak is a period only if

- enough of its expected beats came, and clearly more than chance would put there;
- every second, third … beat came as often as the others: else the true period is a multiple of it;
- its points follow a clock and not one another, as those of regular intervals do (`_wanders`);
- it is not the step of the clock that stamped them: times that were rounded lie on a grid by themselves
  (`clock_step`);
- a whole fraction of a clearer beat has beats of its own (`_stands_alone`), and a multiple of two of them is
  not only where those meet (`_meeting`).

A weak beat drowns among many short outliers. Where lengths are known, the longer ones are searched by
themselves, and where sources are known, each source's.

The file is long since a period's gates and its cause are read together: each gate is tuned on what others let
through.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from latlab.model.evidence.jitter import BeatCause
from latlab.model.evidence.said import kind_of, said
from latlab.model.machine.jitter import Period

__all__ = ["Spectrum", "clearest_spectrum", "clock_step", "find_periods", "merge_bursts", "spectrum"]

_SIGNIFICANT = 1e-4
_SHARE = 0.2  # of the expected beats must have come
_DENSEST = 6.0  # beats a point: the reciprocal of the share, and some room for points off the beat
_MOST_BEATS = 60_000  # in a run; beyond, it is searched up to two beats a point: the spectrum costs most
_IN_PHASE = 0.7  # the concentration above which a wandering beat is still one
_NEIGHBOURS = 0.3  # of regular intervals by chance it is 0.5 and more, of a clock's beat 0
_EACH = 0.98  # of a grid's lines have a time: more than rounded times of chance ever have
_EXACT_NS = 1.0  # times that are this near to a grid were rounded to it, or made on it
_SURELY = 100.0  # times as wide as that, and a grid is none by chance
_LONGER = 13  # times as long, that a beat may really be
_FEW_PARTS = 5
# How far the most and the least frequent part of a beat are apart, in standard errors of a
# difference, once in a thousand by chance: the studentized range (Tukey 1949) over the square root of 2.
_APART = {2: 3.29, 3: 3.58, 4: 3.75, 5: 3.88}
_HARDLY = 0.6  # of how often the others come
_PHASES = 40
_FAR_MORE = 1.5  # times as many
_WINDOW = 0.1  # of the period to both sides is "on the beat"
# Points: the power is at most their number, so with fewer not even one frequency would be significant.
_LEAST = math.ceil(-math.log(_SIGNIFICANT))
# Of the outliers by length, each searched by itself.
_LONGEST = (0.7, 0.5, 0.35, 0.25, 0.17, 0.12, 0.08, 0.05, 0.03, 0.02, 0.01)
_SAME = 2e-3  # periods that differ by less are one
_NEAR = 0.03  # of the period to both sides: the outliers that a cause is asked for
_MOSTLY = 0.5  # of the beat goes with its cause
_PARTLY = 0.15  # of it goes with a candidate
_PRESENT = 0.05  # of it goes with one who may take more time than the first
_KEEPS = 0.5  # a source keeps a beat: its mean vector, where chance has less (Rayleigh's test)
_KEEPS_BY_CHANCE = 12.0
_KEEPS_WELL = 0.9
_KEEPS_BETTER = 0.1  # than another
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Spectrum:
    """Power over frequency: 1 is what points without a beat have on average."""

    frequency_hz: Array
    power: Array


def merge_bursts(times_ns: Array) -> Array:
    """The first point of each burst.

    Points closer than a dead time are one burst. The dead time is the smallest, of a geometric series,
    that leaves
    intervals whose coefficient of variation is at most that of a Poisson process; without bursts nothing
    is merged.
    """
    times = np.sort(np.asarray(times_ns, dtype=np.float64))
    if len(times) < 3:
        return times
    dead = 1_000.0
    merged = times
    while len(merged) >= 3:
        gaps = np.diff(merged)
        if gaps.std() <= 1.1 * gaps.mean() or dead > (times[-1] - times[0]) / 20:
            break
        merged = times[np.concatenate([[True], np.diff(times) > dead])]
        dead *= 1.5
    return merged


def spectrum(times_ns: Array, resolution_ns: float = 0.0) -> Spectrum:
    """The whitened power spectrum of points, up to `_DENSEST` times their mean rate, or to their resolution.

    Args:
        times_ns: ascending.
        resolution_ns: the grid that they were rounded to, if any.
    """
    span = (times_ns[-1] - times_ns[0]) / 1e9
    count = len(times_ns)
    highest = max(2.0 * count, min(_DENSEST * count, _MOST_BEATS)) / span
    if resolution_ns > 0:
        # From there on the spectrum of rounded times is its own mirror image: a beat has two steps and more.
        highest = min(highest, 0.505e9 / resolution_ns)
    # Four bins a highest period keep the loss at the edge under 1 dB; fourfold padding keeps peaks between
    # lines.
    bins = int(4 * highest * span) + 1
    seconds = (times_ns - times_ns[0]) / 1e9
    series = np.bincount((seconds / span * (bins - 1)).astype(np.int64), minlength=bins).astype(float)
    padded = 1 << (4 * bins - 1).bit_length()
    power = np.abs(np.fft.rfft(series - series.mean(), padded)) ** 2 / count
    frequency = np.arange(len(power)) * (bins - 1) / (span * padded)
    keep = (frequency >= 3.0 / span) & (frequency <= highest)
    power, frequency = power[keep], frequency[keep]
    return Spectrum(frequency, power / _floor(power))


def clock_step(times_ns: Array) -> float:
    """The grid that times were rounded to, in ns; 0 where there is none, or where it is a beat.

    What beats is never exact to the nanosecond, what was rounded is. Rounded times of which each line of the
    grid has one at most are the same as those of a beat of which a part came: only where each beat came is
    that one the likelier.
    """
    if len(times_ns) < 2:
        return 0.0
    times_ns = np.sort(times_ns)
    grid = _grid(times_ns)
    if grid <= 1.0:
        return grid
    lines, count = round(float(times_ns[-1] - times_ns[0]) / grid) + 1, len(times_ns)
    alone = len(np.unique(np.rint((times_ns - times_ns[0]) / grid))) == count
    return 0.0 if alone and count >= _EACH * lines else grid


def _grid(ascending_ns: Array) -> float:
    """The widest grid on which all the times lie, in ns; 0 where there is none.

    Its step need be no whole number of nanoseconds: a clock of 1024 Hz has none.
    """
    away = ascending_ns - ascending_ns[0]
    ticks = np.rint(away).astype(np.int64)
    whole = float(np.gcd.reduce(ticks)) if np.abs(away - ticks).max() <= 1e-2 else 0.0
    if whole > _EXACT_NS:
        return whole
    steps = np.diff(ascending_ns)
    steps = steps[steps > _EXACT_NS]
    for part in range(1, _FEW_PARTS + 1) if len(steps) >= _LEAST else ():
        grid = float(steps.min()) / part
        if grid < _SURELY * _EXACT_NS:
            break
        for _ in range(2):
            numbers = np.cumsum(np.rint(np.diff(ascending_ns) / grid))
            grid = float(away[1:] @ numbers / (numbers @ numbers))
        if np.abs(away[1:] - numbers * grid).max() <= _EXACT_NS:
            return grid
    return whole


def _wanders(times: Array, frequency_hz: float) -> bool:
    """Whether each point follows from the one before, and not from a clock: intervals that are only regular.

    Then neighbours agree in phase far better than all points do. A loop that sleeps for a period wanders,
    too, and is told as long as most of its points are in phase over the whole run.
    """
    turned = np.exp(2j * np.pi * frequency_hz * times / 1e9)
    strength = float(abs(turned.mean()))
    neighbours = float((turned[1:] * np.conj(turned[:-1])).real.mean())
    return strength < _IN_PHASE and neighbours - strength**2 > _NEIGHBOURS


def _floor(power: Array) -> Array:
    """The running median as the mean of an exponential (median / ln 2), at least 1."""
    # Neighbouring lines are nearly equal (the padding): so many hold 32 to 64 independent ones.
    width = max(257, len(power) // 50) | 1
    centres = np.arange(0, len(power), max(1, width // 4))
    medians = [np.median(power[max(0, c - width // 2) : c + width // 2 + 1]) for c in centres]
    return np.asarray(np.maximum(np.interp(np.arange(len(power)), centres, medians) / np.log(2.0), 1.0))


def _rayleigh(times: Array, frequency: Array) -> Array:
    """Power at each frequency, exactly."""
    phase = np.exp(2j * np.pi * np.outer(frequency, times / 1e9))
    return np.asarray(np.abs(phase.sum(axis=1)) ** 2 / len(times))


def _refined(times: Array, near_hz: float, span_s: float) -> tuple[float, float]:
    width = 1.0 / span_s
    for _ in range(3):
        grid = np.linspace(near_hz - width, near_hz + width, 81)
        power = _rayleigh(times, grid)
        best = int(np.argmax(power))
        near_hz, width = float(grid[best]), width / 20
    return near_hz, float(power[best])


def _beats(times: Array, frequency_hz: float) -> tuple[Array, float, float, bool]:
    """The one point nearest to each beat, the share of expected beats that came, the first beat's time.

    And whether the beats that are missing are missing evenly.

    One point a beat: where two periods coincide, the other's point must stay for its own search.
    """
    turns = times / 1e9 * frequency_hz
    phase = _phase(turns)
    number = np.round(turns - phase)
    off = np.abs(turns - phase - number)
    on = np.zeros(len(times), dtype=bool)
    if not (off <= _WINDOW).any():
        return on, 0.0, 0.0, False
    order = np.lexsort((off, number))
    first = np.concatenate([[True], np.diff(number[order]) > 0])
    on[order[first]] = True
    on &= off <= _WINDOW
    came = number[on]
    share = len(came) / max(1.0, float(came[-1] - came[0] + 1))
    return on, share, (float(came[0]) + phase) * 1e9 / frequency_hz, _even(came)


def _phase(turns: Array) -> float:
    """Where in its period a beat is: in the middle of all points, or where far more of them are.

    Two beats of one period have their middle where none of them is.
    """
    middle = float(np.angle(np.exp(2j * np.pi * turns).sum()) / (2 * np.pi))
    off = (turns - middle) % 1.0
    near = np.bincount((off * _PHASES).astype(np.int64) % _PHASES, minlength=_PHASES)
    width = round(2 * _WINDOW * _PHASES)
    windows = np.convolve(np.concatenate([near, near[: width - 1]]), np.ones(width), "valid")
    most = int(np.argmax(windows))
    if windows[most] <= _FAR_MORE * float(np.count_nonzero(np.minimum(off, 1.0 - off) <= _WINDOW)):
        return middle
    here = (off - most / _PHASES) % 1.0 < 2 * _WINDOW
    return float(np.angle(np.exp(2j * np.pi * turns[here]).sum()) / (2 * np.pi))


def _fitted(on_beat: Array, frequency_hz: float) -> float:
    """The period in ns by a line through the points on the beat, without those that others put there."""
    number = np.round((on_beat - on_beat[0]) * frequency_hz / 1e9)
    keep = np.ones(len(on_beat), dtype=bool)
    period = 1e9 / frequency_hz
    for _ in range(3):
        if len(np.unique(number[keep])) < 3:
            break
        period, first = (float(one) for one in np.polyfit(number[keep], on_beat[keep], 1))
        off = np.abs(on_beat - first - period * number)
        keep = off <= max(4.0 * float(np.median(off)), 1.0)
    return period


def find_periods(
    times_ns: Array,
    *,
    lengths_ns: Array | None = None,
    sources: Mapping[str, Array] | None = None,
    filled: Mapping[str, tuple[Array, Array]] | None = None,
    start_ns: float = 0.0,
    most: int = 5,
) -> list[Period]:
    """Periods in points of time, the strongest first.

    Args:
        times_ns: when outliers began, any order.
        lengths_ns: how long each took; the longest are then searched by themselves, too.
        sources: when each source came, by its name; each is then searched by itself, too, and a period's
            cause is the source on whose points it is the strongest.
        filled: by name, which of `times_ns` each source had a part in, and how large that part of the outlier
            was. A period's cause is then the source without whose part the beat is gone; where several share
            it, or none has it, the cause is `BeatCause.UNDECIDED`, with the candidates.
        start_ns: the start of the run; phases count from it.
        most: at most so many periods.
    """
    times = np.asarray(times_ns, dtype=np.float64) - start_ns
    lengths = None if lengths_ns is None else np.asarray(lengths_ns)
    named = {name: np.asarray(each, dtype=np.float64) - start_ns for name, each in (sources or {}).items()}
    # Of all points, since a part of rounded ones is hardly ever twice on a line.
    whole = clock_step(times)
    subsets = [
        *((points, whole) for points in _subsets(times, lengths)),
        *((each, clock_step(each)) for each in named.values() if len(each) >= _LEAST),
    ]
    found: list[tuple[Period, Array]] = []
    for points, resolution in subsets:
        for one in _search(points, most, resolution):
            p_value = min(1.0, one.p_value * len(subsets))
            if p_value <= _SIGNIFICANT:
                cause = (
                    _cause(named, one.period_ns)
                    if filled is None
                    else _removed(times, lengths, filled, named, one)
                )
                found.append((replace(one, p_value=p_value, cause=cause), points))
    # The same beat shows in several subsets: the clearest is kept. So does its half, where two points a
    # beat remain: a whole fraction of a clearer beat of the same source is that beat.
    found.sort(key=lambda each: (each[0].p_value, -each[0].share))
    kept: list[Period] = []
    span = max((float(points.max() - points.min()) for points, _ in subsets if len(points)), default=1.0)
    for one, points in found:
        if any(_repeats(one, other, span) for other in kept):
            continue
        if _stands_alone(one, kept, points, span) and not _meeting(one, kept):
            kept.append(one)
    return kept[:most]


def _subsets(times: Array, lengths: Array | None) -> list[Array]:
    """All points, and the longest ones; none twice."""
    subsets = [times]
    if lengths is not None and len(lengths):
        subsets += [times[lengths >= np.quantile(lengths, 1.0 - share)] for share in _LONGEST]
    different = {len(points): points for points in subsets}  # they are nested: equal length, equal points
    return [points for count, points in different.items() if count >= _LEAST]


def clearest_spectrum(times_ns: Array, lengths_ns: Array) -> Spectrum | None:
    """Of the spectra that are searched, the one with the highest peak; None for too few points."""
    best: Spectrum | None = None
    times = np.asarray(times_ns, dtype=np.float64)
    resolution = clock_step(times)
    for points in _subsets(times, np.asarray(lengths_ns)):
        merged = merge_bursts(points)
        if len(merged) < _LEAST or merged[-1] <= merged[0]:
            continue
        seen = spectrum(merged, resolution)
        if len(seen.power) and (best is None or seen.power.max() > best.power.max()):
            best = seen
    return best


def _repeats(one: Period, other: Period, span_ns: float) -> bool:
    """Whether they are the same beat: as near as the run can tell, or a fraction of it.

    Two sources may have the same period: then each has its own phase, and its own name.
    """
    nearest = _times(one, other, span_ns)
    if nearest == 1:
        apart = float(_off(np.array([one.phase_ns]), other)[0])
        named = one.cause and not isinstance(kind_of(one.cause), BeatCause)
        return not (named and one.cause != other.cause and apart > _WINDOW)
    return nearest > 1 and one.cause == other.cause


def _times(one: Period, other: Period, span_ns: float) -> int:
    """How many times `one` fits into `other`, as near as the run can tell; 0: no whole number of times."""
    turns = other.period_ns / one.period_ns
    nearest = max(1, round(turns))
    near = max(_SAME, one.period_ns / (span_ns or 1.0))
    return nearest if abs(turns / nearest - 1.0) < near else 0


def _stands_alone(one: Period, kept: list[Period], points: Array, span_ns: float) -> bool:
    """Whether a fraction of clearer beats is still a beat without their points, at the beats that are left.

    A beat at one phase of its period is in phase at each fraction of it, too: with a few by chance that
    would be a beat of three or thirteen times its rate.
    """
    whole = [other for other in kept if _times(one, other, span_ns) > 1]
    if not whole or not len(points):
        return True
    beats = np.arange(float(points.min()), float(points.max()), one.period_ns)
    beats += (one.phase_ns - beats[:1]) % one.period_ns if len(beats) else 0.0
    for other in whole:
        points, beats = (each[_off(each, other) > _NEAR] for each in (points, beats))
    if len(points) < _LEAST or not len(beats):
        return False
    power = float(_rayleigh(points, np.array([1e9 / one.period_ns]))[0])
    nearest = np.searchsorted(np.sort(points), beats - _WINDOW * one.period_ns)
    after = np.append(np.sort(points), np.inf)[nearest]
    share = float(np.mean(after <= beats + _WINDOW * one.period_ns))
    chance = 1.0 - float(np.exp(-2 * _WINDOW * len(points) * one.period_ns / (span_ns or 1.0)))
    return math.exp(-power) <= _SIGNIFICANT and share >= max(_SHARE, 1.5 * chance)


def _off(times: Array, beat: Period) -> Array:
    """How far each is from its nearest beat, in periods."""
    turns = (times - beat.phase_ns) / beat.period_ns
    return np.asarray(np.abs(turns - np.rint(turns)))


def _meeting(one: Period, kept: list[Period]) -> bool:
    """Whether a beat without a cause is only where two clearer ones meet: the least common multiple."""
    if not isinstance(kind_of(one.cause), BeatCause):
        return False
    held = []
    for other in kept:
        turns = one.period_ns / other.period_ns
        off = float(_off(np.array([one.phase_ns]), other)[0])
        if round(turns) > 1 and abs(turns / round(turns) - 1.0) < _SAME and off <= _WINDOW:
            held.append(round(turns))
    return any(math.gcd(a, b) == 1 for a, b in combinations(held, 2))


def _cause(named: Mapping[str, Array], period_ns: float) -> str:
    """The source whose points follow the period most; "" where none does."""
    at = np.array([1e9 / period_ns])
    power = {name: float(_rayleigh(own, at)[0]) for name, own in named.items() if len(own)}
    return max(power, key=lambda name: power[name], default="")


def _removed(
    times: Array,
    lengths: Array | None,
    filled: Mapping[str, tuple[Array, Array]],
    came: Mapping[str, Array],
    beat: Period,
) -> str:
    """The source that the beat goes with, when its part of the outliers is taken out.

    An outlier counts by the parts that sources had in it. What a source has on the beat's times beyond what
    it has beside them, in the same time, is what its removal takes from the beat. A busy source is on every
    beat, and beside it as often.

    Who has the most outliers on the beat must have the most time there, too: a thread that keeps it leaves
    short outliers behind (its timer is set again, the host runs), and those are not what beats.

    And it must keep the beat itself, at least as well as any other that is there: whoever is let run after
    somebody's visits has most of the time on a beat that is not its own. The one source that is in most of
    the beat's outliers and alone keeps it is its cause, however little time it takes; where several keep it,
    they are the candidates.
    """
    turns = (times - beat.phase_ns) / beat.period_ns
    on = np.abs(turns - np.round(turns)) <= _NEAR
    beside = _NEAR * 2 / (1.0 - _NEAR * 2)
    excess, time = {}, {}
    for name, (which, part) in filled.items():
        own = on[which]
        excess[name] = float(part[own].sum() - beside * part[~own].sum())
        took = part if lengths is None else part * lengths[which]
        time[name] = float(took[own].sum() - beside * took[~own].sum())
    whole = float(on.sum() - beside * (~on).sum())
    if whole <= 0:
        return said(BeatCause.UNKNOWN)
    taken = sorted(((max(0.0, own) / whole, name) for name, own in excess.items()), reverse=True)
    share, first = taken[0] if taken else (0.0, "")
    second = taken[1][0] if len(taken) > 1 else 0.0
    longer = [name for own, name in taken[1:] if own >= _PRESENT and time[name] > time[first]]
    present = {
        name: float(on[which].sum() - beside * (~on[which]).sum()) / whole
        for name, (which, _) in filled.items()
    }
    keeps = {
        name: _keeps(came.get(name, times[filled[name][0]]), beat.period_ns)
        for name, much in present.items()
        if much >= _PRESENT
    }
    held = sorted((n for n in keeps if keeps[n] >= _KEEPS), key=lambda n: (-round(keeps[n], 1), -present[n]))
    if len(held) == 1 and present[held[0]] >= _MOSTLY and keeps[held[0]] >= _KEEPS_WELL:
        return held[0]
    if longer and (not held or not {*longer, first}.isdisjoint(held)):
        return said(BeatCause.UNDECIDED, candidates=[*longer, first][:3])
    if share >= _MOSTLY and second < share / 2:
        better = [name for name in keeps if keeps[name] > keeps.get(first, 0.0) + _KEEPS_BETTER]
        if keeps.get(first, 0.0) >= _KEEPS and not better:
            return first
        better.sort(key=lambda name: -keeps[name])
        return said(BeatCause.UNDECIDED, candidates=[*better, first][:3])
    candidates = dict.fromkeys([*held, *(name for own, name in taken[:3] if own >= _PARTLY)])
    if not candidates:
        return said(BeatCause.UNKNOWN)
    return said(BeatCause.UNDECIDED, candidates=[*candidates][:3])


def _keeps(came: Array, period_ns: float) -> float:
    """How well a source's own times keep a beat: the length of their mean vector, 1 for a clock's."""
    if not len(came):
        return 0.0
    strength = float(abs(np.exp(2j * np.pi * came / period_ns).mean()))
    return strength if len(came) * strength**2 >= _KEEPS_BY_CHANCE else 0.0


def _search(times: Array, most: int, resolution_ns: float) -> list[Period]:
    found: list[Period] = []
    rest = merge_bursts(times)
    while len(found) < most and len(rest) >= _LEAST and rest[-1] > rest[0]:
        one = _strongest(rest, resolution_ns)
        if one is None:
            break
        period, on = one
        found.append(period)
        rest = rest[~on]
    return found


def _even(numbers: Array) -> bool:
    """Whether every second, third … beat came about as often as the others do.

    Of a beat that is none, a few come, each of which is a longer beat's: those of two that differ in phase
    may be in phase at an eleventh of their period.
    """
    first, last = int(numbers[0]), int(numbers[-1])
    for parts in range(2, _LONGER + 1):
        expected = np.array([len(range(first + k, last + 1, parts)) for k in range(parts)], dtype=float)
        came = np.bincount((numbers - first).astype(np.int64) % parts, minlength=parts)
        share = came / np.maximum(expected, 1.0)
        low, high = float(share.min()), float(share.max())
        middle = float(came.sum() / expected.sum())
        spread = np.sqrt(max(middle * (1.0 - middle), 1e-9) * 2.0 / max(1.0, float(expected.min())))
        if parts <= _FEW_PARTS:
            uneven = low < _HARDLY * high and high - low > _APART[parts] * spread
        else:  # somebody else may hide every seventh of a beat: most of them are to be missing
            usual = float(np.median(share))
            uneven = usual < _HARDLY * high and high - usual > 3.2 * spread
        if uneven:
            return False
    return True


def _strongest(times: Array, resolution_ns: float) -> tuple[Period, Array] | None:
    span = (times[-1] - times[0]) / 1e9
    seen = spectrum(times, resolution_ns)
    if not len(seen.power):
        return None
    tried = len(seen.power)
    # p = tried × exp(-power) for the most powerful of so many.
    needed = np.log(tried / _SIGNIFICANT)
    inner = seen.power[1:-1]
    peaks = 1 + np.nonzero((inner >= seen.power[:-2]) & (inner > seen.power[2:]) & (inner > 0.5 * needed))[0]
    best: tuple[float, Period, Array] | None = None
    for peak in peaks[np.argsort(seen.power[peaks])[::-1][:30]]:
        whitened = float(seen.power[peak])
        frequency, power = _refined(times, float(seen.frequency_hz[peak]), span)
        on, share, first, even = _beats(times, frequency)
        # The whitening of the coarse line holds for the refined one; what chance puts on the beat must not
        # explain it.
        coarse = max(float(_rayleigh(times, seen.frequency_hz[peak : peak + 1])[0]), 1e-9)
        adjusted = power * min(1.0, whitened / coarse)
        p_value = min(1.0, tried * float(np.exp(-min(adjusted, 700.0))))
        chance = 1.0 - float(np.exp(-2 * _WINDOW * len(times) / (span * frequency)))
        if p_value > _SIGNIFICANT or share < max(_SHARE, 1.5 * chance) or not even:
            continue
        if _wanders(times, frequency):
            continue
        gained = float(np.count_nonzero(on)) * (share - chance)
        if best is None or gained > best[0]:
            period = _fitted(np.sort(times[on]), frequency)
            best = (gained, Period(period, first % period, p_value, "", share), on)
    return None if best is None else (best[1], best[2])
