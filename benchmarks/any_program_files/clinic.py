# limit: lock | rooms
import random
import threading
import time

rooms = threading.BoundedSemaphore(2)
seen = 0
seen_lock = threading.Lock()


def consult():
    time.sleep(0.012)


def patient(visits):
    global seen
    for _ in range(visits):
        time.sleep(random.uniform(0.002, 0.006))
        with rooms:
            consult()
        with seen_lock:
            seen += 1


ts = [threading.Thread(target=patient, args=(95,), name=f"patient-{i}") for i in range(8)]
for t in ts:
    t.start()
for t in ts:
    t.join()
