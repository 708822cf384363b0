# limits: flusher
import queue
import time

from together import start

lines, records = queue.Queue(200), queue.Queue(200)


def parse():
    for x in iter(lines.get, None):
        time.sleep(0.0008)
        records.put(x)


def flusher():
    batch = []
    while True:
        batch.append(records.get())
        if len(batch) >= 50:
            time.sleep(0.125)
            batch = []


start(parse, flusher)
end = time.time() + 4
while time.time() < end:
    lines.put("GET /")
    time.sleep(0.0004)
