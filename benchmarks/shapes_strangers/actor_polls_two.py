# limits: matcher
import queue
import random
import threading
import time


class Engine:
    def __init__(self):
        self.orders = queue.Queue(64)
        self.quotes = queue.Queue(256)
        self.trades = queue.Queue(64)
        self.running = True

    def matcher(self):
        while self.running:
            idle = True
            for q, cost in ((self.quotes, 0.0001), (self.orders, 0.0025)):
                try:
                    x = q.get_nowait()
                except queue.Empty:
                    continue
                idle = False
                time.sleep(cost)
                if q is self.orders:
                    self.trades.put(x)
            if idle:
                time.sleep(0.0005)

    def publisher(self):
        while self.running:
            try:
                self.trades.get(timeout=0.05)
            except queue.Empty:
                continue
            time.sleep(0.0005)

    def gateway(self):
        while self.running:
            try:
                self.orders.put(random.random(), timeout=0.05)
            except queue.Full:
                pass

    def feed(self):
        while self.running:
            try:
                self.quotes.put_nowait(1)
            except queue.Full:
                pass
            time.sleep(0.003)


e = Engine()
ts = [threading.Thread(target=f, name=f.__name__) for f in (e.matcher, e.publisher, e.gateway, e.feed)]
[t.start() for t in ts]
time.sleep(4)
e.running = False
[t.join() for t in ts]
