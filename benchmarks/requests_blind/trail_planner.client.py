import random
import socket
import sys
import threading
import time

address = ("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 7410)
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10
log_path = sys.argv[3] if len(sys.argv) > 3 else "trail_planner.latencies"
CONNECTIONS, PAUSE = 3, 0.004
rows, lock = [], threading.Lock()


def ask(number):
    route, height = f"/route/{number * 31}/{number * 7919}", f"/height/{number % 220}/{number % 97}"
    path = route if number % 150 == 0 else height
    return f"GET {path} HTTP/1.1\r\nHost: trails\r\n\r\n".encode()


def take(stream):
    size = 0
    while (head := stream.readline().strip()) != b"":
        if head.lower().startswith(b"content-length:"):
            size = int(head.split(b":")[1])
    stream.read(size)


def walker(seed):
    rng = random.Random(seed)
    s = socket.create_connection(address)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream = s.makefile("rb")
    mine, number = [], seed * 100_000
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        number += 1
        request = ask(number)
        sent = time.monotonic_ns()
        s.sendall(request)
        take(stream)
        mine.append((sent, time.monotonic_ns() - sent))
        time.sleep(rng.expovariate(1 / PAUSE))
    with lock:
        rows.extend(mine)


threads = [threading.Thread(target=walker, args=(k + 1,)) for k in range(CONNECTIONS)]
for t in threads:
    t.start()
for t in threads:
    t.join()
rows.sort()
with open(log_path, "w") as log:
    for sent, latency in rows:
        log.write(f"{sent},{latency}\n")
