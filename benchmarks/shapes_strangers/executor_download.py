# limits: download
import hashlib
import random
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait


def download(n):
    time.sleep(random.uniform(0.006, 0.010))
    return hashlib.sha256(str(n).encode() * 50).hexdigest()


def save(x):
    time.sleep(0.0005)


end = time.time() + 4
n = 0
with ThreadPoolExecutor(4) as ex:
    pending = set()
    while time.time() < end:
        while len(pending) < 32:
            pending.add(ex.submit(download, n))
            n += 1
        done, pending = wait(pending, return_when=FIRST_COMPLETED)
        for d in done:
            save(d.result())
