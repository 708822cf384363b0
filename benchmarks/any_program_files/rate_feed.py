# limit: timer | sleep|ticker|feed|rate_feed
"""A feed that ticks every 4 ms over a queue; the consumer has plenty of time."""

import queue
import sys
import threading
import time

ticks: "queue.Queue[float]" = queue.Queue()


def ticker(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.004)
        ticks.put(time.monotonic())
    ticks.put(-1.0)


threading.Thread(target=ticker, args=(float(sys.argv[1]),), name="feed").start()
count = 0
while ticks.get() > 0:
    count += 1
print(count)
