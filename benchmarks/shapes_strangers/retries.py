# limits: fetch
import queue
import random
import threading
import time

todo, pages = queue.Queue(), queue.Queue(50)
rng = random.Random(3)


def fetch():
    while True:
        u = todo.get()
        time.sleep(0.003)
        if rng.random() < 0.2:
            todo.put(u)
        else:
            pages.put(u)


def parse():
    while True:
        pages.get()
        time.sleep(0.001)


for f in (fetch, parse):
    threading.Thread(target=f, daemon=True).start()
end = time.time() + 4
while time.time() < end:
    if todo.qsize() < 100:
        todo.put("u")
    else:
        time.sleep(0.001)
