"""Python systems of known structure: `python system.py NAME`.

What runs beside each other has a CPU each, as in systems.cpp; LATLAB_UNPINNED leaves it to the scheduler.
"""

from __future__ import annotations

import asyncio
import hashlib
import html
import multiprocessing
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import component

OTHER = bytes(1 << 20)


def rest(n: int) -> None:
    total = 0
    for i in range(n):
        total += i & 7


def pin(pid: int, number: int) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) > 1 and "LATLAB_UNPINNED" not in os.environ:
        os.sched_setaffinity(pid, {cpus[number]})


def repeated(times: int, work: Callable[[], object], pause: int) -> None:
    for _ in range(times):
        work()
        rest(pause)


def together(one: object, other: object) -> None:
    threads = [threading.Thread(target=one), threading.Thread(target=other)]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def serial() -> None:
    repeated(30, lambda: component.compute(40_000), 25_000)


def gil() -> None:
    def one() -> None:
        for _ in range(15):
            component.compute(40_000)
            rest(20_000)

    together(one, one)


def released() -> None:
    def one() -> None:
        pin(threading.get_native_id(), 0)
        for _ in range(90):
            component.digest(1 << 20)

    def other() -> None:
        pin(threading.get_native_id(), 1)
        for _ in range(45):
            hashlib.sha256(OTHER).digest()

    together(one, other)


def background() -> None:
    # The sleeper first: a thread that starts beside a busy one waits for the global lock, which costs time.
    together(lambda: time.sleep(0.15), lambda: [component.compute(40_000) for _ in range(20)])


def stages() -> None:
    items: queue.Queue[int] = queue.Queue(4)

    def first() -> None:
        for i in range(25):
            component.compute(100_000)
            items.put(i)

    def second() -> None:
        for _ in range(25):
            items.get()
            time.sleep(0.0012)

    together(first, second)


def small() -> None:
    component.compute(2_000)
    rest(1_500_000)


def worker_component() -> None:
    for _ in range(30):
        component.compute(60_000)


def worker_other() -> None:
    rest(1_000_000)


def processes() -> None:
    workers = [
        subprocess.Popen([sys.executable, __file__, name]) for name in ("worker_component", "worker_other")
    ]
    for number, worker in enumerate(workers):
        pin(worker.pid, number)
    if any(worker.wait() for worker in workers):
        sys.exit(1)


def tasks() -> None:
    """Two tasks take turns in one loop."""

    async def one() -> None:
        for _ in range(40):
            component.compute(40_000)
            await asyncio.sleep(0)
            rest(25_000)
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(one(), one())

    asyncio.run(both())


def timer() -> None:
    """A task works while another waits for an answer."""

    async def one() -> None:
        for _ in range(40):
            component.compute(100_000)
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(one(), asyncio.sleep(0.06))

    asyncio.run(both())


def pool() -> None:
    """A pool of two processes, then what the parent does with what they return."""
    with ProcessPoolExecutor(2) as workers:
        found = sum(workers.map(component.compute, [40_000] * 160, chunksize=4))
    rest(10_000 * found)


def templates() -> None:
    for _ in range(60):
        component.render(1_000)
        for i in range(2_000):
            html.escape(f"<b>{i}</b> & more")


def text() -> None:
    data = bytes(range(256)) * 400
    for _ in range(60):
        component.wrap(60)
        zlib.compress(data, 6)


def channel() -> None:
    """One task makes, another takes: between them a queue, and an answer that the second waits for."""

    async def both() -> None:
        items: asyncio.Queue[int] = asyncio.Queue(2)

        async def first() -> None:
            for i in range(40):
                component.compute(60_000)
                await items.put(i)
                await asyncio.sleep(0)

        async def second() -> None:
            for _ in range(40):
                await items.get()
                await asyncio.sleep(0.0012)

        await asyncio.gather(first(), second())

    asyncio.run(both())


def answers() -> None:
    """Four tasks wait for answers and work on them: waits overlap, work does not."""

    async def one() -> None:
        for _ in range(12):
            await asyncio.sleep(0.004)
            component.encode(60)

    async def both() -> None:
        await asyncio.gather(*(one() for _ in range(4)))

    asyncio.run(both())


def mapped() -> None:
    """A pool's map by pieces, and what the parent does between them."""
    with multiprocessing.get_context("fork").Pool(2) as workers:
        for _ in range(10):
            workers.map(component.substitute, [12] * 8, 2)
            rest(20_000)


def hashes() -> None:
    """A pool of threads: hashes without the lock beside one that is longer."""

    def other() -> None:
        for _ in range(40):
            hashlib.sha256(OTHER).digest()

    with ThreadPoolExecutor(2) as workers:
        found = [workers.submit(other)]
        found.append(workers.submit(lambda: [component.digest(1 << 20) for _ in range(70)]))
        for one in found:
            one.result()


def documents() -> None:
    repeated(60, lambda: component.encode(120), 12_000)


def replies() -> None:
    """Words are replaced while another thread waits."""
    together(lambda: time.sleep(0.06), lambda: [component.substitute(25) for _ in range(50)])


def formats() -> None:
    with tempfile.TemporaryFile("w") as file:
        for _ in range(60):
            file.write(component.lines(1_500))
            rest(12_000)
            file.flush()


def copies() -> None:
    repeated(60, lambda: component.copy(12 << 20), 25_000)


def remote() -> None:
    repeated(40, lambda: component.ask(0.003), 20_000)


def mirrors() -> None:
    """Two threads wait for answers; one of them has fewer, that come later."""
    together(
        lambda: [component.ask(0.003) for _ in range(40)],
        lambda: [time.sleep(0.009) for _ in range(8)],
    )


if __name__ == "__main__":
    globals()[sys.argv[1]]()
