import itertools
import socketserver
import sys
import threading

lock, count, entries = threading.Lock(), itertools.count(1), {}


class Desk(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        for line in self.rfile:
            number = next(count)
            self.wfile.write(answer(number, line))


def answer(number, line):
    return b"ok " + line


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 100


Server(("127.0.0.1", int(sys.argv[1])), Desk).serve_forever()
