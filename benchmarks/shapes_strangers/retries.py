# limits: fetch
import queue
import random
import time

from together import during, pass_on, start

todo, pages = queue.Queue(), queue.Queue(50)
rng = random.Random(3)


def fetch():
    for u in iter(todo.get, None):
        time.sleep(0.003)
        if rng.random() < 0.2:
            todo.put(u)
        else:
            pages.put(u)


def parse():
    pass_on(pages, 0.001)


start(fetch, parse)
for _ in during(4):
    if todo.qsize() < 100:
        todo.put("u")
    else:
        time.sleep(0.001)
