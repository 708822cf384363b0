# limit: timer | fetch|sleep|worker|requests
import queue
import sys
import threading
import time

jobs = queue.Queue(maxsize=10)
stop = threading.Event()


def fetch():
    while not stop.is_set():
        jobs.get()
        time.sleep(0.02)  # the far end takes its time
        jobs.task_done()


for _ in range(2):
    threading.Thread(target=fetch, daemon=True).start()
end = time.monotonic() + float(sys.argv[1])
n = 0
while time.monotonic() < end:
    jobs.put(f"http://example.org/{n}")
    n += 1
jobs.join()
print(n)
