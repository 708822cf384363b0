import threading
import time

from desk import serve

lock, entries = threading.Lock(), {}


def answer(number, line):
    with lock:
        update_ledger(number)
    return b"ok " + line


def update_ledger(number):
    entries[number % 100] = number
    if number % 400 == 0:
        time.sleep(0.02)


serve(answer)
