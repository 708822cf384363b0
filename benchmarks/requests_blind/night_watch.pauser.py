import os
import signal
import sys
import time

pid = int(sys.argv[1])
end = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 10)
while time.monotonic() < end:
    time.sleep(0.7)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.06)
    os.kill(pid, signal.SIGCONT)
