# limit: lock,timer | kettle|boil|sleep
"""Four people share one kettle; whoever has it boils (sleeps) with the lock held."""

import sys
import threading
import time

kettle = threading.Lock()
cups = 0


def boil(end):
    global cups
    while time.time() < end:
        with kettle:
            time.sleep(0.01)
            cups += 1


people = [threading.Thread(target=boil, args=(time.time() + float(sys.argv[1]),)) for _ in range(4)]
for p in people:
    p.start()
for p in people:
    p.join()
print(cups)
