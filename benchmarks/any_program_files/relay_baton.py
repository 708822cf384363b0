# limit: silent |
import sys
import threading
import time
import zlib

baton = threading.Condition()
holder = "odd"
laps = {"odd": 0, "even": 0}
track = bytes(range(256)) * 900
finish = 0.0


def sprint(packed):
    return zlib.compress(track, packed)


def odd_runner():
    global holder
    while time.monotonic() < finish:
        with baton:
            if not baton.wait_for(lambda: holder == "odd", timeout=0.5):  # noqa: B023 - a global
                continue
        sprint(6)
        laps["odd"] += 1
        with baton:
            holder = "even"
            baton.notify()


def even_runner():
    global holder
    while time.monotonic() < finish:
        with baton:
            if not baton.wait_for(lambda: holder == "even", timeout=0.5):  # noqa: B023
                continue
        sprint(6)
        laps["even"] += 1
        with baton:
            holder = "odd"
            baton.notify()


if __name__ == "__main__":
    finish = time.monotonic() + (float(sys.argv[-1]) if len(sys.argv) > 1 else 6)
    runners = [threading.Thread(target=f, name=f.__name__) for f in (odd_runner, even_runner)]
    for r in runners:
        r.start()
    for r in runners:
        r.join()
    print(laps)
