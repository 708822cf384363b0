"""How most of the programs beside it run: a daemon thread a step, for some seconds."""

import threading
import time


def start(*steps):
    threads = [threading.Thread(target=step, daemon=True) for step in steps]
    for thread in threads:
        thread.start()
    return threads


def run(*steps, seconds=4):
    start(*steps)
    time.sleep(seconds)


def pass_on(inlet, seconds, outlet=None):
    for item in iter(inlet.get, None):
        time.sleep(seconds)
        if outlet is not None:
            outlet.put(item)
    if outlet is not None:
        outlet.put(None)


def feed(outlet, item, seconds):
    while True:
        outlet.put(item)
        time.sleep(seconds)


def during(seconds):
    end = time.time() + seconds
    while time.time() < end:
        yield
