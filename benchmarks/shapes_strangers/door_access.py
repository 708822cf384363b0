# limits: check_badge
import asyncio
import time


class Doors:
    def __init__(self):
        self.swipes = asyncio.Queue(30)
        self.decisions = asyncio.Queue(30)

    async def readers(self):
        badge = 0
        while True:
            await self.swipes.put(badge)
            badge += 1
            await asyncio.sleep(0.0005)

    async def check_badge(self):
        while True:
            badge = await self.swipes.get()
            time.sleep(0.004)
            await self.decisions.put((badge, badge % 9 != 0))

    async def open_doors(self):
        opened = 0
        while True:
            _, allowed = await self.decisions.get()
            opened += allowed
            await asyncio.sleep(0.0003)

    async def run(self):
        work = [
            asyncio.create_task(c, name=c.__name__)
            for c in (self.readers(), self.check_badge(), self.open_doors())
        ]
        await asyncio.sleep(4)
        for w in work:
            w.cancel()


asyncio.run(Doors().run())
