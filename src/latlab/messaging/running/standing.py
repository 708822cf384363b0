"""How long a run has stood still, and for how much of that a message could have arrived."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

__all__ = ["Standing"]

_STEPS = 3  # of the watcher's, beyond which it was held up itself, and the machine with it
_AT_WORK = 0.2  # of a core; a receiver that looks for its end twenty times a second uses a thousandth


class Standing:
    """What has passed since the last message arrived.

    A part that is stopped by a signal, or has no CPU, or is at work on what is under way may still deliver;
    and while the whole machine stood still nobody could. So a message isn't lost before the time for it has
    passed with everybody free to move.

    Args:
        step_s: usual time between two looks.
        asleep: whether a part without work sleeps; the CPU time of a part that polls shows no work.
        now: the clock; injected in tests.
    """

    def __init__(self, step_s: float, *, asleep: bool, now: Callable[[], float] = time.monotonic) -> None:
        self._longest, self._asleep, self._now = _STEPS * step_s, asleep, now
        self._looked, self._received = now(), -1
        self.for_s = 0.0
        """Time without a message, less what the watcher was held up itself."""
        self.free_s = 0.0
        """The part of it in which one could have arrived."""

    def look(self, received: int, got: Mapping[str, tuple[int, int]], *, stopped: bool) -> None:
        """Look once.

        Args:
            received: messages so far.
            got: by part, ns on a CPU and ns runnable without one since the look before.
            stopped: whether a part stands still by a signal.
        """
        now = self._now()
        step, self._looked = now - self._looked, now
        if received != self._received:
            self._received, self.for_s, self.free_s = received, 0.0, 0.0
            return
        self.for_s += min(step, self._longest)
        if stopped or step > self._longest:
            return
        others = [times for name, times in got.items() if name != "sender"]
        ran = sum(ran for ran, _ in others) / 1e9
        if self._asleep and ran >= _AT_WORK * step:
            return
        self.free_s += max(0.0, step - max((waited for _, waited in others), default=0) / 1e9)
