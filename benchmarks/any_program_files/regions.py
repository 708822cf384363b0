# limit: process,thread | simulate_region|regions|ForkPoolWorker|worker
"""Pool.map over regions of which one is twenty times as large: the others' workers wait for it."""

import multiprocessing
import sys
import time

SIZES = [2000, 3000, 2000, 80_000, 2500]


def simulate_region(cells: int) -> float:
    value = 0.5
    for _ in range(cells):
        value = 3.7 * value * (1 - value)
    return value


if __name__ == "__main__":
    until = time.monotonic() + float(sys.argv[1])
    total = 0.0
    with multiprocessing.Pool(3) as pool:
        while time.monotonic() < until:
            total += sum(pool.map(simulate_region, SIZES, chunksize=1))
    print(total)
