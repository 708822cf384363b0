# limits: writer
import asyncio
import json
import random
import time


async def produce(q):
    for i in range(10**9):
        await q.put({"i": i, "x": random.random()})
        if i % 10 == 0:
            await asyncio.sleep(0)


async def fetch(q, out):
    while True:
        m = await q.get()
        await asyncio.sleep(random.expovariate(1 / 0.002))
        await out.put(m)
        q.task_done()


async def writer(out):
    with open("/dev/null", "w") as f:
        while True:
            m = await out.get()
            f.write(json.dumps(m))
            time.sleep(0.003)


async def main():
    q, out = asyncio.Queue(20), asyncio.Queue(20)
    tasks = [
        asyncio.create_task(produce(q)),
        *[asyncio.create_task(fetch(q, out)) for _ in range(5)],
        asyncio.create_task(writer(out)),
    ]
    await asyncio.sleep(4)
    for t in tasks:
        t.cancel()


asyncio.run(main())
