# limits: none|timer
import queue
import time

from together import start

inbox, outbox = queue.Queue(1000), queue.Queue(1000)


def transform():
    for r in iter(inbox.get, None):
        time.sleep(0.0006)
        outbox.put(r)


def load():
    while True:
        outbox.get()
        time.sleep(0.0004)


start(transform, load)
end = time.time() + 4
while time.time() < end:
    for i in range(300):
        inbox.put(i)
    time.sleep(0.8)
