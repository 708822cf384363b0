# limits: unnamed
import multiprocessing as mp
import time

from together import pass_on


def pump(q):
    while True:
        q.put(1)


def filter_stage(q, r):
    pass_on(q, 0.002, r)


def sink(r):
    pass_on(r, 0.002)


if __name__ == "__main__":
    q, r = mp.Queue(16), mp.Queue(16)
    steps = ((pump, (q,)), (filter_stage, (q, r)), (sink, (r,)))
    ps = [mp.Process(target=step, args=ends, daemon=True) for step, ends in steps]
    [p.start() for p in ps]
    time.sleep(4)
    [p.terminate() for p in ps]
