# limits: lines fry, stamp
import itertools
import queue
import threading
import time

orders, plated = queue.Queue(20), queue.Queue(20)
letters, stamped = queue.Queue(10), queue.Queue(10)


def cook_line():
    def take_order():
        for n in itertools.count():
            orders.put(n)

    def fry():
        for dish in iter(orders.get, None):
            time.sleep(0.004)
            plated.put(dish)

    def serve():
        while True:
            plated.get()
            time.sleep(0.001)

    return take_order, fry, serve


def post_line():
    def queue_up():
        for n in itertools.count():
            letters.put(n)

    def stamp():
        for letter in iter(letters.get, None):
            time.sleep(0.007)
            stamped.put(letter)

    def bag():
        while True:
            stamped.get()
            time.sleep(0.002)

    return queue_up, stamp, bag


for worker in (*cook_line(), *post_line()):
    threading.Thread(target=worker, name=worker.__name__, daemon=True).start()
time.sleep(4)
