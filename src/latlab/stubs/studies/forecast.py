"""From measured times to a forecast of what a faster component buys: pure.

Over 400 lines: one fit, and all that is said of it.

The gain g(s) of making a component faster by a part s of its work never falls and never steepens: the
time of a system is the longest of its paths (or a sum of such maxima), each path has so much of the component
on it, and the maximum of straight lines is convex. So the measured points are fitted by

    g(s) = sum over k of w_k * min(s, k),  w_k >= 0

(least squares under constraints), which is a straight line where every part pays, a line with one knee where
another part takes over, and carries several knees where there are several. A line with one knee or none
stands for it where the curve doesn't fit clearly better; the knee that is named is that line's. Levels and
their errors are those of `_levels`; the intervals hold what the bootstrap's replicates of the whole fit
differ by.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from latlab.model.evidence.said import said
from latlab.model.evidence.studies import Speedup, StudyWarning
from latlab.model.stubs import Pays, SpeedupForecast, StudyPoint
from latlab.stats.distributions import normal_quantile, student_quantile
from latlab.stats.shapes.knees import Floats, Knee, concave, line, one_knee, simplest
from latlab.stubs.studies import states as _states
from latlab.stubs.studies.levels import Parts, Rank, Sample
from latlab.words import share

Rounds = Sequence[Mapping[float, Parts]]
SPEEDUPS = tuple(i / 10 for i in range(11))
# A gain that is less than this (of the whole system) is none, even where it can be told from 0.
SMALLEST_GAIN = 0.015
# Standard errors by which a gain must differ from 0.
CERTAIN = 3.0
# No machine holds its speed better than this from one minute to the next.
NOT_TOLD = 0.02  # a gain that may be larger than this is not called none
_ONE_TO_ONE = 0.1  # by which a slope may be off 1 and still is called so
FLOOR = 0.005
SEEN = 0.85  # a limit below this speedup has to stand out of the noise, else "all the way" is not said
NOTHING = 0.1  # of the slope before the knee: a slope after it that is said to be none
LEAST_SPAN = 0.1  # the curve beyond the largest measured speedup is extrapolated
FEWEST_ROUNDS = 7
_LEAST_FREE = 3  # degrees of freedom: also of two rounds, whose values are summaries of many
_RARE = 0.25  # of what points are run in the middle: fewer runs than this say nothing
_BASE = -1.0  # the unmodified system among the conditions
_CURVES, _KNEES = 100, 40  # replicates that are fitted


def forecast(
    rounds: Rounds,
    *,
    name: str,
    baseline: Sequence[Parts] | None = None,
    better: Literal["less", "more"] = "less",
    what: str = "time",
    takes_over: str | None = None,
    per_round: int = 1,
    rank: Rank | None = None,
) -> SpeedupForecast:
    """Class, knee, intervals and sentence from measured points.

    A round measures the system once at each of several speedups of one component, in an order drawn anew,
    and so close together that the machine's drift is the same for all; 7 rounds and more give intervals
    that hold at 95 %. With throughputs of a pipeline whose stage "book" was made faster by 0, 50 and 100 %::

        found = forecast(
            [{0.0: 410e3, 0.5: 655e3, 1.0: 660e3}, ...], name="book", better="more", what="throughput",
            takes_over="strategy",
        )
        found.component_class, found.t_limit, found.curve[-1].gain, found.sentence

    Args:
        rounds: for each round {speedup: measure}; speedup 0 (unmodified work) to 1 (no work), any grid that
            has both, and better the whole of 0, 0.1, … 1; a point may be missing from some rounds. Where 1
            can't be measured, the curve goes on straight. Measures are positive: the system's time, p99.9,
            events/s. A time may be given as the times of its parts, the same in each run of a speedup, of
            which it is the sum: then a part's slow runs spoil that part alone.
        name: of the component, for the sentence.
        baseline: the unmodified system's measure in the same rounds, where speedup 0 is a stub that
            simulates it; what separates the two (the drift) is put down to the component's work and leaves
            with it.
        better: "less" for times, "more" for rates; a rate is fitted as time per event, and so gains of rates
            are gains of time per event: 50 % is twice the rate.
        what: the measure's name in the sentence.
        takes_over: what limits next, for the sentence.
        per_round: measurements behind each value, where it is a summary already; for the record only.
        rank: (r, m) where a level is to be the expected r-th least of m runs; otherwise the rank is chosen
            that repeats best on the noise of these.

    Returns:
        The forecast; gains are relative to the baseline (or to speedup 0 where none is given).

    Raises:
        ValueError: a value isn't positive, fewer than two rounds, or speedup 0 or 1 was never measured.
    """
    costs = [{s: _cost(v, better) for s, v in one.items()} for one in rounds]
    if len(costs) < 2 or (baseline is not None and len(baseline) != len(costs)):
        raise ValueError("a forecast needs at least two rounds, and a baseline in each")
    known = {s for one in costs for s in one}
    if 0.0 not in known or not LEAST_SPAN <= max(known) <= 1:
        raise ValueError("speedup 0 and speedup 1 (or one near it) must have been measured")
    simulated = baseline is not None
    base = [_cost(v, better) for v in baseline] if baseline is not None else [one.get(0.0) for one in costs]
    kept: Kept = [(b, one) for b, one in zip(base, costs, strict=True) if b is not None]
    states = None
    if rank is None:
        kept, states = _of_one_state(kept, simulated)
    points = _Points(kept, simulated, rank)
    gains = points.gains(SPEEDUPS)
    knee = points.knee()
    kind = points.kind(float(gains[-1]), knee)
    widths = points.half_widths(SPEEDUPS)
    lows, highs = gains - widths, gains + widths
    if states is not None:
        # Nobody knows how often either speed will be there: the interval holds the gain at both.
        slow, errors = states.there(gains, np.array(SPEEDUPS))
        widths_slow = np.hypot(widths, 2 * few_rounds(len(kept)) * errors)
        lows, highs = np.minimum(lows, slow - widths_slow), np.maximum(highs, slow + widths_slow)
    # No system gains more than all of its time.
    bounds_of = [(float(low), min(1.0, float(high))) for low, high in zip(lows, highs, strict=True)]
    if kind == "none":
        # What can't be told from nothing is nothing; the interval says what it may be all the same.
        bounds_of = [(min(0.0, low), max(0.0, high)) for low, high in bounds_of]
        gains = np.zeros_like(gains)
    unit = points.unit

    def back(cost: float) -> float:
        return 1 / cost if better == "more" else cost

    curve = tuple(
        StudyPoint(
            speedup=s,
            gain=_rounded(g),
            interval=(_rounded(low), _rounded(high)),
            value=back(unit * max(1e-9, 1 - g)),
            runs=points.runs(s),
        )
        for s, g, (low, high) in zip(SPEEDUPS, gains, bounds_of, strict=True)
    )
    least = back(unit * max(1e-9, 1 - float(gains[-1])))
    bounds = sorted(back(unit * max(1e-9, 1 - g)) for g in curve[-1].interval)
    limited = kind == "limited"
    return SpeedupForecast(
        component_class=kind,
        t_limit=knee.at if limited else None,
        t_limit_interval=points.knee_interval(knee.at) if limited else None,
        pays=_rounded(float(gains[1]) / SPEEDUPS[1]),
        pays_beyond=_rounded(knee.beyond) if limited else None,
        drift=_rounded(points.drift),
        drift_interval=points.drift_interval(),
        base=back(unit),
        least=least,
        least_interval=(bounds[0], bounds[1]),
        curve=curve,
        sentence=sentence(
            kind,
            gains,
            knee.at,
            knee.beyond,
            name,
            what=what,
            better=better,
            takes_over=takes_over,
            most=curve[-1].interval[1],
            half=float(widths[-1]),
        ),
        rounds=len(kept),
        per_round=per_round,
        warnings=(*points.warnings(kind), *_of_states(states)),
    )


Kept = list[tuple[Parts, dict[float, Parts]]]


def _of_one_state(rounds: Kept, simulated: bool) -> tuple[Kept, _states.States | None]:
    """The rounds as they would have been in the machine's fast state, where runs came in two."""
    values = [(s, float(np.sum(v))) for _, one in rounds for s, v in one.items()]
    others = [[float(np.sum(base)) for base, _ in rounds]] if simulated else []
    states = _states.split(values, *others)
    if states is None:
        return rounds, None
    factors = iter(states.factors[0])
    points: list[dict[float, Parts]] = [
        {s: np.asarray(v) / next(factors) for s, v in one.items()} for _, one in rounds
    ]
    if simulated:
        bases: list[Parts] = [np.asarray(b) / f for (b, _), f in zip(rounds, states.factors[1], strict=True)]
    else:
        bases = [one[0.0] for one in points]
    return list(zip(bases, points, strict=True)), states


def _of_states(states: _states.States | None) -> list[str]:
    if states is None:
        return []
    return [said(StudyWarning.TWO_SPEEDS, part=states.slow, longer=math.exp(states.slower))]


def few_rounds(rounds: int) -> float:
    """How many times as wide an interval is that comes of this number of rounds, beside one of many.

    A slow spell is shared by a round's runs: what is independent is the rounds, and few of them tell their
    spread badly (Student).
    """
    return student_quantile(max(_LEAST_FREE, rounds - 1), 0.975) / normal_quantile(0.975)


def _cost(value: Parts, better: str) -> Parts:
    parts = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if not np.isfinite(parts).all() or not parts.sum() > 0:
        raise ValueError(f"a measure must be a positive number, not {value}")
    return 1 / parts if better == "more" else parts


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")


class _Points:
    """Levels at each speedup relative to the base, and what is fitted to them.

    A point with few runs beside the others' is left out: a least of one run is not a least of many.
    """

    def __init__(
        self,
        rounds: Sequence[tuple[Parts, Mapping[float, Parts]]],
        simulated: bool,
        rank: Rank | None = None,
    ) -> None:
        self._simulated = simulated
        counts = Counter(s for _, one in rounds for s in one)
        least = float(np.median(list(counts.values()))) * _RARE
        often = {s for s, count in counts.items() if count >= least or s in (0.0, max(counts))}
        self._rounds = len(rounds)
        rounds = [(base, {s: one[s] for s in one if s in often}) for base, one in rounds]
        self._sample = Sample(
            [({_BASE: base} if simulated else {}) | dict(one) for base, one in rounds],
            rank=rank,
        )
        self.speedups = np.array([s for s in self._sample.conditions if s != _BASE])
        self._zero = _BASE if simulated else 0.0
        levels = self._sample.levels()
        self.unit = levels[self._zero]
        found = self._relative(levels)
        self.weights = np.array([float(self.runs(s)) for s in self.speedups])
        self.drift = float(found[0] - 1) if simulated else 0.0
        self._drift_error = float(np.std(self._spread[0])) if simulated else 0.0
        self._corrected = self._less_drift(found)
        self._fit = simplest(*self._observed(self._corrected), least_variance=self._variance)

    @cached_property
    def _spread(self) -> Floats:
        """Relative levels that other runs might have given: a row a speedup, a column a replicate."""
        return self._relative(self._sample.replicates())

    def _relative(self, levels: Mapping[float, float] | Mapping[float, Floats]) -> Floats:
        """Levels relative to the base: an element a speedup, or a column a replicate."""
        return np.array([levels[s] / levels[self._zero] for s in self.speedups])

    def _less_drift(self, levels: Floats) -> Floats:
        """Without the drift, which leaves with the component; one that is all noise corrects nothing."""
        if not self._simulated:
            return levels
        drift = float(levels[0] - 1)
        certain = drift * max(0.0, 1 - self._drift_error**2 / drift**2) if drift else 0.0
        return np.asarray(levels - certain * (1 - self.speedups))

    def _observed(self, corrected: Floats) -> tuple[Floats, Floats, Floats]:
        """Speedups, relative times and weights, the unmodified system's own point among them."""
        if not self._simulated:
            return self.speedups, corrected, self.weights
        base = float(self.runs(_BASE))
        return np.append(self.speedups, 0.0), np.append(corrected, 1.0), np.append(self.weights, base)

    def gains(self, speedups: Sequence[float]) -> Floats:
        return self._fit(np.asarray(speedups, dtype=np.float64))

    def runs(self, speedup: float) -> int:
        return self._sample.runs(speedup)

    @cached_property
    def _replicates(self) -> list[tuple[Floats, Floats, Floats]]:
        """What would be fitted in each replicate."""
        return [self._observed(self._less_drift(one)) for one in self._spread.T]

    def knee(self) -> Knee:
        return one_knee(*self._observed(self._corrected), least_variance=self._variance)

    @property
    def _variance(self) -> float:
        """Of the point with the largest weight, as known from its repetitions."""
        return float(np.median(np.var(self._spread, axis=1) * self.weights / self.weights.max()))

    def kind(self, largest: float, knee: Knee) -> Pays:
        if largest < SMALLEST_GAIN or not self._pays():
            return "none"
        return "limited" if knee.at < 1 else "total"

    def _pays(self) -> bool:
        """Whether the straight line through all points falls beyond doubt."""
        slope = line(*self._observed(self._corrected))
        error = float(np.std([line(*one) for one in self._replicates]))
        return slope > max(CERTAIN * error, SMALLEST_GAIN / 2)

    def half_widths(self, speedups: Sequence[float]) -> Floats:
        """Half the width of each gain's 95 % interval: noise, and what the drift's cause may change."""
        at = np.asarray(speedups)
        fits = np.array([concave(*one)(at) for one in self._replicates[:_CURVES]])
        noise = 2 * few_rounds(self._rounds) * np.sqrt(np.mean((fits - self._fit(at)) ** 2, axis=0))
        left = 1 - at
        systematic = 2 * max(0.0, abs(self.drift) - self._drift_error) * left * (1 - left)
        far, distance = self._off_curve()
        off = np.interp(at, self.speedups, np.where(far, distance, 0.0))
        return np.where(left == 1, 0.0, np.maximum(noise, FLOOR) + systematic + off)

    def _off_curve(self) -> tuple[npt.NDArray[np.bool_], Floats]:
        """Which points lie off the curve, and how far: a system that gains less again is no such curve."""
        distance = np.abs(1 - self._corrected - self.gains(list(self.speedups)))
        error = np.std(self._spread, axis=1)
        return (distance > 3 * error) & (distance > 2 * SMALLEST_GAIN), distance

    def drift_interval(self) -> tuple[float, float]:
        width = 1.96 * self._drift_error
        return _rounded(self.drift - width), _rounded(self.drift + width)

    def knee_interval(self, at: float) -> tuple[float, float]:
        """The middle 95 % of the replicates' knees."""
        knees = [one_knee(*one, least_variance=0.0, forced=True).at for one in self._replicates[:_KNEES]]
        low, high = np.quantile(knees, [0.025, 0.975])
        return max(0.0, min(float(low), at - 0.01)), min(1.0, max(float(high), at + 0.01))

    def warnings(self, kind: str) -> list[str]:
        found: list[str] = []
        if self._rounds < FEWEST_ROUNDS:
            found.append(said(StudyWarning.FEW_ROUNDS, rounds=self._rounds, enough=FEWEST_ROUNDS))
        if abs(self.drift) > 0.05 and abs(self.drift) > 2 * self._drift_error:
            found.append(said(StudyWarning.DRIFT, drift=self.drift))
        far = self.speedups[self._off_curve()[0]]
        if kind != "none" and far.size:
            where = ", ".join(f"{share(s, digits=0)}" for s in far)
            found.append(said(StudyWarning.OFF_CURVE, speedups=where))
        return found


def refinements(rounds: Rounds, baseline: Sequence[Parts]) -> tuple[float, ...]:
    """Speedups around the knee that are worth measuring too; none where there is no knee."""
    points = _Points(list(zip(baseline, rounds, strict=True)), simulated=True)
    knee = points.knee()
    if knee.at >= 1 or float(points.gains([1.0])[0]) < SMALLEST_GAIN:
        return ()
    near = {round(knee.at + d, 2) for d in (-0.06, -0.02, 0.02, 0.06)}
    return tuple(sorted(s for s in near - set(SPEEDUPS) if 0 < s < 1))


def sentence(
    kind: str,
    gains: Floats,
    knee: float,
    beyond: float,
    name: str,
    *,
    what: str = "time",
    better: str = "less",
    takes_over: str | None = None,
    slope: tuple[float, float] | None = None,
    part: str = "work",
    most: float = 0.0,
    half: float = 0.0,
) -> str:
    """What was found, in one sentence.

    Args:
        kind: total, limited or none.
        gains: at SPEEDUPS.
        knee: speedup at which another part takes over.
        beyond: of the slope, what is left after the knee.
        name: of the component.
        what: the measure's name.
        better: as in `forecast`.
        takes_over: what limits next.
        slope: what the system gains of each second that the component saves, and half the width of its 95 %
            interval; None where that isn't known.
        most: upper end of the whole gain's 95 % interval, where none was found.
        half: half the width of that interval.
        part: what of the component is faster: "work", "wait" or "both".
    """
    asked, without = {
        "work": (Speedup.ITS_WORK, "its work"),
        "wait": (Speedup.ITS_WAITS, "its waits"),
        "both": (Speedup.WORK_AND_WAITS, "both"),
    }[part]
    which = said(asked, name=name)

    def change(gain: float) -> str:
        if better == "more":
            return said(Speedup.RISES, what=what, by=gain / max(1e-9, 1 - gain))
        return said(Speedup.FALLS, what=what, by=gain)

    if kind == "none" and most > NOT_TOLD:
        return said(Speedup.NOISE, asked=which, most=most, what=what)
    if kind == "none":
        return said(Speedup.DOES_NOT_PAY, asked=which, what=what)
    rate = _rate(slope)
    if kind == "total":
        whole = float(gains[-1])
        # A limit costs what lies beyond it; one that costs no more than half the interval can't be seen.
        seen = 1 - half / max(1e-9, whole)
        found = Speedup.PAYS if seen >= SEEN else Speedup.PAYS_UNLIMITED if seen > 0 else Speedup.HIDDEN
        return said(
            found,
            asked=which,
            rate=rate,
            without=without,
            change=change(whole),
            half=half,
            seen=max(0.0, seen),
        )
    return said(
        Speedup.PAYS_UP_TO,
        asked=which,
        rate=rate,
        knee=knee,
        change=change(float(gains[-1] if beyond < NOTHING else np.interp(knee, SPEEDUPS, gains))),
        rest=said(Speedup.NOTHING_MORE) if beyond < NOTHING else said(Speedup.ONLY_PART, part=beyond),
        who=f"`{takes_over}`" if takes_over else "another part",
    )


def _rate(slope: tuple[float, float] | None) -> str:
    """At what rate a speed-up pays."""
    if slope is None:
        return said(Speedup.IN_PROPORTION)
    value, half = slope
    if abs(value - 1) > _ONE_TO_ONE or half > 2 * _ONE_TO_ONE:
        return said(Speedup.BY_PART_BETWEEN, part=value, low=max(0.0, value - half), high=value + half)
    return said(Speedup.ONE_TO_ONE)
