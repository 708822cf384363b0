"""How most of the programs beside it run: a daemon thread a step, for some seconds."""

import threading
import time


def start(*steps):
    for step in steps:
        threading.Thread(target=step, daemon=True).start()


def run(*steps, seconds=4):
    start(*steps)
    time.sleep(seconds)
