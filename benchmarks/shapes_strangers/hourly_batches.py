# limits: none|timer
import queue
import threading
import time

inbox, outbox = queue.Queue(1000), queue.Queue(1000)


def transform():
    while True:
        r = inbox.get()
        time.sleep(0.0006)
        outbox.put(r)


def load():
    while True:
        outbox.get()
        time.sleep(0.0004)


for f in (transform, load):
    threading.Thread(target=f, daemon=True).start()
end = time.time() + 4
while time.time() < end:
    for i in range(300):
        inbox.put(i)
    time.sleep(0.8)
