# limits: main|reduce|MainThread|results
import multiprocessing as mp
import time


def mapper(tasks, results):
    while True:
        t = tasks.get()
        if t is None:
            return
        time.sleep(0.002)
        results.put(t * t)


def feed(tasks):
    while True:
        tasks.put(7)


if __name__ == "__main__":
    tasks, results = mp.Queue(20), mp.Queue(20)
    workers = [mp.Process(target=mapper, args=(tasks, results), daemon=True) for _ in range(4)]
    feeder = mp.Process(target=feed, args=(tasks,), daemon=True)
    [w.start() for w in [*workers, feeder]]
    end, total = time.time() + 4, 0
    while time.time() < end:
        total += results.get()
        time.sleep(0.003)
    [w.terminate() for w in [*workers, feeder]]
