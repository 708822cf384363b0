# limit: process | hash_block|block_hash|worker|Process
import hashlib
import sys
import time
from concurrent.futures import ProcessPoolExecutor


def hash_block(n):
    data = bytes([n % 256]) * 200_000
    for _ in range(10):
        data = hashlib.blake2b(data).digest() * 3000
    return data[:4]


if __name__ == "__main__":
    end = time.time() + float(sys.argv[1])
    with ProcessPoolExecutor(2) as pool:
        n = 0
        while time.time() < end:
            n += len(list(pool.map(hash_block, range(n, n + 40))))
    print(n)
