# limits: clean
import queue
import time

from together import run

empties = queue.Queue(6)
filled = queue.Queue(6)
dirty = queue.Queue(6)
for number in range(6):
    empties.put(f"canister-{number}")


def fill():
    for canister in iter(empties.get, None):
        time.sleep(0.001)
        filled.put(canister)


def pour():
    for canister in iter(filled.get, None):
        time.sleep(0.0015)
        dirty.put(canister)


def clean():
    for canister in iter(dirty.get, None):
        time.sleep(0.006)
        empties.put(canister)


run(fill, pour, clean)
