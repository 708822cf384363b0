"""Python programs as people write them, each with one planted limit (see any_program_idioms.py).

python idioms.py MODE SECONDS [key=value ...]
"""

from __future__ import annotations

import asyncio
import http.server
import multiprocessing
import os
import queue
import socketserver
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from until import OPTIONS, SECONDS, number, over, run_all, tick

MODE = sys.argv[1] if len(sys.argv) > 1 else ""


def ms(name: str, otherwise: float) -> float:
    return number(name, otherwise) / 1e3


def churn(seconds: float) -> int:
    until = time.perf_counter() + seconds
    total = 0
    while time.perf_counter() < until:
        for i in range(50):
            total += i * i
    return total


def tuples() -> None:
    """Queues made in one line; their stages compute in turn under the interpreter's lock."""
    raw, clean = queue.Queue(20), queue.Queue(20)

    def load() -> None:
        while not over():
            time.sleep(0.0002)
            raw.put(1)
        raw.put(None)

    def scrub() -> None:
        while raw.get() is not None:
            time.sleep(ms("scrub", 4))  # as a call of another service waits
            clean.put(1)
        clean.put(None)

    def save() -> None:
        while clean.get() is not None:
            time.sleep(ms("save", 1))

    threads = [threading.Thread(target=one) for one in (load, scrub, save)]
    run_all(threads)


def feeder() -> None:
    """Pure Python in four threads that need nothing of each other."""

    def count_primes() -> None:
        while not over():
            churn(0.002)

    threads = [threading.Thread(target=count_primes, name=f"primes-{i}") for i in range(4)]
    run_all(threads)


def step_one(inbox: Any, outbox: Any) -> None:
    while (item := inbox.get()) is not None:
        churn(ms("one", 1))
        outbox.put(item)
    outbox.put(None)


def step_two(inbox: Any) -> None:
    while inbox.get() is not None:
        churn(ms("two", 6))


def line_of_processes() -> None:
    first, second = multiprocessing.Queue(30), multiprocessing.Queue(30)
    workers = [
        multiprocessing.Process(target=step_one, args=(first, second)),
        multiprocessing.Process(target=step_two, args=(second,)),
    ]
    for one in workers:
        one.start()
    number = 0
    while not over():
        first.put(number)
        number += 1
    first.put(None)
    for one in workers:
        one.join()


def render(seconds: float) -> int:
    return churn(seconds)


def executor_of_processes() -> None:
    with ProcessPoolExecutor(2) as pool:
        while not over():
            list(pool.map(render, [ms("job", 20)] * 8))


async def nested() -> None:
    """Coroutines that await each other: the sleep is three calls deep."""

    async def ask_backend() -> None:
        await asyncio.sleep(ms("sleep", 20))

    async def price(item: int) -> int:
        await ask_backend()
        return item

    async def order(item: int) -> int:
        churn(0.0005)
        return await price(item)

    while not over():
        await order(1)


async def pool_of_tasks() -> None:
    """Workers of an asyncio queue, of which each waits for something else."""
    jobs: asyncio.Queue[int] = asyncio.Queue(50)

    async def fetch_url() -> None:
        while True:
            await jobs.get()
            await asyncio.sleep(ms("sleep", 30))

    workers = [asyncio.create_task(fetch_url()) for _ in range(4)]
    while not over():
        await jobs.put(1)
    for one in workers:
        one.cancel()


async def blocks() -> None:
    """One coroutine computes; the others are quick."""

    async def rebuild_index() -> None:
        while not over():
            churn(ms("compute", 40))
            await asyncio.sleep(0)

    await asyncio.gather(tick(0.002), tick(0.002), rebuild_index())


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        answer_page(ms("server", 15), OPTIONS.get("sleep"))
        body = b"x" * 200
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n" + body)

    def log_message(self, *words: object) -> None:
        return


def answer_page(seconds: float, sleeps: str | None) -> None:
    if sleeps:
        time.sleep(seconds)
    else:
        churn(seconds)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


def serve_pages() -> None:
    server = Server(("127.0.0.1", int(OPTIONS["port"])), Handler)
    threading.Timer(SECONDS, os._exit, [0]).start()
    server.serve_forever()


def local_server() -> None:
    """A client of a slow server on this machine, which is its child."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [sys.executable, __file__, "pages", str(SECONDS + 1), f"port={port}", *sys.argv[3:]]
    server = subprocess.Popen(words)
    time.sleep(0.3)
    try:
        while not over():
            urllib.request.urlopen(f"http://127.0.0.1:{port}/").read()
            churn(0.001)
    finally:
        server.kill()
        server.wait()


def downloads() -> None:
    """A pool of threads that wait for that server, two at a time."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [sys.executable, __file__, "pages", str(SECONDS + 1), f"port={port}", "sleep=1", *sys.argv[3:]]
    server = subprocess.Popen(words)
    time.sleep(0.3)

    def download(_: int) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as page:
            return len(page.read())

    try:
        with ThreadPoolExecutor(2) as pool:
            while not over():
                list(pool.map(download, range(8)))
    finally:
        server.kill()
        server.wait()


def database() -> None:
    """Every insert is made durable."""
    base = sqlite3.connect(OPTIONS["file"])
    base.execute("pragma synchronous = full")
    base.execute("create table if not exists orders (id integer, body text)")
    number = 0
    while not over():
        with base:
            base.execute("insert into orders values (?, ?)", (number, "x" * 200))
        number += 1


def ready() -> None:
    """A condition of threads: who computes limits."""
    items: list[int] = []
    changed = threading.Condition()

    def produce_rows() -> None:
        while not over():
            time.sleep(ms("produce", 5))
            with changed:
                items.append(1)
                changed.notify()

    def consume_rows() -> None:
        while not over():
            with changed:
                if not changed.wait_for(lambda: items, 0.5):
                    continue
                items.pop()
            churn(0.0003)

    threads = [threading.Thread(target=one) for one in (produce_rows, consume_rows)]
    run_all(threads)


def shells() -> None:
    """One program after the other, as a script runs them."""
    while not over():
        subprocess.run(
            [sys.executable, "-S", "-c", f"import time; time.sleep({ms('sleep', 40)})"], check=True
        )


def main() -> None:
    modes: dict[str, Any] = {
        "tuples": tuples,
        "feeder": feeder,
        "mpline": line_of_processes,
        "executor": executor_of_processes,
        "nested": lambda: asyncio.run(nested()),
        "tasks": lambda: asyncio.run(pool_of_tasks()),
        "blocks": lambda: asyncio.run(blocks()),
        "pages": serve_pages,
        "local": local_server,
        "downloads": downloads,
        "database": database,
        "ready": ready,
        "shells": shells,
    }
    modes[MODE]()


if __name__ == "__main__":
    main()
