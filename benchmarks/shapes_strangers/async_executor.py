# limits: thumbnail
import asyncio
import concurrent.futures as cf
import time


def thumbnail(n):
    time.sleep(0.006)
    return n


async def main():
    loop = asyncio.get_running_loop()
    ex = cf.ThreadPoolExecutor(2, "thumb")
    q = asyncio.Queue(16)

    async def feed():
        n = 0
        while True:
            await q.put(n)
            n += 1

    async def work():
        while True:
            n = await q.get()
            r = await loop.run_in_executor(ex, thumbnail, n)
            await upload(r)

    async def upload(r):
        await asyncio.sleep(0.001)

    ts = [asyncio.create_task(feed()), *[asyncio.create_task(work()) for _ in range(8)]]
    await asyncio.sleep(4)
    [t.cancel() for t in ts]


asyncio.run(main())
