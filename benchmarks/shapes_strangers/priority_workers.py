# limits: worker
import dataclasses
import itertools
import queue
import random
import threading
import time


@dataclasses.dataclass(order=True)
class Job:
    priority: int
    n: int
    payload: object = dataclasses.field(compare=False, default=None)


jobs = queue.PriorityQueue(maxsize=200)
done = queue.SimpleQueue()
stop = threading.Event()


def worker(i):
    rng = random.Random(i)
    while not stop.is_set():
        try:
            job = jobs.get(timeout=0.1)
        except queue.Empty:
            continue
        time.sleep(min(0.02, rng.lognormvariate(-5.6, 0.5)))
        done.put((job.n, i))
        jobs.task_done()


def collect():
    n = 0
    while not stop.is_set():
        try:
            done.get(timeout=0.1)
        except queue.Empty:
            continue
        n += 1
        time.sleep(0.0003)
    print("did", n)


ts = [threading.Thread(target=worker, args=(i,)) for i in range(3)] + [threading.Thread(target=collect)]
[t.start() for t in ts]
end = time.time() + 4
c = itertools.count()
while time.time() < end:
    jobs.put(Job(random.randrange(5), next(c)))
stop.set()
[t.join() for t in ts]
