"""Whether an end that wakes up often while it waits is woken by what arrives, or looks again and again.

Waking up to see whether to stop is no polling. What arrives at a random moment waits for the next look of an
end that polls, which comes within a quarter of the time between two looks in a quarter of the cases; who is
woken has it at once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence

__all__ = ["OFTEN", "SENT", "at_random", "is_woken", "receive_all", "step_of"]

# More often woken up in an idle second than this may be looking again and again.
OFTEN = 20
SENT = 40
# Who looks more often than that uses the CPU, whatever wakes it.
_SHORTEST_STEP_S = 0.002
_FEWEST = 10
_SPARE_S = 1.0


def step_of(wakes: int, seconds: float) -> float | None:
    """The time between two wake-ups that may be looks, s; None where they are too few for that."""
    return seconds / wakes if wakes > OFTEN * max(seconds, 0.1) else None


def at_random(send: Callable[[], object], step_s: float) -> list[float]:
    """Send a series of messages, two or three steps apart at random; the time of each."""
    uneven, times = random.Random(1), []
    for _ in range(SENT):
        time.sleep(step_s * (2 + uneven.random()))
        times.append(time.monotonic())
        send()
    return times


def receive_all(receive: Callable[[], int], step_s: float) -> list[float]:
    """When what `at_random` sends came, until all did or their time is over."""
    times: list[float] = []
    until = time.monotonic() + 4 * SENT * step_s + _SPARE_S
    while len(times) < SENT and time.monotonic() < until:
        count = receive()
        if count < 0:
            break
        times += [time.monotonic()] * count
    return times


def is_woken(sent: Sequence[float], received: Sequence[float], step_s: float) -> bool:
    """Whether messages came as they were sent, and not at the next look; not so where too few came.

    Args:
        sent: when, in order.
        received: when, in order; if fewer, what has nothing before the next was sent is lost.
        step_s: between two looks.
    """
    if step_s < _SHORTEST_STEP_S:
        return False
    waits = list(_waits(sent, received))
    if len(waits) < _FEWEST:
        return False
    # The way takes its time in either case.
    soon = sum(wait - min(waits) <= step_s / 4 for wait in waits)
    return 2 * soon >= len(waits)


def _waits(sent: Sequence[float], received: Sequence[float]) -> Iterator[float]:
    if len(received) == len(sent):  # the next may have been sent before a late one came
        yield from (came - at for at, came in zip(sent, received, strict=True))
        return
    for begin, end in zip(sent, [*sent[1:], float("inf")], strict=True):
        came = [at for at in received if begin <= at < end]
        if came:
            yield came[0] - begin
