# limits: idle_connections|pool
import queue
import threading
import time

from together import during, pass_on


class Pool:
    def __init__(self, n):
        self.idle_connections = queue.LifoQueue(n)
        for i in range(n):
            self.idle_connections.put(i)

    def query(self):
        c = self.idle_connections.get()
        try:
            time.sleep(0.005)
        finally:
            self.idle_connections.put(c)


pool = Pool(2)
jobs, answers = queue.Queue(30), queue.Queue(30)


def handler():
    for j in iter(jobs.get, None):
        pool.query()
        time.sleep(0.001)
        answers.put(j)


def respond():
    pass_on(answers, 0.0003)


for _ in range(6):
    threading.Thread(target=handler, daemon=True).start()
threading.Thread(target=respond, daemon=True).start()
for _ in during(4):
    jobs.put(1)
    time.sleep(0.0002)
