# limit: process | census|count_town|ForkPoolWorker|worker
import multiprocessing
import sys
import time


def count_town(people):
    n = 0
    for p in range(people):
        n += p % 3 == 1
    return n


if __name__ == "__main__":
    end = time.time() + float(sys.argv[1])
    rounds = 0
    with multiprocessing.Pool(3) as pool:
        while time.time() < end:
            pool.map(count_town, [2_000_000, 20_000, 30_000, 10_000, 25_000], chunksize=1)
            rounds += 1
    print(rounds, "rounds")
