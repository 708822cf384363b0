"""Time in which latlab or what it measures was stopped, and which no budget and no time limit counts.

Job control that stops a whole tree, a suspended machine, or a neighbour's `kill -STOP` may take minutes from
a budget of seconds. Who waits for a process notices it: it looks four times a second, and where it comes back
much later, or finds the process stopped, nothing was measured meanwhile.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["Watch", "awake"]

_SLICE_S = 0.25
# A busy machine may keep a thread of the ordinary class waiting as long as this.
_LATE_S = 1.0
_stood_s = 0.0


def awake() -> float:
    """Seconds of a monotonic clock that stands still for as long as a `Watch` saw that everything did."""
    return time.monotonic() - _stood_s


class Watch:
    """Waits for processes from now on, and knows how long everything stood still.

    Attributes:
        timeout_s: time limit of all processes together.
        lost_s: seconds that don't count.
    """

    def __init__(self, timeout_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.timeout_s, self.lost_s = timeout_s, 0.0
        self._left_s, self._clock, self._seen = timeout_s, clock, clock()

    def output(
        self, process: subprocess.Popen[bytes], beside: Sequence[subprocess.Popen[bytes]] = ()
    ) -> tuple[bytes, bytes]:
        """What a process wrote, as `communicate`.

        Args:
            process: which is waited for.
            beside: those that run at the same time, of which it may wait for one.

        Raises:
            subprocess.TimeoutExpired: it has not ended, and the time limit is spent.
        """
        self._count(0.0, stopped=False)
        while True:
            wait_s = min(_SLICE_S, max(0.0, self._left_s))
            try:
                written = process.communicate(timeout=wait_s)
            except subprocess.TimeoutExpired:
                expired = self._left_s <= 0
                self._count(wait_s, stopped=any(_stopped(p.pid) for p in (process, *beside)))
                if expired and self._left_s <= 0:
                    raise
            else:
                self._count(wait_s, stopped=False)
                return written

    def _count(self, wait_s: float, *, stopped: bool) -> None:
        """Count the time since the last look, of which `wait_s` was asked for."""
        global _stood_s
        now = self._clock()
        took, self._seen = now - self._seen, now
        lost = took if stopped else took - wait_s if took > wait_s + _LATE_S else 0.0
        _stood_s += lost
        self.lost_s += lost
        self._left_s -= took - lost


def _stopped(pid: int) -> bool:
    """Whether a signal or a tracer has stopped a process."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False  # it has just ended
    return state in ("T", "t")
