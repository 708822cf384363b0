# limits: ^stage: serve$
import itertools
import queue
import threading
import time

from together import pass_on

WINDOW = 8
requests, replies = queue.Queue(), queue.Queue()
credit = threading.Semaphore(WINDOW)


def client():
    for n in itertools.count():
        credit.acquire()
        time.sleep(0.0005)
        requests.put(n)


def serve():
    pass_on(requests, 0.003, replies)


def complete():
    while True:
        replies.get()
        time.sleep(0.0008)
        credit.release()


for f in (client, serve, complete):
    threading.Thread(target=f, name=f.__name__, daemon=True).start()
time.sleep(4)
