import random
import socket
import sys
import threading
import time

address = sys.argv[1] if len(sys.argv) > 1 else "/tmp/audit_trail.sock"
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10
log_path = sys.argv[3] if len(sys.argv) > 3 else "audit_trail.latencies"
CONNECTIONS, PAUSE = 4, 0.002
rows, lock = [], threading.Lock()


def ask(number):
    return b"entry %d by clerk %d\n" % (number, number % 7)


def clerk(seed):
    rng = random.Random(seed)
    s = socket.socket(socket.AF_UNIX)
    s.connect(address)
    stream = s.makefile("rb")
    mine, number = [], seed * 100_000
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        number += 1
        request = ask(number)
        sent = time.monotonic_ns()
        s.sendall(request)
        if not stream.readline():
            break
        mine.append((sent, time.monotonic_ns() - sent))
        time.sleep(rng.expovariate(1 / PAUSE))
    with lock:
        rows.extend(mine)


threads = [threading.Thread(target=clerk, args=(k + 1,)) for k in range(CONNECTIONS)]
for t in threads:
    t.start()
for t in threads:
    t.join()
rows.sort()
with open(log_path, "w") as log:
    for sent, latency in rows:
        log.write(f"{sent},{latency}\n")
