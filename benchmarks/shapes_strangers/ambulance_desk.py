# limits: dispatch
import itertools
import queue
import random
import time

from together import pass_on, run

calls = queue.PriorityQueue(40)
crews = queue.LifoQueue(40)
rng = random.Random(11)


def telephone():
    for n in itertools.count():
        calls.put((rng.randint(1, 4), n, f"street {n % 80}"))
        time.sleep(0.001)


def dispatch():
    while True:
        _urgency, number, where = calls.get()
        time.sleep(0.004)
        crews.put((number, where))


def drive():
    pass_on(crews, 0.0015)


run(telephone, dispatch, drive)
