# limits: none|timer|load
import queue
import threading
import time

samples, beats = queue.Queue(64), queue.Queue(64)


def sensor():
    due, k = time.monotonic(), 0
    while True:
        due += 0.005
        time.sleep(max(0.0, due - time.monotonic()))
        samples.put(k * 37 % 101)
        k += 1


def detect():
    window = [0] * 8
    while True:
        window = [*window[1:], samples.get()]
        beats.put(max(window))


def display():
    screen = []
    while True:
        screen = ([*screen, beats.get()])[-200:]


for f in (sensor, detect, display):
    threading.Thread(target=f, name=f.__name__, daemon=True).start()
time.sleep(4)
