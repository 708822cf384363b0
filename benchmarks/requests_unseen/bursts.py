import random
import socket
import sys
import time

port, seconds, log = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
ones = [socket.create_connection(("127.0.0.1", port)) for _ in range(48)]
for one in ones:
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
rows, rng = [], random.Random(5)


def ask(one):
    sent = time.monotonic_ns()
    one.sendall(b"book\n")
    return sent


until, round_ = time.monotonic() + seconds, 0
while time.monotonic() < until:
    round_ += 1
    if round_ % 600 == 0:
        sents = [ask(one) for one in ones]
        for one, sent in zip(ones, sents, strict=True):
            one.recv(100)
            rows.append((sent, time.monotonic_ns() - sent))
    else:
        one = ones[round_ % 48]
        sent = ask(one)
        one.recv(100)
        rows.append((sent, time.monotonic_ns() - sent))
        time.sleep(rng.expovariate(1 / 0.001))
with open(log, "w") as file:
    file.writelines(f"{a},{b}\n" for a, b in sorted(rows))
