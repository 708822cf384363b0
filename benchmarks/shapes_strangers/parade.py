# limits: tune_drums
import asyncio


async def recruit(roster):
    n = 0
    while True:
        await roster.put(n)
        n += 1
        await asyncio.sleep(0)


async def polish_brass(roster, brass):
    while True:
        who = await roster.get()
        await asyncio.sleep(0.001)
        await brass.put(who)


async def tune_drums(roster, drums):
    while True:
        who = await roster.get()
        await asyncio.sleep(0.005)
        await drums.put(who)


async def form_pairs(brass, drums, marching):
    while True:
        b = await brass.get()
        d = await drums.get()
        await asyncio.sleep(0.001)
        await marching.put((b, d))


async def march(marching):
    while True:
        await marching.get()


async def main():
    horn_players, drummers = asyncio.Queue(16), asyncio.Queue(16)
    brass, drums, marching = asyncio.Queue(16), asyncio.Queue(16), asyncio.Queue(16)
    jobs = [
        recruit(horn_players),
        recruit(drummers),
        polish_brass(horn_players, brass),
        tune_drums(drummers, drums),
        form_pairs(brass, drums, marching),
        march(marching),
    ]
    try:
        await asyncio.wait_for(asyncio.gather(*jobs), 4)
    except TimeoutError:
        pass


asyncio.run(main())
