# limits: digest
import asyncio
import hashlib

from tasks_together import pass_on, run_tasks

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
    await pass_on(out, 0.0004)


q, out = asyncio.Queue(4), asyncio.Queue(4)
run_tasks(reader(q), digest(q, out), log(out))
