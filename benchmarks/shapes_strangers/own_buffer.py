# limits: consumer
import collections
import threading
import time

from together import run


class Buffer:
    def __init__(self, n):
        self.d = collections.deque()
        self.n = n
        self.c = threading.Condition()

    def push(self, x):
        with self.c:
            while len(self.d) >= self.n:
                self.c.wait()
            self.d.append(x)
            self.c.notify_all()

    def pop(self):
        with self.c:
            while not self.d:
                self.c.wait()
            x = self.d.popleft()
            self.c.notify_all()
            return x


b = Buffer(20)
c = Buffer(20)
stop = False


def producer():
    while not stop:
        b.push(sum(range(200)))


def filterer():
    while not stop:
        x = b.pop()
        time.sleep(0.001)
        c.push(x)


def consumer():
    while not stop:
        c.pop()
        time.sleep(0.003)


run(producer, filterer, consumer)
stop = True
