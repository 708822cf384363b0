# limits: unnamed
import asyncio


async def treble(out):
    n = 0
    while True:
        await asyncio.sleep(0.004)
        await out.put(n)
        n += 1


async def tenor(inp, out):
    while True:
        n = await inp.get()
        await asyncio.sleep(0.004)
        await out.put(n)


async def bourdon(inp):
    while True:
        await inp.get()
        await asyncio.sleep(0.004)


async def main():
    upper, lower = asyncio.Queue(12), asyncio.Queue(12)
    ringers = [asyncio.ensure_future(c) for c in (treble(upper), tenor(upper, lower), bourdon(lower))]
    await asyncio.sleep(5)
    for r in ringers:
        r.cancel()


asyncio.run(main())
