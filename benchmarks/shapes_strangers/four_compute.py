# limits: checksum|GIL|lock
import queue

from together import during, start

qs = [queue.Queue(16) for _ in range(4)]


def work(n):
    s = 0
    for i in range(n):
        s += i * i
    return s


def tokenize():
    while True:
        qs[1].put((qs[0].get(), work(4000)))


def checksum():
    while True:
        qs[2].put((qs[1].get(), work(22000)))


def render():
    while True:
        qs[3].put((qs[2].get(), work(3000)))


def write():
    while True:
        qs[3].get()
        work(1000)


start(tokenize, checksum, render, write)
for _ in during(4):
    qs[0].put(1)
