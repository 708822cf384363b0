# limits: unnamed
import asyncio

from tasks_together import pass_on, run_tasks


async def treble(out):
    n = 0
    while True:
        await asyncio.sleep(0.004)
        await out.put(n)
        n += 1


async def tenor(inp, out):
    await pass_on(inp, 0.004, out)


async def bourdon(inp):
    await pass_on(inp, 0.004)


upper, lower = asyncio.Queue(12), asyncio.Queue(12)
run_tasks(treble(upper), tenor(upper, lower), bourdon(lower), seconds=5)
