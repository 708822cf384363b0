# limits: lines resize, bill
import queue

from together import feed, pass_on, run

shots, thumbs = queue.Queue(16), queue.Queue(16)
orders, bills = queue.Queue(50), queue.Queue(50)


def camera():
    feed(shots, b"jpg", 0.0005)


def resize():
    pass_on(shots, 0.006, thumbs)


def publish():
    pass_on(thumbs, 0.001)


def shop():
    feed(orders, {"id": 1}, 0.0005)


def bill():
    pass_on(orders, 0.002, bills)


def mail():
    pass_on(bills, 0.0006)


run(camera, resize, publish, shop, bill, mail)
