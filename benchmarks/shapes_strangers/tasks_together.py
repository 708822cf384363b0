"""How some of the programs beside it run: a task each, for some seconds."""

import asyncio


def run_tasks(*steps, seconds=4):
    async def main():
        tasks = [asyncio.ensure_future(step) for step in steps]
        _, pending = await asyncio.wait(tasks, timeout=seconds)
        for task in pending:
            task.cancel()

    asyncio.run(main())


async def pass_on(inlet, seconds, outlet=None):
    while True:
        item = await inlet.get()
        await asyncio.sleep(seconds)
        if outlet is not None:
            await outlet.put(item)
