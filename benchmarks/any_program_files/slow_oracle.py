# limit: timer,process | oracle|sleep|serve|answer
"""A client of an HTTP service that thinks (sleeps) before it answers; the service is a process of its own."""

import http.client
import http.server
import multiprocessing
import sys
import time


class Oracle(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.03)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"42")

    def log_message(self, *a):
        pass


def oracle(q):
    s = http.server.HTTPServer(("127.0.0.1", 0), Oracle)
    q.put(s.server_address[1])
    s.serve_forever()


if __name__ == "__main__":
    q = multiprocessing.Queue()
    p = multiprocessing.Process(target=oracle, args=(q,), daemon=True)
    p.start()
    port = q.get()
    end = time.monotonic() + float(sys.argv[1])
    n = 0
    while time.monotonic() < end:
        c = http.client.HTTPConnection("127.0.0.1", port)
        c.request("GET", "/")
        c.getresponse().read()
        c.close()
        n += 1
    print(n, "answers")
    p.terminate()
