# limits: Loader
import abc
import queue
import re
import threading
import time


class Worker(threading.Thread, abc.ABC):
    def __init__(self, inbox=None, outbox=None):
        super().__init__(daemon=True)
        self.inbox = inbox
        self.outbox = outbox

    @abc.abstractmethod
    def handle(self, item): ...
    def run(self):
        while True:
            item = self.inbox.get()
            if item is None:
                if self.outbox:
                    self.outbox.put(None)
                return
            r = self.handle(item)
            if self.outbox is not None and r is not None:
                self.outbox.put(r)


class Transformer(Worker):
    pat = re.compile(r"(\w+)@(\w+)\.com")

    def handle(self, item):
        time.sleep(0.0015)
        return self.pat.sub(r"\2", item)


class Loader(Worker):
    def __init__(self, *a):
        super().__init__(*a)
        self.batch = []

    def handle(self, item):
        self.batch.append(item)
        if len(self.batch) == 5:
            time.sleep(0.015)
            self.batch.clear()


def main():
    raw, clean = queue.Queue(50), queue.Queue(50)
    t, loader = Transformer(raw, clean), Loader(clean)
    t.start()
    loader.start()
    end = time.time() + 4
    while time.time() < end:
        raw.put("hello a@b.com " * 3)
        time.sleep(0.0002)
    raw.put(None)
    loader.join()


main()
