# limits: lock|handle
import queue
import threading
import time

jobs = queue.Queue(100)
out = queue.Queue(100)
db = threading.Lock()
stop = threading.Event()


def handle():
    while not stop.is_set():
        x = jobs.get()
        time.sleep(0.001)
        with db:
            time.sleep(0.003)
        out.put(x)


def audit():
    while not stop.is_set():
        out.get()
        time.sleep(0.0004)


for f in [handle] * 4 + [audit]:
    threading.Thread(target=f, daemon=True).start()
end = time.time() + 4
while time.time() < end:
    jobs.put(1)
stop.set()
