# limit: timer | fetch|ThreadPool|poll
"""An executor's threads poll a device that answers after 25 ms, which is a sleep here."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

until = time.monotonic() + float(sys.argv[1])


def fetch(device: int) -> int:
    time.sleep(0.025)
    return sum(k * device for k in range(200))


with ThreadPoolExecutor(3) as pool:
    total = 0
    while time.monotonic() < until:
        total += sum(pool.map(fetch, range(6)))
print(total)
