"""`latlab bench history` on simulated series, whose truth is known: `python -m benchmarks.bench_history`.

`[--series N] [--seed N] [--false-alarms RATE]`

False alarms a year of series without a change, of several kinds of noise, at the rate that a user would set
(bar: at most that rate, by the lower bound of its 95 % interval); then how many results show +10 % over
noise of 1, 2, 3 and 4 %, in series of thirty results, and whether `findable` promises what is found (bar: of
the changes that it says two, four or eight results show, 85 % are found by them, where it promises 90 %).
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchmarks._bars import Bar, report
from benchmarks._options import parser_of
from latlab.stats.sequential import findable, level_changes

Floats = npt.NDArray[np.float64]
YEAR = 365
LENGTH = 120
NOISE = 0.01


def correlated(random: np.random.Generator, n: int, phi: float) -> Floats:
    steps = random.normal(size=n + 50)
    for i in range(1, len(steps)):
        steps[i] += phi * steps[i - 1]
    out: Floats = steps[50:]
    return out


def outliers(random: np.random.Generator, n: int) -> Floats:
    x = random.normal(size=n)
    x[random.random(n) < 0.05] += 10 * random.random()
    return x


def wild(random: np.random.Generator, n: int) -> Floats:
    x = random.normal(size=n)
    there = random.random(n) < 0.05
    x[there] += random.exponential(8, size=int(there.sum()))
    return x


KINDS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda random, n: random.normal(size=n),
    "t, 4 degrees of freedom": lambda random, n: random.standard_t(4, size=n),
    "5 % outliers of one size": outliers,
    "5 % outliers of any size": wild,
    "exponential": lambda random, n: random.exponential(size=n),
    "AR(0.5)": lambda random, n: correlated(random, n, 0.5),
    "AR(0.7)": lambda random, n: correlated(random, n, 0.7),
    "AR(0.7) and outliers": lambda random, n: correlated(random, n, 0.7) + outliers(random, n),
}


def alarms(kind: str, series: int, seed: int, probability: float) -> tuple[int, float]:
    """How many changes were found where there is none, in how many years."""
    found = 0
    for one in range(series):
        random = np.random.default_rng([seed, one])
        values = NOISE * KINDS[kind](random, LENGTH)
        changes = level_changes(values, alarm_probability=probability, smallest=0.01)
        found += sum(not change.back for change in changes)
    return found, series * LENGTH / YEAR


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--series", type=int, default=300, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--false-alarms", type=float, default=0.1, help="a year")
    chosen = parser.parse_args()
    probability = chosen.false_alarms / YEAR
    bars = []
    for kind in KINDS:
        found, years = alarms(kind, chosen.series, chosen.seed, probability)
        rate = found / years
        # Of a Poisson count, by its square root (Anscombe): good enough from a few on.
        least = max(0.0, np.sqrt(found + 0.375) - 0.98) ** 2 / years
        print(f"{kind}: {found} false alarms in {years:.0f} years, {rate:.2f} a year", flush=True)
        bars.append(Bar(f"{kind}: false alarms a year (lower bound)", least, chosen.false_alarms, "", False))
    for noise in (0.01, 0.02, 0.03, 0.04):
        after: list[int] = []
        promised = {2: 0, 4: 0, 8: 0, 16: 0}
        kept = dict.fromkeys(promised, 0)
        for one in range(chosen.series):
            random = np.random.default_rng([chosen.seed, one, 7])
            values = noise * random.normal(size=60)
            values[30:] += np.log(1.1)
            found_at = next(
                (c.found for c in level_changes(values, alarm_probability=probability, smallest=0.01)
                 if c.index >= 28), 60,
            )  # fmt: skip
            after.append(found_at - 29)
            for count, change in findable(values[:30], alarm_probability=probability).items():
                if change <= np.log(1.1):
                    promised[count] += 1
                    kept[count] += found_at - 29 <= count
        shares = ", ".join(f"{np.mean(np.array(after) <= n):.0%} within {n}" for n in (2, 4, 8, 16))
        told = ", ".join(f"{kept[n]} of {promised[n]} within {n}" for n in promised)
        print(f"+10 % over {noise:.0%}: {shares}; of what was promised: {told}", flush=True)
    return report(bars)


if __name__ == "__main__":
    sys.exit(main())
