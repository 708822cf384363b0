# limits: decode
import queue
import socket
import time

from together import during, pass_on, start

rx = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
rx.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
rx.bind(("127.0.0.1", 0))
packets, quotes = queue.Queue(50), queue.Queue(50)


def listen():
    while True:
        packets.put(rx.recv(2048))


def decode():
    pass_on(packets, 0.003, quotes)


def apply():
    pass_on(quotes, 0.0002)


start(listen, decode, apply)
tx = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in during(4):
    tx.sendto(b"q" * 120, rx.getsockname())
    time.sleep(0.001)
