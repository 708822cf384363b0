# limits: develop
import multiprocessing as mp
import time


def scan(rolls):
    frame = 0
    while True:
        rolls.put(frame)
        frame += 1


def develop(rolls, negatives):
    for frame in iter(rolls.get, None):
        time.sleep(0.004)
        negatives.put(frame)


def enlarge(negatives, prints):
    for frame in iter(negatives.get, None):
        time.sleep(0.0015)
        prints.put(frame)


def mount(prints):
    while True:
        prints.get()


if __name__ == "__main__":
    rolls, negatives, prints = mp.Queue(20), mp.Queue(20), mp.Queue(20)
    crew = [
        mp.Process(target=scan, args=(rolls,), name="scan"),
        mp.Process(target=develop, args=(rolls, negatives), name="develop"),
        mp.Process(target=enlarge, args=(negatives, prints), name="enlarge"),
        mp.Process(target=mount, args=(prints,), name="mount"),
    ]
    for p in crew:
        p.start()
    time.sleep(4)
    for p in crew:
        p.terminate()
        p.join()
