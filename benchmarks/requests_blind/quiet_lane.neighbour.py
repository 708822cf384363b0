import os
import sys
import time
import zlib

os.sched_setaffinity(0, {1})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
with open("/proc/self/comm", "w") as comm:
    comm.write("backup-packer")
data = bytes(range(256)) * 400
end = time.monotonic() + float(sys.argv[1] if len(sys.argv) > 1 else 10)
while time.monotonic() < end:
    began = time.monotonic()
    while time.monotonic() - began < 0.025:
        zlib.compress(data, 6)
    time.sleep(0.22)
