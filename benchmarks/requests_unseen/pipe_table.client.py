import os
import random
import sys
import time

base, seconds, log = sys.argv[1], float(sys.argv[2]), sys.argv[3]
out = os.open(base + ".in", os.O_WRONLY)
answers = os.open(base + ".out", os.O_RDONLY)
rng, rows, until = random.Random(4), [], time.monotonic() + seconds
while time.monotonic() < until:
    sent = time.monotonic_ns()
    os.write(out, b"set the table\n")
    os.read(answers, 300)
    rows.append((sent, time.monotonic_ns() - sent))
    time.sleep(rng.expovariate(1 / 0.0015))
with open(log, "w") as file:
    file.writelines(f"{a},{b}\n" for a, b in rows)
