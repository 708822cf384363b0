# limits: geocode|enrich
import queue
import time

from together import start

t0 = time.time()


def cost(first):
    return 0.003 if (time.time() - t0 < 2.2) == first else 0.0008


a, b = queue.Queue(16), queue.Queue(16)
stop = []


def geocode():
    while not stop:
        x = a.get()
        time.sleep(cost(True))
        b.put(x)


def enrich():
    while not stop:
        b.get()
        time.sleep(cost(False))


start(geocode, enrich)
while time.time() - t0 < 4.4:
    a.put(1)
