# limits: overseas
import itertools
import queue
import threading
import time

incoming = queue.Queue(25)
trays = {"inland": queue.Queue(25), "overseas": queue.Queue(25), "local": queue.Queue(25)}


def collect():
    for n in itertools.count():
        incoming.put(n)
        time.sleep(0.0002)


def sort_letters():
    kinds = itertools.cycle(["inland", "overseas", "local"])
    for letter in iter(incoming.get, None):
        trays[next(kinds)].put(letter)


def inland():
    while True:
        trays["inland"].get()
        time.sleep(0.0015)


def overseas():
    while True:
        trays["overseas"].get()
        time.sleep(0.005)


def local():
    while True:
        trays["local"].get()
        time.sleep(0.001)


for job in (collect, sort_letters, inland, overseas, local):
    threading.Thread(target=job, name=job.__name__, daemon=True).start()
time.sleep(4)
