# limits: stopped: archive
import queue
import threading
import time

levels = queue.Queue(30)
smooth = queue.Queue(30)


def gauge():
    n = 0
    while True:
        levels.put(n % 40)
        n += 1
        time.sleep(0.002)


def average():
    mean = 0.0
    while True:
        mean += (levels.get() - mean) * 0.1
        smooth.put(mean)


def archive():
    pages = []
    for _ in range(400):
        pages.append(smooth.get())
        time.sleep(0.001)
    pages.clear()


for job in (gauge, average, archive):
    threading.Thread(target=job, name=job.__name__, daemon=True).start()
time.sleep(5)
