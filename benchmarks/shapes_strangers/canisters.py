# limits: clean
import queue

from together import pass_on, run

empties = queue.Queue(6)
filled = queue.Queue(6)
dirty = queue.Queue(6)
for number in range(6):
    empties.put(f"canister-{number}")


def fill():
    pass_on(empties, 0.001, filled)


def pour():
    pass_on(filled, 0.0015, dirty)


def clean():
    pass_on(dirty, 0.006, empties)


run(fill, pour, clean)
