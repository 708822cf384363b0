# limit: silent |
"""Two child processes in a line, over pipes, each hashing every block as long as the other."""

import hashlib
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection


def fold(block: bytes) -> bytes:
    for _ in range(60):
        block = hashlib.sha256(block).digest() * 1000
    return block


def left(out: Connection, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        out.send_bytes(fold(b"x" * 32000))
    out.send_bytes(b"")


def right(come: Connection) -> None:
    count = 0
    while block := come.recv_bytes():
        fold(block)
        count += 1
    print(count)


if __name__ == "__main__":
    come, out = multiprocessing.Pipe(False)
    a = multiprocessing.Process(target=left, args=(out, float(sys.argv[1])), name="left")
    b = multiprocessing.Process(target=right, args=(come,), name="right")
    a.start(), b.start()
    a.join(), b.join()
