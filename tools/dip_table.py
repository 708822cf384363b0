"""Print src/latlab/stats/shapes/dip.csv again: quantiles of sqrt(n) * dip (takes minutes)."""

import numpy as np

from latlab.stats.shapes.dip import PROBABILITIES, SIZES, dip_statistic


def main() -> None:
    """One row a size."""
    random = np.random.default_rng(20241121)
    print("size," + ",".join(f"{value:g}" for value in PROBABILITIES))
    for size in SIZES:
        samples = 20_000 if size < 3000 else 5_000
        dips = [dip_statistic(random.random(size)) for _ in range(samples)]
        row = np.quantile(np.array(dips) * np.sqrt(size), PROBABILITIES)
        print(f"{size}," + ",".join(f"{value:.4f}" for value in row), flush=True)


if __name__ == "__main__":
    main()
