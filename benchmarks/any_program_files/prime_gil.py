# limit: lock | GIL|interpreter
"""Three threads look for primes in pure Python: the interpreter runs one at a time."""

import sys
import threading
import time

until = time.monotonic() + float(sys.argv[1])
found = []


def is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


def search(start: int) -> None:
    n = start
    while time.monotonic() < until:
        if is_prime(n):
            found.append(n)
        n += 3


threads = [threading.Thread(target=search, args=(100_000 + k,)) for k in range(3)]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(len(found))
