import asyncio
import collections
import random
import sys
import time

port = int(sys.argv[1]) if len(sys.argv) > 1 else 7412
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10
log_path = sys.argv[3] if len(sys.argv) > 3 else "plain_till.latencies"
rng = random.Random(3)
rows = []


class Line(asyncio.Protocol):
    def __init__(self):
        self.under_way = collections.deque()
        self.rest = b""

    def connection_made(self, transport):
        self.transport = transport

    def send(self, text):
        self.under_way.append(time.monotonic_ns())
        self.transport.write(text)

    def data_received(self, data):
        now = time.monotonic_ns()
        self.rest += data
        *replies, self.rest = self.rest.split(b"\n")
        for _ in replies:
            sent = self.under_way.popleft()
            rows.append((sent, now - sent))


async def main():
    loop = asyncio.get_running_loop()
    lines = [(await loop.create_connection(Line, "127.0.0.1", port))[1] for _ in range(16)]
    began = due = time.monotonic()
    number = 0
    while due < began + seconds:
        due += rng.expovariate(1200)
        await asyncio.sleep(max(0, due - time.monotonic()))
        number += 1
        lines[rng.randrange(len(lines))].send(b"%d\n" % number)
    await asyncio.sleep(0.3)
    with open(log_path, "w") as log:
        for sent, latency in sorted(rows):
            log.write(f"{sent},{latency}\n")


asyncio.run(main())
