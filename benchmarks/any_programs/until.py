"""What the programs beside it run by: a deadline, options, threads."""

import asyncio
import sys
import time

SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
OPTIONS = dict(word.split("=", 1) for word in sys.argv[3:])
END = time.monotonic() + SECONDS


def over():
    return time.monotonic() >= END


def number(key, otherwise):
    return float(OPTIONS.get(key, otherwise))


def run_all(threads):
    for one in threads:
        one.start()
    for one in threads:
        one.join()


async def tick(seconds):
    while not over():
        await asyncio.sleep(seconds)
