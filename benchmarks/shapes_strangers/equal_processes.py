# limits: unnamed
import multiprocessing as mp
import time


def pump(q):
    while True:
        q.put(1)


def filter_stage(q, r):
    while True:
        x = q.get()
        time.sleep(0.002)
        r.put(x)


def sink(r):
    while True:
        r.get()
        time.sleep(0.002)


if __name__ == "__main__":
    q, r = mp.Queue(16), mp.Queue(16)
    ps = [
        mp.Process(target=pump, args=(q,), daemon=True),
        mp.Process(target=filter_stage, args=(q, r), daemon=True),
        mp.Process(target=sink, args=(r,), daemon=True),
    ]
    [p.start() for p in ps]
    time.sleep(4)
    [p.terminate() for p in ps]
