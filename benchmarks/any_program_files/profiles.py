# limit: lock | profiles|save_profile|store_lock|lock
"""Four handlers store profiles; each compresses its own while it holds the store's lock."""

import sys
import threading
import time
import zlib

until = time.monotonic() + float(sys.argv[1])
store: dict[int, bytes] = {}
store_lock = threading.Lock()


def save_profile(user: int, data: bytes) -> None:
    with store_lock:
        store[user] = zlib.compress(data, 6)


def handler(number: int) -> None:
    data = bytes(k * k % 251 for k in range(60_000))
    turn = 0
    while time.monotonic() < until:
        turn += 1
        save_profile(number * 1000 + turn % 100, data)


threads = [threading.Thread(target=handler, args=(k,)) for k in range(4)]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(len(store))
