"""A server of lines in one event loop, and one planted cause; "upstream" makes it the slow peer."""

import asyncio
import itertools
import sys
import time

cause = sys.argv[1]
numbers = itertools.count(1)


def compute(turns: int) -> int:
    total = 0
    for i in range(turns):
        total += i * i
    return total


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    behind = await asyncio.open_connection("127.0.0.1", int(sys.argv[2])) if len(sys.argv) > 2 else None
    while line := await reader.readline():
        number = next(numbers)
        answer = line.upper()
        if cause == "upstream":
            if line == b"slow\n":
                await asyncio.sleep(0.02)
        else:
            compute(100)
        if cause == "sleep" and number % 300 == 0:
            time.sleep(0.02)  # blocks the loop
        if cause == "compute" and number % 300 == 0:
            compute(400_000)
        if behind is not None:
            behind[1].write(b"slow\n" if number % 200 == 0 else b"fast\n")
            await behind[0].readline()
        writer.write(answer)
        await writer.drain()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
