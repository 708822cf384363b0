# limit: process,network | serve|price_service|quote
"""A client asks a price service on TCP, which is a process of its own and computes long."""

import multiprocessing
import socket
import sys
import time


def quote(symbol: bytes) -> bytes:
    price = 0
    for k in range(40_000):
        price = (price * 31 + k + len(symbol)) % 1_000_003
    return str(price).encode()


def serve(door: socket.socket) -> None:
    connection, _ = door.accept()
    while symbol := connection.recv(64):
        connection.sendall(quote(symbol))


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as door:
        service = multiprocessing.get_context("fork").Process(target=serve, args=(door,), name="service")
        service.start()
        with socket.create_connection(door.getsockname()) as client:
            until = time.monotonic() + float(sys.argv[1])
            asked = 0
            while time.monotonic() < until:
                client.sendall(b"SYM%d" % asked)
                client.recv(64)
                asked += 1
        service.join()
    print(asked)
