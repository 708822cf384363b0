import itertools
import socketserver
import sqlite3
import sys
import threading

lock, count, entries = threading.Lock(), itertools.count(1), {}

base = sqlite3.connect("till.db", check_same_thread=False)
base.execute("pragma synchronous=full")
base.execute("create table if not exists sale (n integer, what text)")
base.commit()


class Desk(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        for line in self.rfile:
            number = next(count)
            self.wfile.write(answer(number, line))


def answer(number, line):
    if number % 200 == 0:
        with lock:
            book_sale(number)
    return b"ok " + line


def book_sale(number):
    base.executemany("insert into sale values (?, ?)", [(number, "x" * 20000)] * 300)
    base.commit()


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 100


Server(("127.0.0.1", int(sys.argv[1])), Desk).serve_forever()
