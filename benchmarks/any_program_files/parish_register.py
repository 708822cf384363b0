# limit: process,thread | register|lookup|similar|do_GET|serve|python
import http.client
import multiprocessing
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlparse

NAMES = [
    a + b + c
    for a in ("har", "wil", "mar", "tho")
    for b in ("gre", "li", "ton", "de")
    for c in ("ave", "son", "ley", "wick", "man")
]


def similar(a, b):
    grams = lambda s: {s[i : i + 2] for i in range(len(s) - 1)}  # noqa: E731
    x, y = grams(a), grams(b)
    return 2 * len(x & y) / (len(x) + len(y))


class Register(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self):
        name = parse_qs(urlparse(self.path).query)["name"][0]
        found = max(NAMES * 4, key=lambda n: similar(n, name))
        body = found.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def serve(pipe):
    server = HTTPServer(("127.0.0.1", 0), Register)
    pipe.send(server.server_port)
    server.serve_forever()


if __name__ == "__main__":
    seconds = float(sys.argv[-1]) if len(sys.argv) > 1 else 6
    here, there = multiprocessing.Pipe()
    register = multiprocessing.Process(target=serve, args=(there,), name="register", daemon=True)
    register.start()
    desk = http.client.HTTPConnection("127.0.0.1", here.recv())
    until, asked, hits = time.monotonic() + seconds, 0, 0
    while time.monotonic() < until:
        desk.request("GET", f"/find?name={NAMES[asked * 13 % len(NAMES)]}e")
        hits += desk.getresponse().read() != b""
        asked += 1
    print(asked, "look-ups,", hits, "answers")
    register.terminate()
