# limits: lines resize, bill
import queue
import time

from together import run

shots, thumbs = queue.Queue(16), queue.Queue(16)
orders, bills = queue.Queue(50), queue.Queue(50)


def camera():
    while True:
        shots.put(b"jpg")
        time.sleep(0.0005)


def resize():
    for x in iter(shots.get, None):
        time.sleep(0.006)
        thumbs.put(x)


def publish():
    while True:
        thumbs.get()
        time.sleep(0.001)


def shop():
    while True:
        orders.put({"id": 1})
        time.sleep(0.0005)


def bill():
    for o in iter(orders.get, None):
        time.sleep(0.002)
        bills.put(o)


def mail():
    while True:
        bills.get()
        time.sleep(0.0006)


run(camera, resize, publish, shop, bill, mail)
