"""A pipeline of tasks and `asyncio.Queue`; a stage whose work is "block" holds the loop."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import spec as shape

from latlab.queues import instrument


def compute(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def run(stage: dict[str, Any], queues: dict[str, Any], seed: int, begin: float) -> None:
    draw, count = shape.Draw(stage, seed), 0
    next_s = begin
    while True:
        if stage["in"]:
            items = [await queues[name].get() for name in stage["in"]]
        else:
            items = [count]
            next_s += stage.get("every_ms", 0.0) / 1e3
            await asyncio.sleep(max(0.0, next_s - time.perf_counter()))
        if time.perf_counter() - begin > stage.get("hangs_after_s", 1e9):
            await asyncio.Event().wait()
        if stage.get("ms"):
            match stage.get("work"):
                case "block":
                    time.sleep(draw())
                case "spin":
                    compute(draw())
                case _:
                    await asyncio.sleep(draw())
        for name in shape.outputs(stage, count):
            await queues[name].put(items[0])
        count += 1


async def main() -> None:
    spec = shape.read()
    queues = shape.queues_of(spec, asyncio.Queue, instrument)
    begin = time.perf_counter()
    tasks = [
        asyncio.create_task(
            run(stage, queues, spec["seed"] + number, begin), name=f"{stage['name']}-{number}"
        )
        for stage in spec["stages"]
        for number in range(stage["count"])
    ]
    await asyncio.sleep(spec["seconds"])
    assert tasks
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
