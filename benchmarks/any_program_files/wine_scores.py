# limit: lock,thread | (?i)gil|interpreter|score_bottle|taster
import sys
import threading
import time
from collections import Counter

NOTES = "plum cherry cedar smoke leather vanilla pepper violet earth tobacco honey lemon flint pear".split()  # noqa: SIM905
tasted = Counter()


def score_bottle(vintage):
    words = [NOTES[(vintage * 7 + k * k) % len(NOTES)] for k in range(600)]
    histogram = {}
    for position, word in enumerate(words):
        histogram[word] = histogram.get(word, 0) + position % 7
    ranked = sorted(histogram.items(), key=lambda kv: (-kv[1], kv[0]))
    return sum(weight * (rank + 1) for rank, (_, weight) in enumerate(ranked))


def taster(table, until):
    vintage = table * 1000
    while time.monotonic() < until:
        if score_bottle(vintage):
            tasted[table] += 1
        vintage += 1


if __name__ == "__main__":
    seconds = float(sys.argv[-1]) if len(sys.argv) > 1 else 6
    until = time.monotonic() + seconds
    tables = [threading.Thread(target=taster, args=(n, until), name=f"table-{n}") for n in range(4)]
    for t in tables:
        t.start()
    for t in tables:
        t.join()
    print(sum(tasted.values()), "bottles")
