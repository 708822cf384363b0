# limit: thread | chop|MainThread|main
import asyncio
import sys


async def waiter(table, orders):
    while True:
        await asyncio.sleep(0.002)
        await orders.put(table)


async def cook(orders):
    while True:
        table = await orders.get()
        chop(table)


def chop(n):
    heap = []
    for i in range(12000):
        heap.append((i * 7919 + n) % 10007)
    heap.sort()


async def main():
    orders = asyncio.Queue(20)
    jobs = [asyncio.create_task(waiter(t, orders)) for t in range(6)] + [asyncio.create_task(cook(orders))]
    await asyncio.sleep(float(sys.argv[1]))
    for j in jobs:
        j.cancel()


asyncio.run(main())
