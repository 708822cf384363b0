"""Humps: how often one mode is said to be two, and whether asleep is told from awake, simulated and for real.

The real messages are those of two runs, one of a receiver that spins and one of a receiver that sleeps
between messages, so that it is known which message is of which mode.

    python -m benchmarks.messaging_humps
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from latlab.messaging import analyse, latencies, measure
from latlab.model.messaging.results import Settings
from latlab.stats.shapes.humps import find_humps

RUNS, MESSAGES = 200, 2000
LEVEL = 0.01  # of the analysis
ROUNDS = 3


def correlated(random: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    """Neighbours that are alike, as latencies are: a lognormal with a memory of some 10 messages."""
    noise, state = random.standard_normal(n), 0.0
    for i in range(n):
        state = 0.9 * state + np.sqrt(1 - 0.81) * noise[i]
        noise[i] = state
    return np.asarray(np.exp(10 + 0.3 * noise))


SHAPES = {
    "lognormal": lambda r, n: np.exp(10 + 0.3 * r.standard_normal(n)),
    "gamma": lambda r, n: 5000 + r.gamma(2, 3000, n),
    "uniform": lambda r, n: r.uniform(5000, 20_000, n),
    "pareto": lambda r, n: 5000 * (1 + r.pareto(1.5, n)),
    "coarse clock": lambda r, n: np.round(r.normal(700, 120, n) / 100) * 100,
    "alike neighbours": correlated,
}


def false_alarms() -> bool:
    random = np.random.default_rng(1)
    total = 0
    for name, shape in SHAPES.items():
        alarms = sum(find_humps(shape(random, MESSAGES), alpha=LEVEL).multimodal for _ in range(RUNS))
        total += alarms
        print(f"one mode, {name:<17}: {alarms} of {RUNS} said to have more", flush=True)
    print(f"false alarms (bar 5 %): {total / RUNS / len(SHAPES):.1%}")
    return total <= 0.05 * RUNS * len(SHAPES)


def near(places: list[tuple[float, float]], truth: list[float]) -> bool:
    """Whether the two heaviest humps, (at, weight) each, are within a fifth of where the modes are."""
    heavy = sorted(sorted(places, key=lambda place: -place[1])[:2])
    return len(heavy) == 2 and all(abs(at / t - 1) < 0.2 for (at, _), t in zip(heavy, truth, strict=True))


def simulated() -> bool:
    random = np.random.default_rng(2)
    found = 0
    for _ in range(RUNS):
        asleep = random.random(MESSAGES) < random.uniform(0.1, 0.9)
        spread = np.exp(0.15 * random.standard_normal(MESSAGES))
        humps = find_humps(np.where(asleep, 25_000, 7_000) * spread, alpha=LEVEL).humps
        found += len(humps) == 2 and near([(h.at, h.weight) for h in humps], [7_000, 25_000])
    print(f"7 and 25 us, 10 to 90 % asleep: both found at their places in {found} of {RUNS} (bar 95 %)")
    return found >= 0.95 * RUNS


def latency_of(name: str, wait: str) -> npt.NDArray[np.int64]:
    settings = Settings(
        name, topology="direct", messages=1000, warmup=100, load="rate", rate_hz=500.0, wait=wait
    )
    m = measure(settings)
    result = analyse(m)
    assert result.latency is not None
    print(
        f"  {name}, a message every 2 ms, {wait}: p50 {result.latency.median / 1e3:.1f} us, "
        f"{result.sleeps_per_message:.2f} sleeps a message, {result.idle['driver']}, idle "
        f"{result.idle['idle_share']:.0%}",
        flush=True,
    )
    return latencies(m)[1]


def for_real() -> bool:
    """Asleep and awake messages, mixed: some border between two humps must tell them apart."""
    good = True
    for name in ("unix", "shm", "tcp"):
        found = []
        for _ in range(ROUNDS):
            awake, asleep = latency_of(name, "poll"), latency_of(name, "block")
            humps = find_humps(np.concatenate([awake, asleep]), alpha=LEVEL).humps
            borders = [h.high for h in humps[:-1]]
            told = [float(np.mean(awake <= at) + np.mean(asleep > at)) / 2 for at in borders]
            found.append(max(told, default=0.5))
        print(
            f"{name}: awake told from asleep in at least {min(found):.1%} (bar 95 %)",
            flush=True,
        )
        good = good and min(found) >= 0.95
    return good


def main() -> int:
    """Exit status 1 when a bar is missed."""
    return 0 if all([false_alarms(), simulated(), for_real()]) else 1


if __name__ == "__main__":
    sys.exit(main())
