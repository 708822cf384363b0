"""A server of lines with a thread a connection, and one planted cause."""

import itertools
import os
import socket
import sys
import tempfile
import threading
import time

cause = sys.argv[1]
lock = threading.Lock()
numbers = itertools.count(1)
file, _ = tempfile.mkstemp(dir=".")
block = b"x" * (1 << 20)


def compute(turns: int) -> int:
    total = 0
    for i in range(turns):
        total += i * i
    return total


def hog() -> None:
    while True:
        time.sleep(0.2)
        compute(400_000)


def serve(connection: socket.socket) -> None:
    behind = socket.create_connection(("127.0.0.1", int(sys.argv[2]))) if len(sys.argv) > 2 else None
    while data := connection.recv(4096):
        number = next(numbers)
        compute(100)
        with lock:
            answer = data.upper()
            if cause == "lock" and number % 500 == 0:
                time.sleep(0.02)
        if cause == "fsync" and number % 200 == 0:
            os.pwrite(file, block, 0)
            os.fsync(file)
        if cause == "sleep" and number % 200 == 0:
            time.sleep(0.02)
        if cause == "large" and number % 200 == 0:
            answer = b"v" * (24 << 20) + b"\n"
        if behind is not None:
            behind.sendall(b"slow\n" if number % 200 == 0 else b"fast\n")
            behind.recv(4096)
        connection.sendall(answer)


if cause == "interpreter":
    threading.Thread(target=hog, daemon=True).start()
listener = socket.create_server(("127.0.0.1", 0), backlog=256)
print(listener.getsockname()[1], flush=True)
while True:
    accepted, _ = listener.accept()
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=serve, args=(accepted,), daemon=True).start()
