import itertools
import os
import socketserver
import sys
import threading

lock, count, entries = threading.Lock(), itertools.count(1), {}
journal, page = os.open("journal", os.O_CREAT | os.O_WRONLY), os.urandom(4_000_000)


class Desk(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        for line in self.rfile:
            number = next(count)
            self.wfile.write(answer(number, line))


def answer(number, line):
    if number % 250 == 0:
        store_entry()
    return b"ok " + line


def store_entry():
    os.pwrite(journal, page, 0)
    os.fsync(journal)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 100


Server(("127.0.0.1", int(sys.argv[1])), Desk).serve_forever()
