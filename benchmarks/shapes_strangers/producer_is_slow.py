# limits: scan
import hashlib
import queue

from together import run

found, hashed = queue.Queue(50), queue.Queue(50)
PAGE = b"0" * 4096


def scan():
    while True:
        s = 0
        for i in range(60000):
            s ^= i
        found.put(s)


def hash_():
    for x in iter(found.get, None):
        hashlib.sha1(PAGE).digest()
        hashed.put(x)


def report():
    while True:
        hashed.get()


run(scan, hash_, report)
