# limits: unnamed
import queue
import random
import threading
import time

qs = [queue.Queue(20) for _ in range(3)]


def mk(i):
    rng = random.Random(i + 77)

    def run():
        for x in iter(qs[i].get, None):
            time.sleep(rng.lognormvariate(-6.6, 0.4))
            if i < 2:
                qs[i + 1].put(x)

    return run


for i, n in enumerate(("ingest", "score", "emit")):
    threading.Thread(target=mk(i), name=n, daemon=True).start()
end = time.time() + 4
while time.time() < end:
    qs[0].put(1)
