# limits: none|timer|load
import queue
import sched
import threading
import time

q1, q2 = queue.Queue(), queue.Queue()


def normalise():
    while (x := q1.get()) is not None:
        time.sleep(0.002)
        q2.put(x)
    q2.put(None)


def persist():
    while q2.get() is not None:
        time.sleep(0.001)


ts = [threading.Thread(target=normalise), threading.Thread(target=persist)]
[t.start() for t in ts]
s = sched.scheduler(time.monotonic, time.sleep)
t = time.monotonic()
for i in range(800):
    s.enterabs(t + 0.005 * i, 1, q1.put, (i,))
s.run()
q1.put(None)
[x.join() for x in ts]
