# limit: process,thread | simulate_region|regions|ForkPoolWorker|worker
"""Pool.map over regions of which one is twenty times as large: the others' workers wait for it."""

from mapped import map_until_over


def simulate_region(cells: int) -> float:
    value = 0.5
    for _ in range(cells):
        value = 3.7 * value * (1 - value)
    return value


if __name__ == "__main__":
    map_until_over(simulate_region, [2000, 3000, 2000, 80_000, 2500])
