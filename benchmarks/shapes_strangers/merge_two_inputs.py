# limits: decode_right
import queue
import threading
import time

raw_l, raw_r = queue.Queue(20), queue.Queue(20)
left, right = queue.Queue(20), queue.Queue(20)
out = queue.Queue(20)


class Feed(threading.Thread):
    def __init__(self, q):
        super().__init__(daemon=True)
        self.q = q

    def run(self):
        k = 0
        while True:
            self.q.put(k)
            k += 1
            time.sleep(0.0002)


def decode_left():
    while True:
        x = raw_l.get()
        time.sleep(0.001)
        left.put(x)


def decode_right():
    while True:
        x = raw_r.get()
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
for f in (decode_left, decode_right, merge, store):
    threading.Thread(target=f, daemon=True).start()
time.sleep(4)
