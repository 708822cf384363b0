# limits: unnamed
import queue
import threading
import time

catches, drives, finishes = (queue.Queue(16) for _ in range(3))


def stroke():
    n = 0
    while True:
        time.sleep(0.003)
        catches.put(n)
        n += 1


def engine_room():
    while True:
        n = catches.get()
        time.sleep(0.003)
        drives.put(n)


def bow_pair():
    while True:
        n = drives.get()
        time.sleep(0.003)
        finishes.put(n)


def cox():
    while True:
        finishes.get()
        time.sleep(0.003)


for seat in (stroke, engine_room, bow_pair, cox):
    threading.Thread(target=seat, daemon=True).start()
time.sleep(5)
