# limits: index
import queue
import threading
import time

incoming = queue.Queue(64)
to_archive, to_index = queue.Queue(64), queue.Queue(64)


def tee():
    while True:
        m = incoming.get()
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
    while True:
        to_index.get()
        time.sleep(0.0025)


for f in (tee, archive, index):
    threading.Thread(target=f, daemon=True).start()
end = time.time() + 4
while time.time() < end:
    incoming.put("m")
    time.sleep(0.0003)
