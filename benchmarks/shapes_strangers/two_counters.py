# limits: lines fry, stamp
import queue
import threading
import time

from together import feed, pass_on

orders, plated = queue.Queue(20), queue.Queue(20)
letters, stamped = queue.Queue(10), queue.Queue(10)

COUNTERS = [
    ("take_order", feed, orders, 1, 0),
    ("fry", pass_on, orders, 0.004, plated),
    ("serve", pass_on, plated, 0.001),
    ("queue_up", feed, letters, 1, 0),
    ("stamp", pass_on, letters, 0.007, stamped),
    ("bag", pass_on, stamped, 0.002),
]

for name, work, *given in COUNTERS:
    threading.Thread(target=work, args=given, name=name, daemon=True).start()
time.sleep(4)
