# limits: burst
import queue
import threading
import time

inbox = queue.Queue(64)
out = queue.Queue(64)


def parse():
    while (x := inbox.get()) is not None:
        time.sleep(0.001)
        out.put(x)
    out.put(None)


def sink():
    while out.get() is not None:
        time.sleep(0.0005)


ts = [threading.Thread(target=parse), threading.Thread(target=sink)]
[t.start() for t in ts]
for _k in range(8):
    t0 = time.time()
    for i in range(200):
        inbox.put(i)
    time.sleep(max(0, 0.5 - (time.time() - t0)))
inbox.put(None)
[t.join() for t in ts]
