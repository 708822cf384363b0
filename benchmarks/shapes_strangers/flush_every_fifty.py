# limits: flusher
import queue
import threading
import time

lines, records = queue.Queue(200), queue.Queue(200)


def parse():
    while True:
        x = lines.get()
        time.sleep(0.0008)
        records.put(x)


def flusher():
    batch = []
    while True:
        batch.append(records.get())
        if len(batch) >= 50:
            time.sleep(0.125)
            batch = []


for f in (parse, flusher):
    threading.Thread(target=f, daemon=True).start()
end = time.time() + 4
while time.time() < end:
    lines.put("GET /")
    time.sleep(0.0004)
