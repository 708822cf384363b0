"""Humps: how often one mode is said to be two, and whether asleep is told from awake, simulated and for real.

The real runs send pairs: the first message finds a receiver whose core has slept for 3 ms, the second, 150
us later, one that sleeps on a core that is still awake. So it is known which message is of which mode, and
where both modes are. Runs in which they overlap (the p90 of one above the p10 of the other) have one hump or
two by right, and are left out.

    python -m benchmarks.messaging_humps
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from latlab.messaging import analyse, latencies, measure
from latlab.model.messaging import Settings
from latlab.stats.humps import find_humps

RUNS, MESSAGES = 200, 2000
LEVEL = 0.01  # of the analysis
APART_NS, PAIR_NS = 3_000_000, 150_000
ROUNDS = 9


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


def for_real() -> bool:
    found = judged = 0
    with tempfile.TemporaryDirectory() as folder:
        times = Path(folder, "times")
        times.write_text("".join(f"{i * APART_NS}\n{i * APART_NS + PAIR_NS}\n" for i in range(400)))
        for _ in range(ROUNDS):
            settings = Settings(
                "unix", topology="direct", messages=700, warmup=100, load="file", load_file=str(times),
                wait="block", priority=10 if os.geteuid() == 0 else 0,
            )  # fmt: skip
            m = measure(settings)
            numbers, latency = latencies(m)
            # Sorted: whichever of the two is the slower one here, both modes are known.
            fast, slow = sorted(
                (np.quantile(latency[numbers % 2 == which], [0.1, 0.5, 0.9]) for which in (0, 1)),
                key=lambda quantiles: float(quantiles[1]),
            )
            truth, apart = [float(fast[1]), float(slow[1])], bool(fast[2] < slow[0])
            result = analyse(m)
            judged += apart
            found += apart and near([(h.at_ns, h.weight) for h in result.humps], truth)
            said = ", ".join(f"{h.at_ns / 1e3:.1f} us ({h.weight:.0%})" for h in result.humps)
            print(
                f"a real run, awake {truth[0] / 1e3:.1f} us, asleep {truth[1] / 1e3:.1f} us"
                f"{'' if apart else ' (overlapping)'}: {said}; {result.idle['driver']}, idle "
                f"{result.idle['idle_share']:.0%}",
                flush=True,
            )
    print(f"both modes found at their places in {found} of {judged} real runs that have two (bar 95 %)")
    return judged > 0 and found >= 0.95 * judged


def in_pairs() -> bool:
    """The blocking and the polling variant, which must differ by what a wake-up takes."""
    good = True
    for name in ("unix", "shm"):
        shown = {}
        for wait in ("block", "poll"):
            settings = Settings(
                name, topology="direct", messages=700, warmup=100, load="rate", rate_hz=500.0, wait=wait
            )
            result = analyse(measure(settings))
            assert result.latency is not None
            shown[wait] = (result.latency.median, result.sleeps_per_message)
        print(
            f"{name}, a message every 2 ms: blocking p50 {shown['block'][0] / 1e3:.1f} us "
            f"({shown['block'][1]:.2f} sleeps a message), polling {shown['poll'][0] / 1e3:.1f} us "
            f"({shown['poll'][1]:.2f})",
            flush=True,
        )
        good = good and shown["poll"][0] < shown["block"][0]
    return good


def main() -> int:
    """Exit status 1 when a bar is missed."""
    return 0 if all([false_alarms(), simulated(), for_real(), in_pairs()]) else 1


if __name__ == "__main__":
    sys.exit(main())
