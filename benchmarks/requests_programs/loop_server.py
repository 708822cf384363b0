"""Streams in an event loop, as somebody else would write them: loop_server.py CAUSE"""

import asyncio
import itertools
import json
import os
import re
import sys
import tempfile

cause = sys.argv[1]
numbers = itertools.count(1)
lock = asyncio.Lock()
descriptor, _ = tempfile.mkstemp(dir=".")
block = b"f" * (1 << 20)
document = json.dumps([{"number": i, "text": "word " * 5} for i in range(9_000)])


async def respond(line: bytes) -> bytes:
    """The answer to a line."""
    number = next(numbers)
    if cause == "json" and number % 260 == 0:
        return b"%d\n" % len(json.loads(document))
    if cause == "pattern" and number % 260 == 0:
        return b"%d\n" % bool(re.match(r"(a|a)*$", "a" * 17 + "b"))
    if cause == "sync" and number % 200 == 0:
        os.pwrite(descriptor, block, 0)
        os.fsync(descriptor)
    if cause == "await" and number % 180 == 0:
        await asyncio.sleep(0.025)
    if cause == "lock":
        async with lock:
            if number % 240 == 0:
                await asyncio.sleep(0.02)
    return line[::-1].strip() + b"\n"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection."""
    async for line in reader:
        writer.write(await respond(line))
        await writer.drain()


async def main() -> None:
    """All of them."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
