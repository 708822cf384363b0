"""A pool of three that maps the same pieces, round after round, until the time is over."""

import multiprocessing
import sys
import time


def map_until_over(work, pieces):
    end = time.monotonic() + float(sys.argv[1])
    rounds = 0
    with multiprocessing.Pool(3) as pool:
        while time.monotonic() < end:
            pool.map(work, pieces, chunksize=1)
            rounds += 1
    print(rounds, "rounds")
