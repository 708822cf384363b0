"""How often a period is claimed where there is none, and how often a planted one is found.

Aperiodic series of eight kinds (bursts with regular and random spacing inside, heavy tails, changing rates),
and beats from 1 ms to 300 ms with jitter, missing beats and a background of short outliers. Everything is
made here, with fixed seeds. Run with ``python -m benchmarks.jitter_beat [SERIES A KIND]``; with ``--write
FOLDER`` it writes the two series that the tests keep; with ``--fresh [SERIES [SEED]]`` every setting is drawn
anew (the seed is printed), so that nothing can have been tuned to it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.random import Generator

from latlab.jitter import find_periods

SECOND = 1e9
KINDS = (
    "regular bursts",
    "random bursts",
    "Pareto gaps",
    "lognormal gaps",
    "Poisson",
    "changing rate",
    "gamma gaps",
    "on and off",
)


def aperiodic(kind: str, random: Generator):  # type: ignore[no-untyped-def]
    """Times and lengths in ns of outliers without a beat."""
    span = random.choice([2.0, 5.0, 10.0, 30.0]) * SECOND
    many = int(random.integers(50, 5000))
    if kind.endswith("bursts"):
        starts = random.uniform(0, span, random.integers(5, 300))
        spacing = 10 ** random.uniform(4, 6.5)
        inside = np.arange if kind.startswith("regular") else lambda n: np.cumsum(random.exponential(1, n))
        times = np.concatenate([s + inside(int(random.integers(2, 60))) * spacing for s in starts])
    elif kind == "on and off":
        parts, now = [], 0.0
        while now < span:
            on = random.exponential(0.05 * SECOND)
            parts.append(now + random.uniform(0, on, random.poisson(on * random.uniform(200, 3000) / SECOND)))
            now += on + random.exponential(0.3 * SECOND)
        times = np.concatenate(parts)
    elif kind == "Poisson":
        times = random.uniform(0, span, many)
    elif kind == "changing rate":
        times = random.uniform(0, 1, many) ** random.uniform(0.3, 3) * span
    else:
        gaps = {
            "Pareto gaps": lambda: random.pareto(random.uniform(0.7, 2.0), many) + 1,
            "lognormal gaps": lambda: random.lognormal(0, random.uniform(1, 3), many),
            "gamma gaps": lambda: random.gamma(random.uniform(2, 6), 1, many),
        }[kind]()
        times = np.cumsum(gaps) / gaps.sum() * span
    times = np.sort(times[times < span])
    return times, random.lognormal(8, 1.2, len(times))


def planted(  # type: ignore[no-untyped-def]
    random: Generator, period: float, jitter: float, background: str, span: float, missing: float
):
    """Times and lengths of a beat of about 50 µs, and of a background of about 3 µs, three times as many."""
    beat = np.arange(random.uniform(0, period), span, period)
    beat = beat[random.random(len(beat)) >= missing]
    beat = beat + random.normal(0, jitter * period, len(beat))
    if background == "random":
        other = random.uniform(0, span, random.poisson(3 * len(beat)))
    elif background == "bursts":
        starts = random.uniform(0, span, max(3, random.poisson(len(beat) / 5)))
        other = np.concatenate(
            [s + np.cumsum(random.exponential(2e5, random.integers(2, 40))) for s in starts]
        )
    else:
        other = np.zeros(0)
    times = np.concatenate([beat, other])
    lengths = np.concatenate(
        [random.lognormal(np.log(5e4), 0.1, len(beat)), random.lognormal(np.log(3e3), 0.8, len(other))]
    )
    order = np.argsort(times)
    return times[order], lengths[order]


def write(folder: Path) -> None:
    """The two series that the tests keep."""
    random = np.random.default_rng(20)
    beat = 2.5e6 + np.arange(500) * 1e7 + random.normal(0, 2e4, 500)
    other = random.uniform(0, 5 * SECOND, 1500)
    series = {
        "planted-100hz.csv": (
            np.concatenate([beat, other]),
            np.concatenate([random.normal(5e4, 2e3, 500), random.lognormal(8, 0.8, 1500)]),
        ),
        "aperiodic-bursts.csv": aperiodic("regular bursts", np.random.default_rng(4)),
    }
    for name, (times, lengths) in series.items():
        order = np.argsort(times)
        rows = zip((times[order] / 1e6).tolist(), (lengths[order] / 1e3).tolist(), strict=True)
        (folder / name).write_text("".join(f"{x:.4f},{y:.3f}\n" for x, y in rows))


def chance(kind: str, random: Generator):  # type: ignore[no-untyped-def]
    """Times without a beat, of a kind and of settings that are drawn."""
    span = 10 ** random.uniform(0.3, 1.8) * SECOND
    count = int(10 ** random.uniform(1.6, 3.5))
    if kind == "Poisson":
        return np.sort(random.uniform(0, span, count))
    if kind == "gamma":
        gaps = random.gamma(10 ** random.uniform(-0.5, 2.0), 1.0, count)
        return np.cumsum(gaps) / gaps.sum() * span
    if kind == "ramped":
        return np.sort(span * random.uniform(0, 1, count) ** random.uniform(0.3, 3.0))
    if kind == "quantised":
        # By chance or apart, any share of the grid's lines, and in half of the series no line twice.
        gaps = random.exponential(1.0, count) + random.choice([0.0, random.uniform(0.1, 5.0)])
        grid = span / count * 10 ** random.uniform(-2.0, 0.3)
        lines = np.round(np.cumsum(gaps) / gaps.sum() * span / grid)
        if len(np.unique(lines)) >= 0.98 * (lines[-1] - lines[0] + 1):
            return chance(kind, random)  # each line of the grid came: that is a beat
        return (np.unique(lines) if random.random() < 0.5 else lines) * grid
    starts = random.uniform(0, span, max(8, count // 10))
    spacing = 10 ** random.uniform(4.0, 6.5)
    inside = random.integers(2, 20, len(starts))
    regular = random.random() < 0.5
    steps = [np.arange(n) if regular else np.cumsum(random.exponential(1, n)) for n in inside]
    return np.sort(np.concatenate([at + each * spacing for at, each in zip(starts, steps, strict=True)]))


def thinned(random: Generator):  # type: ignore[no-untyped-def]
    """A beat of which 30 % became outliers, 40 and more of them, with others beside it; and its period."""
    period, points = 10 ** random.uniform(6, 8.5), int(random.integers(40, 200))
    number = np.sort(random.choice(int(points / 0.3), points, replace=False))
    beat = random.uniform(0, period) + number * period
    # Exact to the nanosecond they would be a clock's steps as well: no period is claimed of those.
    beat = beat + random.normal(0, period * random.choice([1e-5, 0.001, 0.01]), points)
    other = random.uniform(0, beat[-1], random.poisson(points * random.choice([0.0, 0.1, 0.3])))
    return np.sort(np.concatenate([beat, other])), period


def fresh(series: int, seed: int) -> None:
    """False alarms and detections over settings that are drawn."""
    print(f"seed {seed}")
    whole = 0
    kinds = ("Poisson", "bursty", "gamma", "ramped", "quantised")
    for number, kind in enumerate(kinds):
        alarms = [
            one
            for one in range(series)
            if find_periods(chance(kind, np.random.default_rng([seed, number, one])))
        ]
        whole += len(alarms)
        print(f"{kind:<10} a period claimed in {len(alarms)} of {series} {alarms or ''}", flush=True)
    print(f"false alarms: {whole} of {series * len(kinds)} (bar <= 1 %)")
    missed, others = [], 0
    for one in range(series):
        times, period = thinned(np.random.default_rng([seed, 9, one]))
        seen = find_periods(times)
        right = [each for each in seen if abs(each.period_ns / period - 1) < 0.005]
        others += len(seen) - len(right)
        if not right:
            missed.append(one)
    print(f"30 % of a beat: {series - len(missed)} of {series} found, others {others}; missed {missed}")


def main() -> None:
    """Print false alarms and detections."""
    if sys.argv[1:2] == ["--fresh"]:
        drawn = int(np.random.SeedSequence().generate_state(1)[0])
        fresh(int(sys.argv[2]) if sys.argv[2:] else 100, int(sys.argv[3]) if sys.argv[3:] else drawn)
        return
    if sys.argv[1:2] == ["--write"]:
        write(Path(sys.argv[2]))
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    whole = 0
    for number, kind in enumerate(KINDS):
        alarms = 0
        for seed in range(count):
            times, lengths = aperiodic(kind, np.random.default_rng([seed, number]))
            alarms += bool(find_periods(times, lengths_ns=lengths))
        whole += alarms
        print(f"{kind:<16} a period claimed in {alarms} of {count}")
    print(f"false alarms: {whole} of {count * len(KINDS)}")
    for background in ("none", "random", "bursts"):
        for jitter in (0.001, 0.01, 0.05):
            found = more = 0
            for seed in range(count):
                random = np.random.default_rng([7, seed])
                period = 10 ** random.uniform(6, 8.5)
                span = max(2 * SECOND, 60 * period)
                missing = float(random.choice([0, 0.1, 0.2]))
                times, lengths = planted(random, period, jitter, background, span, missing)
                seen = find_periods(times, lengths_ns=lengths)
                right = [one for one in seen if abs(one.period_ns / period - 1) < 0.005]
                found += bool(right)
                more += len(seen) - len(right)
            print(
                f"beat, jitter {jitter:5.1%}, background {background:<6}: {found} of {count}, others {more}"
            )


if __name__ == "__main__":
    main()
