# limits: mill_gears
import queue
import threading
import time
from contextlib import suppress

steel = [queue.Queue(12) for _ in range(3)]
frames, gears, motors = (queue.Queue(12) for _ in range(3))
machines = queue.Queue(12)
closing = threading.Event()


def deliver(to, every):
    while not closing.is_set():
        with suppress(queue.Full):
            to.put("bar", timeout=0.5)
        time.sleep(every)


def weld_frames():
    while not closing.is_set():
        frames.put(steel[0].get())
        time.sleep(0.0012)


def mill_gears():
    while not closing.is_set():
        bar = steel[1].get()
        time.sleep(0.0050)
        gears.put(bar)


def wind_motors():
    while not closing.is_set():
        bar = steel[2].get()
        time.sleep(0.0020)
        motors.put(bar)


def assemble():
    while not closing.is_set():
        kit = [q.get() for q in (frames, gears, motors)]
        time.sleep(0.0015)
        machines.put(kit)


def ship():
    while not closing.is_set():
        machines.get()


team = [threading.Thread(target=deliver, args=(q, 0.0005), name=f"truck-{i}") for i, q in enumerate(steel)]
team += [threading.Thread(target=f) for f in (weld_frames, mill_gears, wind_motors, assemble, ship)]
for t in team:
    t.daemon = True
    t.start()
time.sleep(4)
closing.set()
