# limits: load_batch
import queue
import threading
import time

raw, clean, rows = queue.Queue(200), queue.Queue(200), queue.Queue(400)


def poll_meters():
    n = 0
    while True:
        raw.put((n, n * 3 % 77))
        n += 1
        if n % 20 == 0:
            time.sleep(0.001)


def validate():
    while True:
        meter, value = raw.get()
        if value >= 0:
            clean.put({"meter": meter, "kwh": value / 10})


def load_batch():
    while True:
        batch = [clean.get()]
        while len(batch) < 50:
            try:
                batch.append(clean.get_nowait())
            except queue.Empty:
                break
        time.sleep(0.012 + 0.0001 * len(batch))
        for row in batch:
            rows.put(row)


def bill():
    total = 0.0
    while True:
        total += rows.get()["kwh"]


for f in (poll_meters, validate, load_batch, bill):
    threading.Thread(target=f, name=f.__name__, daemon=True).start()
time.sleep(4)
