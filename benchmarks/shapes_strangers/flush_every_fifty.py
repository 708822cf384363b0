# limits: flusher
import queue
import time

from together import during, pass_on, start

lines, records = queue.Queue(200), queue.Queue(200)


def parse():
    pass_on(lines, 0.0008, records)


def flusher():
    batch = []
    while True:
        batch.append(records.get())
        if len(batch) >= 50:
            time.sleep(0.125)
            batch = []


start(parse, flusher)
for _ in during(4):
    lines.put("GET /")
    time.sleep(0.0004)
