# limits: unnamed
import itertools
import queue
import time

from together import run

catches, drives, finishes = (queue.Queue(16) for _ in range(3))


def stroke():
    for n in itertools.count():
        time.sleep(0.003)
        catches.put(n)


def engine_room():
    for n in iter(catches.get, None):
        time.sleep(0.003)
        drives.put(n)


def bow_pair():
    for n in iter(drives.get, None):
        time.sleep(0.003)
        finishes.put(n)


def cox():
    while True:
        finishes.get()
        time.sleep(0.003)


run(stroke, engine_room, bow_pair, cox, seconds=5)
