"""Programs in Python with one planted limit, each a mode of this file: planted.py MODE SECONDS [KEY=VALUE …].

Nothing of latlab is in them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import hashlib
import multiprocessing
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable

from until import number, over, run_all, tick


def compute(ms: float) -> None:
    """Python byte code, with the interpreter's lock."""
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        sum(range(200))


def digest(ms: float) -> None:
    """Work in C, without the interpreter's lock."""
    data = bytes(1 << 16)
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        hashlib.sha256(data).digest()


def parse(item: int) -> int:
    digest(number("fast", 0.3))
    return item


def price(item: int) -> int:
    if number("sleep", 0):
        time.sleep(number("sleep", 0) / 1e3)
    else:
        digest(number("ms", 1.5))
    return item


def store(item: int) -> int:
    digest(number("fast", 0.3))
    return item


def stage(work: Callable[[int], int], into: queue.Queue[int] | None, out: queue.Queue[int] | None) -> None:
    while True:
        item = into.get() if into is not None else (-1 if over() else 0)
        if item >= 0:
            item = work(item)
        if out is not None:
            out.put(item)
        if item < 0:
            return


def line() -> None:
    """Three threads in a line with `queue.Queue`; `price` is slow."""
    first, second = queue.Queue[int](32), queue.Queue[int](32)
    threads = [
        threading.Thread(target=stage, args=(parse, None, first), name="parse"),
        threading.Thread(target=stage, args=(price, first, second), name="price"),
        threading.Thread(target=stage, args=(store, second, None), name="store"),
    ]
    run_all(threads)


def busy_thread() -> None:
    while not over():
        compute(2)


def gil() -> None:
    """Threads of byte code only."""
    threads = [threading.Thread(target=busy_thread) for _ in range(int(number("threads", 3)))]
    run_all(threads)


LOCK = threading.Lock()


def hold_lock() -> None:
    while not over():
        with LOCK:
            time.sleep(number("hold", 3) / 1e3)
        digest(0.05)


def lock() -> None:
    """Threads that sleep while they hold one lock."""
    threads = [threading.Thread(target=hold_lock) for _ in range(int(number("threads", 3)))]
    run_all(threads)


async def blocker() -> None:
    while not over():
        recompute(number("ms", 20))
        await asyncio.sleep(0)


def recompute(ms: float) -> None:
    compute(ms)


def loop() -> None:
    """An event loop that one coroutine blocks by computing."""

    async def every() -> None:
        await asyncio.gather(*(tick(0.001) for _ in range(20)), blocker())

    asyncio.run(every())


def unequal(job: int) -> int:
    digest(number("ms", 300) if job == 0 else number("fast", 30))
    return job


def processes() -> None:
    """Rounds of a process pool in which one job takes longest: the round waits for it."""
    with multiprocessing.get_context("fork").Pool(2) as workers:
        while not over():
            workers.map(unequal, range(2), chunksize=1)


def executor() -> None:
    """A pool of threads whose jobs wait for a remote that sleeps."""
    with concurrent.futures.ThreadPoolExecutor(2) as workers:
        while not over():
            list(workers.map(price, range(8)))


def echo(listener: socket.socket) -> None:
    peer, _ = listener.accept()
    with peer:
        while data := peer.recv(64):
            answer(data, peer)


def answer(data: bytes, peer: socket.socket) -> None:
    digest(number("ms", 2))
    peer.sendall(data)


def ask() -> None:
    """A client that waits for a server in another process."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = multiprocessing.get_context("fork").Process(target=echo, args=(listener,), name="server")
    server.start()
    with socket.create_connection(listener.getsockname()) as peer:
        listener.close()
        while not over():
            peer.sendall(b"x")
            peer.recv(64)
            digest(0.1)
    server.join()


def serve() -> None:
    """A server that waits for work: a client asks it now and then."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = multiprocessing.get_context("fork").Process(target=seldom, args=(listener.getsockname(),))
    client.start()
    peer, _ = listener.accept()
    with peer:
        while data := peer.recv(64):
            digest(0.2)
            peer.sendall(data)
    client.join()


def seldom(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as peer:
        while not over():
            time.sleep(number("every", 20) / 1e3)
            peer.sendall(b"x")
            peer.recv(64)


def single() -> None:
    """One thread that computes."""
    while not over():
        crunch()


def crunch() -> None:
    compute(5)


if __name__ == "__main__":
    {one.__name__: one for one in (line, gil, lock, loop, processes, executor, ask, serve, single)}[
        sys.argv[1]
    ]()
