"""A server with a thread for each connection: a line asks, and what `answer` makes of it is sent back."""

import itertools
import socketserver
import sys


def serve(answer):
    """Until it is killed. `answer` is called with the request's number and its line."""
    count = itertools.count(1)

    class Desk(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True

        def handle(self):
            for line in self.rfile:
                self.wfile.write(answer(next(count), line))

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True
        request_queue_size = 100

    Server(("127.0.0.1", int(sys.argv[1])), Desk).serve_forever()
