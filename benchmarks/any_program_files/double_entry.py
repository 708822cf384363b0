# limit: silent |
import hashlib
import socket
import sys
import time
from multiprocessing import Process


def receive(sock, size):
    got = b""
    while len(got) < size:
        part = sock.recv(size - len(got))
        if not part:
            raise SystemExit
        got += part
    return got


def keep(sock, chain):
    while True:
        entry = receive(sock, 32)
        for _ in range(700):
            chain = hashlib.sha256(chain + entry).digest()
        sock.sendall(chain)


def debit_book(sock):
    keep(sock, b"debit")


def credit_book(sock):
    keep(sock, b"credit")


def main():
    seconds = float(sys.argv[-1]) if len(sys.argv) > 1 else 6
    books = []
    for book in (debit_book, credit_book):
        ours, theirs = socket.socketpair()
        Process(target=book, args=(theirs,), daemon=True).start()
        theirs.close()
        books.append(ours)
    debit, credit = books
    until, entries, entry = time.monotonic() + seconds, 0, bytes(32)
    while time.monotonic() < until:
        debit.sendall(entry)
        entry = receive(debit, 32)
        credit.sendall(entry)
        entry = receive(credit, 32)
        entries += 1
    print(entries, "entries", entry.hex()[:8])


if __name__ == "__main__":
    main()
