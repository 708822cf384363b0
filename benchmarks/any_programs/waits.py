"""Programs of Python whose limit is a lock of processes, or a semaphore of tasks.

waits.py MODE SECONDS [key=value ...]
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import time
from typing import Any

MODE, SECONDS = sys.argv[1], float(sys.argv[2])
OPTIONS = dict(one.split("=") for one in sys.argv[3:])
UNTIL = time.monotonic() + SECONDS


def number(key: str, otherwise: float) -> float:
    return float(OPTIONS.get(key, otherwise))


def churn(ms: float) -> None:
    end = time.thread_time() + ms / 1000
    while time.thread_time() < end:
        sum(i * i for i in range(200))


def teller(lock: Any, until: float) -> None:
    while time.monotonic() < until:
        with lock:
            churn(number("inside", 3))
        churn(0.3)


def mplock() -> None:
    context = multiprocessing.get_context(OPTIONS.get("start", "fork"))
    lock = context.Lock()
    workers = [context.Process(target=teller, args=(lock, UNTIL)) for _ in range(3)]  # type: ignore[attr-defined]
    for one in workers:
        one.start()
    for one in workers:
        one.join()


async def tasks() -> None:
    sem = asyncio.Semaphore(2)

    async def visit() -> None:
        while time.monotonic() < UNTIL:
            async with sem:
                await asyncio.sleep(number("hold", 10) / 1000)

    await asyncio.gather(*(visit() for _ in range(10)))


async def behind_queue() -> None:
    sem = asyncio.Semaphore(2)
    pages: asyncio.Queue[int] = asyncio.Queue(20)

    async def feed() -> None:
        while time.monotonic() < UNTIL:
            await pages.put(1)
        for _ in range(8):
            await pages.put(0)

    async def crawl() -> None:
        while await pages.get():
            async with sem:
                await asyncio.sleep(number("hold", 10) / 1000)

    await asyncio.gather(feed(), *(crawl() for _ in range(8)))


if __name__ == "__main__":
    if MODE == "mplock":
        mplock()
    else:
        asyncio.run({"tasks": tasks, "behind_queue": behind_queue}[MODE]())
