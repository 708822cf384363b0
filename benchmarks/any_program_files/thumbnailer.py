# limit: process,thread | shrink|SpawnProcess|SpawnPoolWorker|thumbnailer|multiprocessing
"""A pool of spawned processes: the parent hands out pictures, two workers shrink them."""

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor


def shrink(seed: int) -> int:
    pixels = bytearray((seed * k) & 255 for k in range(40_000))
    return sum(pixels[k] + pixels[k + 1] for k in range(0, len(pixels) - 1, 2))


if __name__ == "__main__":
    until = time.monotonic() + float(sys.argv[1])
    total = 0
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        while time.monotonic() < until:
            total += sum(pool.map(shrink, range(16), chunksize=1))
    print(total)
