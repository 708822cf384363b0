# limits: burst
import queue
import threading
import time

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
    while True:
        seat = requests.get()
        time.sleep(0.0008)
        confirmed.put(seat)


def notify():
    while True:
        confirmed.get()


for f in (on_sale, reserve, notify):
    threading.Thread(target=f, daemon=True).start()
time.sleep(5)
