import random
import socket
import sys
import threading
import time

address = ("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 7405)
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10
log_path = sys.argv[3] if len(sys.argv) > 3 else "big_scroll.latencies"
CONNECTIONS, PAUSE = 3, 0.004
rows, lock = [], threading.Lock()


def command(*parts):
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


def ask(number):
    if number % 150 == 0:
        return command(b"GET", b"map:whole")
    if number % 20 == 0:
        return command(b"SET", b"note:%d" % (number % 1000), b"amended %d" % number)
    return command(b"GET", b"note:%d" % (number % 1000))


def take(stream):
    head = stream.readline()
    if head[:1] == b"$" and head != b"$-1\r\n":
        left = int(head[1:]) + 2
        while left:
            left -= len(stream.read(min(left, 1 << 20)))


def reader(seed):
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


threads = [threading.Thread(target=reader, args=(k + 1,)) for k in range(CONNECTIONS)]
for t in threads:
    t.start()
for t in threads:
    t.join()
rows.sort()
with open(log_path, "w") as log:
    for sent, latency in rows:
        log.write(f"{sent},{latency}\n")
