# limits: parse_recipe
import asyncio
import json
import re

DOCUMENT = json.dumps(
    [
        {"step": k, "text": f"Add {k * 7 % 90} g of flour, stir for {k % 12} min at {k * 5 % 200} C"}
        for k in range(220)
    ]
)
AMOUNT = re.compile(r"(\d+) (g|min|C)")


async def fetch(pages):
    while True:
        await asyncio.sleep(0.001)
        await pages.put(DOCUMENT)


async def parse_recipe(pages, recipes):
    while True:
        page = await pages.get()
        steps = json.loads(page)
        amounts = [AMOUNT.findall(s["text"]) for s in steps for _ in range(6)]
        await recipes.put(len(amounts))


async def publish(recipes):
    while True:
        await recipes.get()
        await asyncio.sleep(0.0005)


async def main():
    pages, recipes = asyncio.Queue(20), asyncio.Queue(20)
    async with asyncio.timeout(4):
        async with asyncio.TaskGroup() as group:
            group.create_task(fetch(pages))
            group.create_task(parse_recipe(pages, recipes))
            group.create_task(publish(recipes))


try:
    asyncio.run(main())
except TimeoutError:
    pass
