# limit: timer,thread | flush|sleep|telemetry|batch|MainThread
"""Coroutines hand readings to a flusher that waits 10 ms after each batch, to be kind to its server."""

import asyncio
import sys
import time

until = time.monotonic() + float(sys.argv[1])


async def sensor(readings: asyncio.Queue[float]) -> None:
    while True:
        await readings.put(time.monotonic())


async def flush(readings: asyncio.Queue[float]) -> int:
    sent = 0
    while time.monotonic() < until:
        batch = [await readings.get() for _ in range(10)]
        sent += len(batch)
        await asyncio.sleep(0.01)
    return sent


async def main() -> None:
    readings: asyncio.Queue[float] = asyncio.Queue(20)
    sensors = [asyncio.create_task(sensor(readings)) for _ in range(3)]
    print(await flush(readings))
    for one in sensors:
        one.cancel()


asyncio.run(main())
