# limits: broker
import queue
import time

from together import run

WINDOW = 8
to_broker = queue.Queue(32)
to_ledger = queue.Queue(32)
tokens = queue.Queue(WINDOW)


def buyer():
    number = 0
    while True:
        tokens.get()
        time.sleep(0.0004)
        to_broker.put(number)
        number += 1


def broker():
    for order in iter(to_broker.get, None):
        time.sleep(0.003)
        to_ledger.put(order)


def ledger():
    while True:
        to_ledger.get()
        time.sleep(0.0006)
        tokens.put(1)


for _ in range(WINDOW):
    tokens.put(1)
run(buyer, broker, ledger)
