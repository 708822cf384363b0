# limit: thread | compress|squeeze
"""Files' blocks are read, compressed and hashed by one thread each, over bounded queues."""

import hashlib
import queue
import random
import sys
import threading
import time
import zlib

until = time.monotonic() + float(sys.argv[1])
blocks: queue.Queue[bytes | None] = queue.Queue(8)
packed: queue.Queue[bytes | None] = queue.Queue(8)
TEXT = bytes(random.Random(1).choices(b"abcdefgh ", k=300_000))


def read_blocks() -> None:
    while time.monotonic() < until:
        blocks.put(TEXT[17:])
    blocks.put(None)


def squeeze() -> None:
    while (block := blocks.get()) is not None:
        packed.put(zlib.compress(block, 7))
    packed.put(None)


def fingerprint() -> None:
    digest = hashlib.sha256()
    while (block := packed.get()) is not None:
        digest.update(block)
    print(digest.hexdigest())


threads = [threading.Thread(target=f, name=f.__name__) for f in (read_blocks, squeeze, fingerprint)]
for one in threads:
    one.start()
for one in threads:
    one.join()
