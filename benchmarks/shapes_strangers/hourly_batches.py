# limits: none|timer
import queue
import time

from together import during, pass_on, start

inbox, outbox = queue.Queue(1000), queue.Queue(1000)


def transform():
    pass_on(inbox, 0.0006, outbox)


def load():
    pass_on(outbox, 0.0004)


start(transform, load)
for _ in during(4):
    for i in range(300):
        inbox.put(i)
    time.sleep(0.8)
