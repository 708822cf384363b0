# limits: lines fry, stamp
import itertools
import queue
import threading
import time

from together import pass_on

orders, plated = queue.Queue(20), queue.Queue(20)
letters, stamped = queue.Queue(10), queue.Queue(10)


def cook_line():
    def take_order():
        for n in itertools.count():
            orders.put(n)

    def fry():
        pass_on(orders, 0.004, plated)

    def serve():
        pass_on(plated, 0.001)

    return take_order, fry, serve


def post_line():
    def queue_up():
        for n in itertools.count():
            letters.put(n)

    def stamp():
        pass_on(letters, 0.007, stamped)

    def bag():
        pass_on(stamped, 0.002)

    return queue_up, stamp, bag


for worker in (*cook_line(), *post_line()):
    threading.Thread(target=worker, name=worker.__name__, daemon=True).start()
time.sleep(4)
