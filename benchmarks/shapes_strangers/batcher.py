# limits: parse_loop
import queue
import threading
import time

from together import during, start

lines, rows = queue.Queue(500), queue.Queue(500)
stop = threading.Event()


def parse_loop():
    while not stop.is_set():
        x = lines.get()
        time.sleep(0.0015)
        rows.put(x)


def batch_loop():
    buf = []
    last = time.monotonic()
    while not stop.is_set():
        try:
            buf.append(rows.get(timeout=0.05))
        except queue.Empty:
            pass
        if len(buf) >= 100 or time.monotonic() - last > 0.25:
            time.sleep(0.02)
            buf = []
            last = time.monotonic()


start(parse_loop, batch_loop)
for _ in during(4):
    lines.put("a,b")
stop.set()
