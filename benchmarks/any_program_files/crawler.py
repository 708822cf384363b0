# limit: process,network,timer | site|serve
"""Four threads fetch pages by HTTP from a site in its own process, which waits 15 ms before each answer."""

import http.server
import multiprocessing
import sys
import threading
import time
import urllib.request


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        time.sleep(0.015)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"page")

    def log_message(self, *args: object) -> None:
        return


def serve(door: http.server.HTTPServer) -> None:
    door.serve_forever()


def fetch(port: int, until: float) -> None:
    while time.monotonic() < until:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as page:
            page.read()


if __name__ == "__main__":
    door = http.server.HTTPServer(("127.0.0.1", 0), Site)
    site = multiprocessing.get_context("fork").Process(target=serve, args=(door,), name="site", daemon=True)
    site.start()
    until = time.monotonic() + float(sys.argv[1])
    threads = [threading.Thread(target=fetch, args=(door.server_port, until)) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
