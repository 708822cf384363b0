# limits: temper
import queue
import threading
import time

cut_panes = queue.Queue(1)
ground_panes = queue.Queue(1)
tempered_panes = queue.Queue(1)


class Station(threading.Thread):
    def __init__(self, name, take, give, seconds):
        super().__init__(name=name, daemon=True)
        self.take, self.give, self.seconds = take, give, seconds

    def run(self):
        pane = 0
        while True:
            pane = self.take.get() if self.take else pane + 1
            time.sleep(self.seconds)
            if self.give:
                self.give.put(pane)


Station("cut", None, cut_panes, 0.001).start()
Station("grind", cut_panes, ground_panes, 0.0015).start()
Station("temper", ground_panes, tempered_panes, 0.0045).start()
Station("pack", tempered_panes, None, 0.001).start()
time.sleep(4)
