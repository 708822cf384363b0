# limits: Resizer
import multiprocessing as mp
import time


class Stage(mp.Process):
    cost = 0

    def __init__(self, i, o):
        super().__init__(name=type(self).__name__, daemon=True)
        self.i = i
        self.o = o

    def run(self):
        for item in iter(self.i.get, None):
            time.sleep(self.cost)
            if self.o is not None:
                self.o.put(item)
        if self.o is not None:
            self.o.put(None)


class Decoder(Stage):
    cost = 0.0015


class Resizer(Stage):
    cost = 0.004


class Writer(Stage):
    cost = 0.001


if __name__ == "__main__":
    a, b, c = mp.Queue(30), mp.Queue(30), mp.Queue(30)
    st = [Decoder(a, b), Resizer(b, c), Writer(c, None)]
    [s.start() for s in st]
    end = time.time() + 4
    n = 0
    while time.time() < end:
        a.put(("img", n, b"x" * 2000))
        n += 1
    a.put(None)
    [s.join() for s in st]
