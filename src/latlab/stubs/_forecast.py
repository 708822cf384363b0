"""From measured times to a forecast of what a faster component buys: pure.

The gain g(s) of making a component faster by a part s of its work never falls and never steepens: the
time of a system is the longest of its paths (or a sum of such maxima), each path has so much of the component
on it, and the maximum of straight lines is convex. So the measured points are fitted by

    g(s) = sum over k of w_k * min(s, k),  w_k >= 0

(least squares under constraints), which is a straight line where every part pays, a line with one knee where
another part takes over, and carries several knees where there are several. The knee that is named is that of
the best line with one knee. Intervals are those of paired comparisons with the unmodified system
(`latlab.stats.paired`), round by round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from latlab.model.stubs import Forecast, StudyPoint

Floats = npt.NDArray[np.float64]
Rounds = Sequence[Mapping[float, float]]
SPEEDUPS = tuple(i / 10 for i in range(11))
# A gain that is less than this (of the whole system) is none, even where it can be told from 0.
SMALLEST_GAIN = 0.01
# What a knee must cost against a straight line, in parts of the system's time, and how much better it must
# fit (Fisher's F) to be one.
LEAST_LOSS = 0.01
LEAST_F = 5.0
# Knees nearer to the ends than this can't be told from no knee.
NEAR_END = 0.03
# No machine holds its speed better than this from one minute to the next.
FLOOR = 0.003
NOTHING = 0.1  # of the slope before the knee: a slope after it that is said to be none
LEAST_SPAN = 0.1  # the curve beyond the largest measured speedup is extrapolated
FEWEST_PAIRS = 7  # below it `stats.paired` gives no interval
_KNEES = np.round(np.arange(NEAR_END, 1 - NEAR_END + 1e-9, 0.01), 2)
_GRID = np.round(np.arange(0.02, 1.0001, 0.02), 2)


@dataclass(frozen=True)
class _Knee:
    """g(s) = first * min(s, at) + rest * s; `at` is 1 where there is none."""

    at: float
    first: float
    rest: float

    @property
    def beyond(self) -> float:
        """The slope after the knee, relative to that before."""
        return self.rest / max(1e-9, self.first + self.rest)


def forecast(
    rounds: Rounds,
    *,
    name: str,
    baseline: Sequence[float] | None = None,
    better: Literal["less", "more"] = "less",
    what: str = "time",
    takes_over: str | None = None,
    per_round: int = 1,
) -> Forecast:
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
            events/s.
        name: of the component, for the sentence.
        baseline: the unmodified system's measure in the same rounds, where speedup 0 is a stub that
            simulates it; what separates the two (the drift) is put down to the component's work and leaves
            with it.
        better: "less" for times, "more" for rates; a rate is fitted as time per event, and so gains of rates
            are gains of time per event: 50 % is twice the rate.
        what: the measure's name in the sentence.
        takes_over: what limits next, for the sentence.
        per_round: measurements behind each value, where it is a summary already; for the record only.

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
    kept = [(b, one) for b, one in zip(base, costs, strict=True) if b is not None]
    points = _Points(kept, simulated)
    gains = points.gains(SPEEDUPS)
    knee = points.knee()
    kind = points.kind(float(gains[-1]), knee)
    widths = points.half_widths(SPEEDUPS)
    unit = math.exp(float(np.median([math.log(b) for b, _ in kept])))

    def back(cost: float) -> float:
        return 1 / cost if better == "more" else cost

    curve = tuple(
        StudyPoint(
            speedup=s,
            gain=_rounded(g),
            interval=(_rounded(g - w), _rounded(g + w)),
            value=back(unit * max(1e-9, 1 - g)),
            runs=points.runs(s),
        )
        for s, g, w in zip(SPEEDUPS, gains, widths, strict=True)
    )
    least = back(unit * max(1e-9, 1 - float(gains[-1])))
    bounds = sorted(back(unit * max(1e-9, 1 - g)) for g in curve[-1].interval)
    limited = kind == "limited"
    return Forecast(
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
            kind, gains, knee.at, knee.beyond, name, what=what, better=better, takes_over=takes_over
        ),
        rounds=len(kept),
        per_round=per_round,
        warnings=tuple(points.warnings(kind)),
    )


def _cost(value: float, better: str) -> float:
    if not value > 0 or not math.isfinite(value):
        raise ValueError(f"a measure must be a positive number, not {value}")
    return 1 / value if better == "more" else float(value)


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")


class _Points:
    """Levels and log-ratios to the base at each speedup, and what is fitted to them."""

    def __init__(self, rounds: Sequence[tuple[float, Mapping[float, float]]], simulated: bool) -> None:
        self._rounds = rounds
        self._simulated = simulated
        known = sorted({s for _, one in rounds for s in one})
        self._ratios = {s: np.array([math.log(one[s] / b) for b, one in rounds if s in one]) for s in known}
        if not simulated:
            self._ratios[0.0] = np.zeros(len(rounds))
        self.speedups = np.array(known)
        self.levels = _levels(rounds, known, simulated)
        self.weights = np.array([float(len(self._ratios[s])) for s in known])
        self.drift = float(self.levels[0] - 1) if simulated else 0.0
        self._corrected = self.levels - self._certain_drift() * (1 - self.speedups)
        self._fit = _concave(*self._observed())

    def _certain_drift(self) -> float:
        """The drift, shrunk by how uncertain it is: one that is all noise corrects nothing."""
        ratios = self._ratios[0.0]
        if not self._simulated or self.drift == 0 or len(ratios) < 2:
            return self.drift
        variance = (1.4826 * float(np.median(np.abs(ratios - np.median(ratios))))) ** 2 / len(ratios)
        return self.drift * max(0.0, 1 - variance / self.drift**2)

    def _observed(self) -> tuple[Floats, Floats, Floats]:
        """Speedups, relative times and weights, the unmodified system's own point among them."""
        if not self._simulated:
            return self.speedups, self._corrected, self.weights
        return (
            np.append(self.speedups, 0.0),
            np.append(self._corrected, 1.0),
            np.append(self.weights, float(len(self._rounds))),
        )

    def gains(self, speedups: Sequence[float]) -> Floats:
        return self._fit(np.asarray(speedups, dtype=np.float64))

    def runs(self, speedup: float) -> int:
        return len(self._ratios.get(speedup, ()))

    def knee(self) -> _Knee:
        return _one_knee(*self._observed())

    def kind(self, largest: float, knee: _Knee) -> str:
        if largest < SMALLEST_GAIN or not self._pays():
            return "none"
        return "limited" if knee.at < 1 else "total"

    def _pays(self) -> bool:
        """Whether the slower half of the points is slower than the faster half, beyond noise.

        Were the component without effect, all measurements of a round would be exchangeable, and the sign of
        the difference of two halves of equal size a fair coin's.
        """
        from latlab.stats import paired

        differences = []
        for b, one in self._rounds:
            logs = [math.log(b)] if self._simulated else []
            logs += [math.log(one[s]) for s in sorted(one)]
            half = len(logs) // 2
            if half:
                differences.append(float(np.mean(logs[:half]) - np.mean(logs[-half:])))
        if len(differences) < FEWEST_PAIRS:
            agree = sum(one > 0 for one in differences) >= len(differences) - (len(differences) > 4)
            return agree and _centre(np.array(differences)) > SMALLEST_GAIN / 2
        low = paired.judge(differences, smallest_effect=0.0, block_pairs=1).interval[0]
        return low is not None and low > 0

    def half_widths(self, speedups: Sequence[float]) -> Floats:
        """Half the width of each gain's 95 % interval: noise, and what the drift's cause may change."""
        noise = self._noise()
        left = 1 - np.asarray(speedups)
        systematic = 2 * abs(self.drift) * left * (1 - left)
        return np.where(left == 1, 0.0, max(noise, FLOOR) + systematic)

    def _noise(self) -> float:
        """Half the width of a ratio's interval: the middle one, since noise doesn't know the variants."""
        known = [self._ratios[float(s)] for s in self.speedups if s > 0 or self._simulated]
        # Points that only some rounds measured say little of the noise, and one value nothing.
        most = max(len(ratios) for ratios in known)
        return float(np.median([_half_width(ratios) for ratios in known if 2 * len(ratios) > most]))

    def drift_interval(self) -> tuple[float, float]:
        if not self._simulated:
            return 0.0, 0.0
        width = _half_width(self._ratios[0.0])
        return _rounded(self.drift - width), _rounded(self.drift + width)

    def knee_interval(self, at: float) -> tuple[float, float]:
        """By the jackknife over rounds (Efron and Stein, Annals of Statistics 9(3), 1981), at t's 97.5 %."""
        from scipy.special import stdtrit

        n = len(self._rounds)
        knees = [
            _Points([*self._rounds[:i], *self._rounds[i + 1 :]], self._simulated).knee().at for i in range(n)
        ]
        error = math.sqrt((n - 1) / n * float(np.sum((np.array(knees) - np.mean(knees)) ** 2)))
        width = max(0.01, float(stdtrit(n - 1, 0.975)) * error)
        return max(0.0, at - width), min(1.0, at + width)

    def warnings(self, kind: str) -> list[str]:
        found = []
        if len(self._rounds) < FEWEST_PAIRS:
            found.append(
                f"only {len(self._rounds)} rounds: intervals are ranges; {FEWEST_PAIRS} rounds give 95 %"
            )
        if abs(self.drift) > 0.05:
            found.append(f"with the stub at full time the system takes {self.drift:+.1%}")
        distance = np.abs(1 - self._corrected - self.gains(list(self.speedups)))
        far = self.speedups[(distance > 2 * self._noise()) & (distance > 2 * SMALLEST_GAIN)]
        if kind != "none" and far.size:
            where = ", ".join(f"{s:.0%}" for s in far)
            found.append(
                f"the points at {where} lie off every curve of diminishing returns: "
                "something else changes too"
            )
        return found


def _levels(
    rounds: Sequence[tuple[float, Mapping[float, float]]], known: list[float], simulated: bool
) -> Floats:
    """Times at each speedup relative to the base.

    A run is only ever disturbed to be longer, so the mean of the faster half is steadier than the middle.
    What a whole round shares (the speed of the machine then) is taken off first. The base is treated alike,
    and so the estimate's bias is in none of the ratios.
    """
    base = -1.0
    logs = [
        {s: math.log(v) for s, v in (({base: b} if simulated else {}) | dict(one)).items()}
        for b, one in rounds
    ]
    points = ([base] if simulated else []) + known
    effects = [0.0] * len(logs)
    levels: dict[float, float] = {}
    for _ in range(3):
        for s in points:
            levels[s] = _faster_half([one[s] - e for one, e in zip(logs, effects, strict=True) if s in one])
        effects = [float(np.median([value - levels[s] for s, value in one.items()])) for one in logs]
    zero = levels[points[0]]
    return np.array([math.exp(levels[s] - zero) for s in known])


def _faster_half(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return float(np.mean(ordered[: (len(ordered) + 1) // 2]))


def _centre(ratios: Floats) -> float:
    """The centre that `stats.paired` estimates; outliers count no more than two deviations."""
    from latlab.stats import _betting

    if not ratios.any():
        return 0.0
    deviation = _betting.SIGMA_PER_MAD * float(np.median(np.abs(ratios - np.median(ratios))))
    return float(_betting.centre(ratios, np.full(len(ratios), _betting.CLIP * deviation)))


def centre(values: Sequence[float]) -> float:
    """The mean of the faster half of times, by their logarithms."""
    return math.exp(_faster_half([math.log(value) for value in values]))


def _half_width(ratios: Floats) -> float:
    """Of the ratio's interval by `stats.paired`; from the range where that has too few pairs."""
    from latlab.stats import paired

    if not ratios.any():
        return 0.0
    low, high = paired.judge(list(ratios), smallest_effect=0.0, block_pairs=1).interval
    centre = math.expm1(_centre(ratios))
    if low is not None and high is not None:
        return max(high - centre, centre - low)
    # The median of n lies between the extremes with probability 1 - 2 ** (1 - n): 0.94 for 5, 0.875 for 4.
    return 1.5 * float(np.ptp(np.exp(ratios)))


def _concave(speedups: Floats, times: Floats, weights: Floats) -> Callable[[Floats], Floats]:
    """The gain as a function of the speedup, by least squares under its constraints."""
    from scipy.optimize import nnls

    # A knee beyond the last point can't be seen: there the curve goes on as it was.
    knees = np.array([*_GRID[speedups.max() - 0.01 > _GRID], 1.0])

    def columns(at: Floats) -> Floats:
        return np.asarray(np.minimum(at[:, None], knees[None, :]))

    design = np.hstack([np.ones((len(speedups), 1)), -columns(speedups)])
    root = np.sqrt(weights / weights.max())
    solution, _ = nnls(design * root[:, None], times * root)
    level, slopes = float(solution[0]), solution[1:]

    def gain(at: Floats) -> Floats:
        return np.asarray(columns(at) @ slopes / level)

    return gain


def _one_knee(speedups: Floats, times: Floats, weights: Floats) -> _Knee:
    """The best straight line, or the best line with one knee where it is clearly better."""
    from scipy.optimize import nnls

    root = np.sqrt(weights / weights.max())

    def solve(*shapes: Floats) -> tuple[Floats, float]:
        design = np.stack([np.ones_like(speedups), *(-shape for shape in shapes)], axis=1)
        solution, residual = nnls(design * root[:, None], times * root)
        return solution, float(residual) ** 2

    line, straight = solve(speedups)
    knees = _KNEES[speedups.max() - 0.02 > _KNEES]
    if not knees.size:
        return _Knee(1.0, float(line[1] / line[0]), 0.0)
    plain = [(solve(np.minimum(speedups, k)), float(k)) for k in knees]
    (best, error), at = min(plain, key=lambda one: one[0][1])
    first, rest = float(best[1]), 0.0
    free = max(1, len(speedups) - 4)
    both = [(solve(np.minimum(speedups, k), speedups), float(k)) for k in knees]
    (two, error_two), at_two = min(both, key=lambda one: one[0][1])
    # A slope that goes on beyond the knee has to earn its place too.
    if (error - error_two) * free > LEAST_F * max(error_two, 1e-12):
        (first, rest), error, at, best = (float(two[1]), float(two[2])), error_two, at_two, two
    loss = first * (1 - at) / max(1e-9, float(best[0]))
    better = (straight - error) * free > LEAST_F * max(error, 1e-12)
    if loss < LEAST_LOSS or not better:
        return _Knee(1.0, float(line[1] / line[0]), 0.0)
    return _Knee(round(at, 4), first / float(best[0]), rest / float(best[0]))


def refinements(rounds: Rounds, baseline: Sequence[float]) -> tuple[float, ...]:
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
    """

    def change(gain: float) -> str:
        rise = gain / max(1e-9, 1 - gain)
        return f"{what} rises by {rise:.0%}" if better == "more" else f"{what} falls by {gain:.1%}"

    if kind == "none":
        return f"making `{name}` faster buys nothing: the system's {what} stays where it is"
    if kind == "total":
        return (
            f"every part by which `{name}` gets faster pays 1:1; "
            f"without its work the system's {change(float(gains[-1]))}"
        )
    at_knee = float(gains[-1] if beyond < NOTHING else np.interp(knee, SPEEDUPS, gains))
    who = f"`{takes_over}`" if takes_over else "another part"
    rest = "nothing" if beyond < NOTHING else f"only {beyond:.0%} as much"
    return (
        f"making `{name}` up to {knee:.0%} faster pays 1:1 (the system's {change(at_knee)}); "
        f"beyond that {rest}, since {who} takes over"
    )
