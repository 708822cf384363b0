# limits: scan
import hashlib
import queue
import threading
import time

found, hashed = queue.Queue(50), queue.Queue(50)
PAGE = b"0" * 4096


def scan():
    while True:
        s = 0
        for i in range(60000):
            s ^= i
        found.put(s)


def hash_():
    while True:
        x = found.get()
        hashlib.sha1(PAGE).digest()
        hashed.put(x)


def report():
    while True:
        hashed.get()


for f in (scan, hash_, report):
    threading.Thread(target=f, daemon=True).start()
time.sleep(4)
