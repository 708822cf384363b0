# limits: unnamed
import itertools
import queue
import time

from together import pass_on, run

catches, drives, finishes = (queue.Queue(16) for _ in range(3))


def stroke():
    for n in itertools.count():
        time.sleep(0.003)
        catches.put(n)


def engine_room():
    pass_on(catches, 0.003, drives)


def bow_pair():
    pass_on(drives, 0.003, finishes)


def cox():
    pass_on(finishes, 0.003)


run(stroke, engine_room, bow_pair, cox, seconds=5)
