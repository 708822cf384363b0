"""Systems of Python threads and processes: interpreted.py NAME SEED [PART SHARE], as `systems.cpp`."""

from __future__ import annotations

import multiprocessing
import queue
import random
import sys
import threading
import time

NAME, SEED = sys.argv[1], int(sys.argv[2])
PART, SHARE = (sys.argv[3], float(sys.argv[4])) if len(sys.argv) > 4 else ("", 0.0)
DICE = random.Random(SEED)


def work(part: str, us: float) -> None:
    """So much CPU time of the calling thread, less of the part that is made faster."""
    until = time.thread_time_ns() + int(1000 * us * (1.0 - SHARE if part == PART else 1.0))
    while time.thread_time_ns() < until:
        sum(range(100))


def line() -> None:
    """Two threads that share an interpreter, and a queue between them."""
    jobs: queue.Queue[int] = queue.Queue(8)
    make, eat = DICE.uniform(600, 800), DICE.uniform(1200, 1600)

    def maker() -> None:
        for each in range(300):
            work("maker", make)
            jobs.put(each)
        jobs.put(-1)

    def eater() -> None:
        while jobs.get() >= 0:
            work("eater", eat)

    threads = [threading.Thread(target=maker), threading.Thread(target=eater)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


COST = DICE.uniform(3000, 5000)


def job(number: int) -> int:
    """What a worker of the pool does."""
    work("worker", COST)
    return number


def pool() -> None:
    """A pool of processes, and a parent that takes their results in turn."""
    with multiprocessing.get_context("fork").Pool(2) as workers:
        for _ in workers.imap(job, range(300)):
            work("parent", 900)


{"line": line, "pool": pool}[NAME]()
