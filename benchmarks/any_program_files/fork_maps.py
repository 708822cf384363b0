# limit: process,thread | fork_maps|summarise
"""One forked process for each quarter of the data, results over pipes; one quarter is far longer."""

import os
import sys
import time

QUARTERS = [4000, 4000, 90_000, 4000]


def summarise(size: int) -> int:
    value = 1
    for k in range(size):
        value = (value * 48271 + k) % 2147483647
    return value


until = time.monotonic() + float(sys.argv[1])
rounds = 0
while time.monotonic() < until:
    ends = []
    for size in QUARTERS:
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, str(summarise(size)).encode())
            os._exit(0)
        os.close(write)
        ends.append(read)
    for end in ends:
        os.read(end, 64)
        os.close(end)
        os.wait()
    rounds += 1
print(rounds)
