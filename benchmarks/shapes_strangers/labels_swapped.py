# limits: hidden convert
import queue

from together import feed, pass_on, run

from latlab.queues import instrument

a = instrument(queue.Queue(32), name="a", source="read", drain="convert")
b = instrument(queue.Queue(32), name="b", source="write", drain="convert")  # the wrong way round
c = instrument(queue.Queue(32), name="c", source="write", drain="sync")

run(
    lambda: feed(a, 1, 0.0002),
    lambda: pass_on(a, 0.003, b),
    lambda: pass_on(b, 0.001, c),
    lambda: pass_on(c, 0.001),
)
