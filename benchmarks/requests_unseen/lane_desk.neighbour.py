import ctypes
import os
import sys
import time

pid, seconds = int(sys.argv[1]), float(sys.argv[2])
os.sched_setaffinity(0, {1})
os.setpriority(os.PRIO_PROCESS, 0, -15)

ctypes.CDLL(None).prctl(15, b"archiver", 0, 0, 0)
until = time.monotonic() + seconds
while time.monotonic() < until:
    time.sleep(0.35)
    end = time.monotonic() + 0.03
    while time.monotonic() < end:
        pass
