# limit: thread | render_invoice|invoices|MainThread|main
"""A coroutine that renders without awaiting holds up the heartbeat and the other tasks of its loop."""

import asyncio
import sys
import time

until = time.monotonic() + float(sys.argv[1])


def render_invoice(lines: int) -> str:
    return "".join(f"{k:05d};{k * 1.19:.2f};{'x' * (k % 7)}\n" for k in range(lines))


async def worker(orders: asyncio.Queue[int], done: list[int]) -> None:
    while True:
        order = await orders.get()
        done.append(len(render_invoice(order)))
        orders.task_done()


async def heartbeat() -> None:
    while True:
        await asyncio.sleep(0.005)


async def main() -> None:
    orders: asyncio.Queue[int] = asyncio.Queue(8)
    done: list[int] = []
    tasks = [asyncio.create_task(worker(orders, done)), asyncio.create_task(heartbeat())]
    while time.monotonic() < until:
        await orders.put(30_000)
    for one in tasks:
        one.cancel()
    print(len(done))


asyncio.run(main())
