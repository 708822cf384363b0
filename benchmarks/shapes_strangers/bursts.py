# limits: burst
import queue
import time

from together import pass_on, start

inbox = queue.Queue(64)
out = queue.Queue(64)


def parse():
    pass_on(inbox, 0.001, out)


def sink():
    pass_on(out, 0.0005)


ts = start(parse, sink)
for _k in range(8):
    t0 = time.time()
    for i in range(200):
        inbox.put(i)
    time.sleep(max(0, 0.5 - (time.time() - t0)))
inbox.put(None)
[t.join() for t in ts]
