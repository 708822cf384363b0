# limits: compress
import queue
import threading
import time
import zlib

from together import pass_on

a, b, c = (queue.Queue(maxsize=1) for _ in range(3))
DATA = bytes(range(256)) * 900
end = time.time() + 4


def read():
    while time.time() < end:
        time.sleep(0.0004)
        a.put(DATA)


def frame():
    pass_on(a, 0.001, b)


def compress():
    for d in iter(b.get, None):
        c.put(zlib.compress(d, 9))
        c.join()


def send():
    while True:
        c.get()
        time.sleep(0.0006)
        c.task_done()


ts = [threading.Thread(target=f, daemon=True) for f in (read, frame, compress, send)]
[t.start() for t in ts]
ts[0].join()
