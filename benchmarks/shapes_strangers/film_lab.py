# limits: develop
import multiprocessing as mp
import time

from together import pass_on


def scan(rolls):
    frame = 0
    while True:
        rolls.put(frame)
        frame += 1


def develop(rolls, negatives):
    pass_on(rolls, 0.004, negatives)


def enlarge(negatives, prints):
    pass_on(negatives, 0.0015, prints)


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
