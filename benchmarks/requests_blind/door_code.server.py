import itertools
import socket
import sys
import threading
import time
import zlib

attempts = itertools.count(1)


def check(code):
    for _retry in range(2):
        if next(attempts) % 250:
            return zlib.crc32(code * 50) % 10 != 0
        time.sleep(0.03)
    return False


def handle(conn):
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with conn, conn.makefile("rwb", buffering=0) as line_io:
        for line in line_io:
            line_io.write(b"open\n" if check(line) else b"shut\n")


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 7411)) as front:
        while True:
            threading.Thread(target=handle, args=(front.accept()[0],), daemon=True).start()
