# limit: timer,load |
import asyncio
import sys
import time


async def ping(n):
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        await asyncio.sleep(0.02 * n)


async def main():
    await asyncio.gather(*(ping(n) for n in (1, 2, 3)))


asyncio.run(main())
