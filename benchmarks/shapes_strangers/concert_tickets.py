# limits: burst
import queue
import time

from together import pass_on, run

requests, confirmed = queue.Queue(50), queue.Queue(40)


def on_sale():
    seat = 0
    while True:
        for _ in range(150):
            confirm = (seat, time.monotonic())
            requests.put(confirm)
            seat += 1
        time.sleep(0.5)


def reserve():
    pass_on(requests, 0.0008, confirmed)


def notify():
    while True:
        confirmed.get()


run(on_sale, reserve, notify, seconds=5)
