# limits: hidden convert
import queue
import time

from together import run

from latlab.queues import instrument

a = instrument(queue.Queue(32), name="a", source="read", drain="convert")
b = instrument(queue.Queue(32), name="b", source="write", drain="convert")  # the wrong way round
c = instrument(queue.Queue(32), name="c", source="write", drain="sync")


def read():
    while True:
        a.put(1)
        time.sleep(0.0002)


def convert():
    for x in iter(a.get, None):
        time.sleep(0.003)
        b.put(x)


def write():
    for x in iter(b.get, None):
        time.sleep(0.001)
        c.put(x)


def sync():
    while True:
        c.get()
        time.sleep(0.001)


run(read, convert, write, sync)
