# limits: decode_right
import itertools
import queue
import threading
import time

from together import run

raw_l, raw_r = queue.Queue(20), queue.Queue(20)
left, right = queue.Queue(20), queue.Queue(20)
out = queue.Queue(20)


class Feed(threading.Thread):
    def __init__(self, q):
        super().__init__(daemon=True)
        self.q = q

    def run(self):
        for k in itertools.count():
            self.q.put(k)
            time.sleep(0.0002)


def decode_left():
    for x in iter(raw_l.get, None):
        time.sleep(0.001)
        left.put(x)


def decode_right():
    for x in iter(raw_r.get, None):
        time.sleep(0.004)
        right.put(x)


def merge():
    while True:
        pair = left.get(), right.get()
        time.sleep(0.0015)
        out.put(pair)


def store():
    while True:
        out.get()
        time.sleep(0.0005)


Feed(raw_l).start()
Feed(raw_r).start()
run(decode_left, decode_right, merge, store)
