# limits: receive
import queue
import socket
import time

from together import during, start

rx = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
rx.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
rx.bind(("127.0.0.1", 0))
q = queue.Queue(100)
stop = []


def receive():
    while not stop:
        d = rx.recv(2000)
        time.sleep(0.002)
        q.put(d)


def book():
    while not stop:
        q.get()
        time.sleep(0.0003)


start(receive, book)
tx = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in during(4):
    tx.sendto(b"x" * 200, rx.getsockname())
    time.sleep(0.001)
