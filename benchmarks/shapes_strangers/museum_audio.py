# limits: none|timer|load
import multiprocessing as mp
import time


def visitors(requests):
    number = 0
    while True:
        time.sleep(0.006)
        requests.put(number % 90)
        number += 1


def lookup(requests, tracks):
    catalogue = {n: f"track-{n:03}" for n in range(90)}
    while True:
        tracks.put(catalogue[requests.get()])


def play(tracks):
    heard = set()
    while True:
        heard.add(tracks.get())


if __name__ == "__main__":
    requests, tracks = mp.Queue(50), mp.Queue(50)
    parts = [
        mp.Process(target=visitors, args=(requests,), daemon=True),
        mp.Process(target=lookup, args=(requests, tracks), daemon=True),
        mp.Process(target=play, args=(tracks,), daemon=True),
    ]
    for p in parts:
        p.start()
    time.sleep(4)
