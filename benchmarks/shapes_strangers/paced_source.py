# limits: none|timer|load
import queue
import sched
import time

from together import pass_on, start

q1, q2 = queue.Queue(), queue.Queue()


def normalise():
    pass_on(q1, 0.002, q2)


def persist():
    pass_on(q2, 0.001)


ts = start(normalise, persist)
s = sched.scheduler(time.monotonic, time.sleep)
t = time.monotonic()
for i in range(800):
    s.enterabs(t + 0.005 * i, 1, q1.put, (i,))
s.run()
q1.put(None)
[x.join() for x in ts]
