# limits: hidden score
import collections
import queue
import threading
import time

from together import feed, pass_on, run

from latlab.queues import instrument

first = instrument(queue.Queue(32), name="first", source="ingest", drain="clean")
last = instrument(queue.Queue(32), name="last", source="score", drain="emit")


class Ring:
    def __init__(self, n):
        self.d, self.n, self.cv = collections.deque(), n, threading.Condition()

    def push(self, x):
        with self.cv:
            self.cv.wait_for(lambda: len(self.d) < self.n)
            self.d.append(x)
            self.cv.notify_all()

    def pop(self):
        with self.cv:
            self.cv.wait_for(lambda: self.d)
            x = self.d.popleft()
            self.cv.notify_all()
            return x


middle = Ring(16)


def ingest():
    feed(first, 1, 0.0002)


def clean():
    for x in iter(first.get, None):
        time.sleep(0.001)
        middle.push(x)


def score():
    while True:
        x = middle.pop()
        time.sleep(0.004)
        last.put(x)


def emit():
    pass_on(last, 0.0005)


run(ingest, clean, score, emit)
