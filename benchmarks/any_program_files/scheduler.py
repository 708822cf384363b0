# limit: thread | plan|scheduler|planner
"""One planner thread in pure Python feeds three executors that wait for it; they sleep-free and short."""

import queue
import sys
import threading
import time

jobs: "queue.SimpleQueue[list[int] | None]" = queue.SimpleQueue()
room = threading.Semaphore(6)


def plan(size: int) -> list[int]:
    order = sorted(range(size), key=lambda k: (k * 7919) % size)
    return order[:50]


def planner(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        room.acquire()
        jobs.put(plan(9000))
    for _ in range(3):
        jobs.put(None)


def executor() -> None:
    while (job := jobs.get()) is not None:
        sum(job)
        room.release()


threads = [threading.Thread(target=executor, name=f"executor-{k}") for k in range(3)]
threads.append(threading.Thread(target=planner, args=(float(sys.argv[1]),), name="planner"))
for one in threads:
    one.start()
for one in threads:
    one.join()
