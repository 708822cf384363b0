# limits: none|timer
import queue
import random
import time

from together import pass_on, run

readings, alarms = queue.Queue(100), queue.Queue(100)
rng = random.Random(5)


def sensor():
    while True:
        time.sleep(rng.expovariate(200))
        readings.put(rng.random())


def check():
    while True:
        try:
            r = readings.get(timeout=0.02)
        except queue.Empty:
            continue
        time.sleep(0.0005)
        if r > 0.5:
            alarms.put(r)


def notify():
    pass_on(alarms, 0.002)


run(sensor, check, notify)
