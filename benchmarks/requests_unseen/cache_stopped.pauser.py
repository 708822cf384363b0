import os
import signal
import sys
import time

pid, seconds = int(sys.argv[1]), float(sys.argv[2])
until = time.monotonic() + seconds

while time.monotonic() < until:
    time.sleep(0.7)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.05)
    os.kill(pid, signal.SIGCONT)
