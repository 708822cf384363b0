# limits: digest
import asyncio
import hashlib

BLOB = b"z" * 3_000_000


async def reader(q):
    while True:
        await q.put(BLOB)


async def digest(q, out):
    while True:
        blob = await q.get()
        h = hashlib.sha256(blob).hexdigest()
        await out.put(h)


async def log(out):
    while True:
        await out.get()
        await asyncio.sleep(0.0004)


async def main():
    q, out = asyncio.Queue(4), asyncio.Queue(4)
    jobs = [asyncio.ensure_future(x) for x in (reader(q), digest(q, out), log(out))]
    _, pending = await asyncio.wait(jobs, timeout=4)
    for j in pending:
        j.cancel()


asyncio.run(main())
