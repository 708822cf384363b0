# limits: index
import queue
import time

from together import during, pass_on, start

incoming = queue.Queue(64)
to_archive, to_index = queue.Queue(64), queue.Queue(64)


def tee():
    for m in iter(incoming.get, None):
        to_archive.put(m)
        to_index.put(m)


def archive():
    buf = []
    while True:
        buf.append(to_archive.get())
        if len(buf) == 40:
            time.sleep(0.03)
            buf.clear()


def index():
    pass_on(to_index, 0.0025)


start(tee, archive, index)
for _ in during(4):
    incoming.put("m")
    time.sleep(0.0003)
