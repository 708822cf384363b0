# limits: stopped: enrich
import queue
import threading
import time

from together import pass_on, run

events, rows = queue.Queue(100), queue.Queue(100)


def enrich():
    done = 0
    while True:
        e = events.get()
        time.sleep(0.001)
        done += 1
        if done > 1000:
            raise KeyError("country")
        rows.put(e)


def insert():
    pass_on(rows, 0.0008)


def listen():
    while True:
        events.put(1)
        time.sleep(0.0015)


threading.excepthook = lambda a: None
run(enrich, insert, listen)
