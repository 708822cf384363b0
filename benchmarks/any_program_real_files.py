"""What the programs of `any_program_real` read, compile and serve."""

# ruff: noqa: E501 - long strings

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

__all__ = ["HAPROXY_DEFAULTS", "prepared"]

_NGINX = """
daemon off; worker_processes 1; pid nginx.pid; error_log stderr;
events {{ worker_connections 64; }}
http {{ access_log off; types {{ text/plain txt; }} default_type text/plain;
  limit_req_zone $binary_remote_addr zone=one:1m rate=50r/s;
  server {{ listen 127.0.0.1:17392; root {root};
    location /slowly/ {{ alias {root}/; limit_rate 200k; }}
    location /queued/ {{ alias {root}/; limit_req zone=one burst=500; }}
    location /packed/ {{ alias {root}/; gzip on; gzip_comp_level 9; gzip_types *; }}
    location /behind/ {{ proxy_pass http://127.0.0.1:17394/; }} }} }}
"""

HAPROXY_DEFAULTS = """
defaults
    mode http
    timeout client 30s
    timeout server 30s
    timeout connect 5s
"""

_HAPROXY = f"""{HAPROXY_DEFAULTS}frontend door
    bind 127.0.0.1:17396
    default_backend behind
backend behind
    server one 127.0.0.1:17394
"""

#: A server of threads; each answer sleeps, or computes.
_SLOW_SERVER = """
import hashlib, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
def sleeps(): time.sleep(0.05)
def computes():
    for _ in range(20): hashlib.sha256(bytes(500_000)).hexdigest()
do = {"sleeps": sleeps, "computes": computes}[sys.argv[1]]
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        do()
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *_): pass
ThreadingHTTPServer(("127.0.0.1", 17394), Handler).serve_forever()
"""

_WSGI = """
import hashlib, time, urllib.request
def sleeps(environ, start):
    urllib.request.urlopen("http://127.0.0.1:17394/").read()
    start("200 OK", [("Content-Length", "2")]); return [b"ok"]
def computes(environ, start):
    for _ in range(20): hashlib.sha256(bytes(500_000)).hexdigest()
    start("200 OK", [("Content-Length", "2")]); return [b"ok"]
def large(environ, start):
    body = bytes(20_000_000)
    start("200 OK", [("Content-Length", str(len(body)))]); return [body]
"""

_ASGI = """
import asyncio, time
async def reply(send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
async def blocks(scope, receive, send):
    if scope["type"] == "http":
        time.sleep(0.02); await reply(send)
async def awaits(scope, receive, send):
    if scope["type"] == "http":
        await asyncio.sleep(0.02); await reply(send)
async def computes(scope, receive, send):
    if scope["type"] == "http":
        sum(range(300_000)); await reply(send)
"""

_DASK = """
import time
from dask.distributed import Client, LocalCluster
def quick(i): time.sleep(0.001); return i
def slow(i):
    total = 0
    for k in range(4_000_000): total += k * i
    return total
def main():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True) as cluster, Client(cluster) as client:
        print("ready", flush=True)
        workers = list(client.scheduler_info()["workers"])
        until = time.time() + 60
        while time.time() < until:
            parts = [client.submit(quick, time.time(), workers=[workers[0]], pure=False) for _ in range(4)]
            parts += [client.submit(slow, i, workers=[workers[1]], pure=False) for i in range(2)]
            client.gather(parts)
if __name__ == "__main__":
    main()
"""

_SQLITE = """
create table if not exists sales(id integer primary key, what text);
"""

_NODE_CLUSTER = """
const cluster = require('cluster'), http = require('http'), crypto = require('crypto');
if (cluster.isPrimary) { for (let i = 0; i < 2; i++) cluster.fork(); }
else http.createServer((request, answer) => {
  crypto.pbkdf2Sync('secret', 'salt', 3000, 64, 'sha512'); answer.end('ok');
}).listen(17397, '127.0.0.1');
"""

_JAVA_GC = """
import java.util.*;
public class Litter {
  static final class Node { Node left, right; byte[] load = new byte[40]; }
  static Node tree(int depth) { Node n = new Node(); if (depth > 0) { n.left = tree(depth - 1); n.right = tree(depth - 1); } return n; }
  public static void main(String[] a) {
    ArrayDeque<Node> kept = new ArrayDeque<>();
    while (true) { kept.add(tree(14)); if (kept.size() > 60) kept.poll(); }
  }
}
"""

_JAVA_POOL = """
import java.util.concurrent.*;
public class Pool {
  static long score(long seed) { long x = seed; for (int i = 0; i < 3_000_000; i++) x = x * 6364136223846793005L + (x >>> 7); return x; }
  public static void main(String[] a) throws Exception {
    ArrayBlockingQueue<Long> in = new ArrayBlockingQueue<>(8), out = new ArrayBlockingQueue<>(8);
    Thread scorer = new Thread(() -> { try { while (true) out.put(score(in.take())); } catch (InterruptedException e) {} }, "scorer");
    Thread writer = new Thread(() -> { try { long s = 0; while (true) s += out.take(); } catch (InterruptedException e) {} }, "writer");
    scorer.start(); writer.start();
    for (long i = 0; ; i++) in.put(i);
  }
}
"""


def prepared(folder: Path, ported: Callable[[str], str]) -> None:
    """Text, sources, configurations and scripts, with the ports that `ported` puts into them."""
    draw = random.Random(5)
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(2, 9))) for _ in range(4000)]
    for name, count in (
        ("words", 5_000_000),
        ("words1", 2_000_000),
        ("words2", 2_000_000),
        ("words3", 2_000),
        ("words4", 200_000),
    ):
        (folder / name).write_text(" ".join(draw.choices(words, k=count)))
    (folder / "lines").write_text((folder / "words").read_text().replace(" ", "\n"))
    for name, text in {
        "nginx.conf": _NGINX.format(root=folder), "haproxy.cfg": _HAPROXY, "slow_server.py": _SLOW_SERVER,
        "wsgi_app.py": _WSGI, "asgi_app.py": _ASGI, "dask_app.py": _DASK, "cluster.js": _NODE_CLUSTER,
        "Litter.java": _JAVA_GC, "Pool.java": _JAVA_POOL, "sales.sql": _SQLITE,
    }.items():  # fmt: skip
        (folder / name).write_text(ported(text))
    rules = []
    for number in range(60):
        body = "".join(
            f"int f{number}_{i}(int x) {{ return x * {i} + f{number}_{i - 1}(x / 2); }}\n"
            for i in range(1, 400)
        )
        (folder / f"part{number}.c").write_text(f"int f{number}_0(int x) {{ return x; }}\n{body}")
        rules.append(f"part{number}.o: part{number}.c\n\tcc -O2 -c $< -o $@\n")
    (folder / "Makefile").write_text(
        "all: " + " ".join(f"part{i}.o" for i in range(60)) + "\n" + "".join(rules)
    )
    long = "".join(f"int g{i}(int x) {{ return x * {i} + g{i - 1}(x / 2); }}\n" for i in range(1, 60_000))
    (folder / "long.c").write_text(f"int g0(int x) {{ return x; }}\n{long}")
    (folder / "Makefile.long").write_text(
        "all: part1.o part2.o long.o\n"
        + "".join(f"{one}.o: {one}.c\n\tcc -O2 -c $< -o $@\n" for one in ("part1", "part2", "long"))
    )
    (folder / "Makefile.wait").write_text(
        "all: a b c d e f\na b c d e f:\n\tsleep 2\n\techo $@ > /dev/null\n"
    )
