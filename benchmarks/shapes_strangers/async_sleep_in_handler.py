# limits: save_row
import asyncio
import time


async def main():
    raw, rows, done = asyncio.Queue(20), asyncio.Queue(20), asyncio.Queue(20)

    async def fetch():
        while True:
            await asyncio.sleep(0.001)
            await raw.put("x")

    async def parse_row():
        while True:
            x = await raw.get()
            await asyncio.sleep(0.001)
            await rows.put(x)

    async def save_row():
        while True:
            x = await rows.get()
            time.sleep(0.004)  # a driver that blocks
            await done.put(x)

    async def ack():
        while True:
            await done.get()
            await asyncio.sleep(0.0005)

    tasks = [asyncio.create_task(c()) for c in (fetch, parse_row, save_row, ack)]
    await asyncio.sleep(4)
    for t in tasks:
        t.cancel()


asyncio.run(main())
