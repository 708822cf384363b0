# limits: crawl|fetch|limit|Semaphore
import asyncio


async def main():
    urls, pages = asyncio.Queue(100), asyncio.Queue(100)
    limit = asyncio.Semaphore(3)

    async def seed():
        while True:
            await urls.put("http://")

    async def crawl():
        while True:
            u = await urls.get()
            async with limit:
                await asyncio.sleep(0.006)
            await pages.put(u)

    async def extract():
        while True:
            await pages.get()
            await asyncio.sleep(0.0005)

    ts = [asyncio.create_task(x()) for x in (seed, extract, *[crawl] * 12)]
    await asyncio.sleep(4)
    [t.cancel() for t in ts]


asyncio.run(main())
