# limits: correct|gil|interpreter
import queue
import threading
import time

LEXICON = [
    "harvest",
    "garden",
    "window",
    "bottle",
    "silver",
    "thunder",
    "copper",
    "orange",
    "meadow",
    "pencil",
]
pages, fixed = queue.Queue(30), queue.Queue(30)


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        left, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            left, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, left + (x != y))
    return row[-1]


def read_pages():
    n = 0
    while True:
        pages.put([w[: n % 5] + "e" + w[n % 4 :] for w in LEXICON[:6]])
        n += 1


def correct():
    for page in iter(pages.get, None):
        fixed.put([min(LEXICON, key=lambda w: edits(w, word)) for word in page])


def count():
    seen = {}
    while True:
        for word in fixed.get():
            seen[word] = seen.get(word, 0) + 1
        for word in sorted(seen):
            seen[word] -= len(word) % 2


for step in (read_pages, correct, count):
    threading.Thread(target=step, name=step.__name__, daemon=True).start()
time.sleep(4)
