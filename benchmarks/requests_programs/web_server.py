"""A small web application on http.server with threads, as others would write it: web_server.py CAUSE"""

import gc
import hashlib
import http.server
import itertools
import sqlite3
import sys
import tempfile
import threading
import time

cause = sys.argv[1]
numbers = itertools.count(1)
pool = threading.Semaphore(1)
kept = [{"row": i, "values": [i]} for i in range(250_000)] if cause == "gc" else []
gc.disable() if cause == "gc" else gc.enable()
folder = tempfile.mkdtemp(dir=".")
database = f"{folder}/data.sqlite"
with sqlite3.connect(database) as made:
    made.execute("create table log (line text)")


class Application(http.server.BaseHTTPRequestHandler):
    """Answers GET."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """One page."""
        number = next(numbers)
        body = hashlib.sha256(self.path.encode()).hexdigest().encode()
        if cause == "gc" and number % 120 == 0:
            gc.collect()
        if cause == "digest" and number % 150 == 0:
            body = hashlib.pbkdf2_hmac("sha256", body, b"salt", 40_000).hex().encode()
        if cause == "commit" and number % 100 == 0:
            with sqlite3.connect(database) as connection:
                connection.execute("insert into log values (?)", ("x" * (1 << 21),))
        if cause == "one connection" and number % 150 == 0:
            with pool:
                time.sleep(0.03)
        elif cause == "one connection":
            with pool:
                body = body[::-1]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Server(http.server.ThreadingHTTPServer):
    """With room for its callers."""

    daemon_threads = True
    request_queue_size = 128


server = Server(("127.0.0.1", 0), Application)
print(server.server_port, flush=True)
server.serve_forever()
