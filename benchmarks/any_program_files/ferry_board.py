# limit: thread | replan|plan_routes|timetable
import asyncio
import heapq
import random
import sys


class Board:
    def __init__(self):
        rng = random.Random(4)
        self.lines = {n: [(rng.randrange(400), rng.randint(1, 60)) for _ in range(5)] for n in range(400)}
        self.shown = 0
        self.replanned = 0
        self.updates = asyncio.Queue(maxsize=50)

    def timetable(self, origin):
        best, heap = {origin: 0}, [(0, origin)]
        while heap:
            minutes, port = heapq.heappop(heap)
            if minutes > best[port]:
                continue
            for nxt, leg in self.lines[port]:
                if minutes + leg < best.get(nxt, 1 << 30):
                    best[nxt] = minutes + leg
                    heapq.heappush(heap, (minutes + leg, nxt))
        return best

    async def replan(self):
        origin = 0
        while True:
            for _ in range(8):
                self.timetable(origin % 400)
                origin += 1
            self.replanned += 1
            await self.updates.put(origin)

    async def display(self):
        while True:
            await self.updates.get()
            self.shown += 1

    async def passenger(self, reader, writer):
        try:
            while line := await reader.readline():
                writer.write(b"%d ferries for %s" % (self.shown, line))
                await writer.drain()
        except ConnectionError:
            return


async def ask(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while True:
            writer.write(b"island\n")
            await reader.readline()
            await asyncio.sleep(0.02)
    finally:
        writer.close()


async def main(seconds):
    board = Board()
    server = await asyncio.start_server(board.passenger, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    jobs = [
        asyncio.ensure_future(c) for c in (board.replan(), board.display(), *(ask(port) for _ in range(3)))
    ]
    await asyncio.sleep(seconds)
    for job in jobs:
        job.cancel()
    await asyncio.gather(*jobs, return_exceptions=True)
    server.close()
    await asyncio.sleep(0.1)
    print(board.replanned, "plans,", board.shown, "shown")


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[-1]) if len(sys.argv) > 1 else 6.0))
