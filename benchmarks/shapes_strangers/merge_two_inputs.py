# limits: decode_right
import itertools
import queue
import threading
import time

from together import pass_on, run

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
    pass_on(raw_l, 0.001, left)


def decode_right():
    pass_on(raw_r, 0.004, right)


def merge():
    while True:
        pair = left.get(), right.get()
        time.sleep(0.0015)
        out.put(pair)


def store():
    pass_on(out, 0.0005)


Feed(raw_l).start()
Feed(raw_r).start()
run(decode_left, decode_right, merge, store)
