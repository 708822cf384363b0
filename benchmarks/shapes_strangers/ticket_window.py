# limits: broker
import queue
import time

from together import pass_on, run

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
    pass_on(to_broker, 0.003, to_ledger)


def ledger():
    pass_on(to_ledger, 0.0006, tokens)


for _ in range(WINDOW):
    tokens.put(1)
run(buyer, broker, ledger)
