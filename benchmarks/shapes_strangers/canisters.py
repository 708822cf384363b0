# limits: clean
import queue
import threading
import time

empties = queue.Queue(6)
filled = queue.Queue(6)
dirty = queue.Queue(6)
for number in range(6):
    empties.put(f"canister-{number}")


def fill():
    while True:
        canister = empties.get()
        time.sleep(0.001)
        filled.put(canister)


def pour():
    while True:
        canister = filled.get()
        time.sleep(0.0015)
        dirty.put(canister)


def clean():
    while True:
        canister = dirty.get()
        time.sleep(0.006)
        empties.put(canister)


for step in (fill, pour, clean):
    threading.Thread(target=step, daemon=True).start()
time.sleep(4)
