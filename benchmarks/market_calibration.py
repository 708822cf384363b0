"""How far the confidence of a window's delay may be believed, on planted delays of every kind.

    python -m benchmarks.market_calibration [windows]

Prints the share of estimates within 1 us by the confidence that `latlab.market.window_delay` tells.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np

from latlab.market import window_delay

REACH_NS = 5_000_000
BOUNDS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)


def window(random: np.random.Generator) -> tuple[np.ndarray, int]:
    """Lags of 10 to 2,000 pairs, a part of them around a planted delay and the others anywhere."""
    pairs = int(10 ** random.uniform(1, 3.3))
    jitter = 10 ** random.uniform(1.5, 5.5)
    planted = int(random.uniform(-3e6, 3e6))
    true = random.random(pairs) < random.uniform(0.05, 1)
    spread = (random.normal, random.laplace, lambda at, by, n: random.uniform(at - by, at + by, n))
    around = spread[random.integers(3)](0.0, jitter, pairs)
    lags = np.where(true, planted + around, random.uniform(-REACH_NS, REACH_NS, pairs))
    return np.clip(lags, -REACH_NS, REACH_NS).astype(np.int64), planted


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_500
    random = np.random.default_rng(1)
    told, hit = np.zeros(count), np.zeros(count, bool)
    for i in range(count):
        lags, planted = window(random)
        found, told[i] = window_delay(lags, max_delay_ns=REACH_NS)
        hit[i] = abs(found - planted) <= 1_000
    for low, high in pairwise(BOUNDS):
        chosen = (told >= low) & (told < high)
        if chosen.any():
            mean, share = told[chosen].mean(), hit[chosen].mean()
            print(f"told {low:.2f} to {high:.2f}: mean {mean:.3f}, within 1 us {share:.3f} of {chosen.sum()}")


if __name__ == "__main__":
    main()
