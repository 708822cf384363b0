"""How long the turns of a pair are, and how much of each isn't measured: until a side's data are in the
caches again, as they are where it runs alone.

What the other side displaced comes back within some iterations. Whoever measures those measures colder caches
than a user has: a walk through 4 MB took seven times as long in turns of one call as alone, so that a change
of its instructions would have been a seventh of what it is.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from latlab.model.bench import Sample

__all__ = ["kept", "longer", "probed_length", "settled_turn", "turn_of"]

# A processor's frequency wanders by 0.2 % within 0.1 ms and by 1 % within 10 (measured on a shared machine),
# so turns are short. What the other side left in the caches is displaced in some tens of microseconds, and
# the branches that it taught the processor (lookups in a map took 28 us instead of 16 then) in a hundred.
TURN_S, COLD_S = 100e-6, 100e-6
LONG_S = 300e-6  # iterations that are warm after a part of themselves, where little lies in the caches
# The turns that are looked at: a second-level cache of 1 MB is filled from the next within a millisecond or
# two (of objects all over the memory in six), and what is much larger is displaced for good.
PROBED_S, PROBED_TURNS, _FEWEST_PROBED = 12e-3, 6, 4
_SETTLED = 0.02
# A walk through 4 MB takes 10 to 20 ms until it is as fast as alone (three tours, since the third level keeps
# what the second displaces): turns that haven't settled are measured again, so many times as long.
_LONGER = 4


def turn_of(iteration_s: float) -> tuple[int, int]:
    """(measured iterations of a turn, unmeasured ones before them), by the seconds of an iteration."""
    length = max(1, math.ceil(TURN_S / iteration_s))
    return length, math.ceil(COLD_S / iteration_s) if iteration_s < LONG_S else 0


def probed_length(iteration_s: float, seconds: float) -> int:
    """Iterations of a turn that is looked at as a whole; 0 where both sides' turns would take longer."""
    longest_s = seconds / (2 * PROBED_TURNS)
    length = max(_FEWEST_PROBED, math.ceil(min(PROBED_S, longest_s) / iteration_s))
    return length if length * iteration_s <= longest_s * 1.5 else 0


def longer(samples: Sequence[Sample], length: int, iteration_s: float, seconds: float) -> int:
    """Iterations of a turn that is looked at next; 0 where no longer one is needed, or all of them would take
    longer than this many seconds.

    Args:
        samples: of both sides, by turns of which all was measured.
        length: of those turns.
        iteration_s: seconds of an iteration of a process that is alone.
        seconds: what looking may take.
    """
    if _settled_at(samples, length, iteration_s, 1 << 62) is not None:
        return 0
    turn_s = max(s.batch * s.operations * float(s.times_ns[-length:].sum()) for s in samples) * 1e-9
    # What lengthens a turn is at its end, where it is nearly as fast as alone.
    longer_s = turn_s + (_LONGER - 1) * min(turn_s, 1.5 * length * iteration_s)
    return length * _LONGER if longer_s <= seconds / (2 * PROBED_TURNS) * 1.5 else 0


def settled_turn(
    samples: Sequence[Sample], length: int, iteration_s: float, *, most: int = 1 << 62
) -> tuple[int, int]:
    """(measured iterations of a turn, unmeasured ones before them), by turns of which all was measured.

    Half of a turn at least is measured. Where no part of the turns is as fast as their last quarter, the
    sides displace each other's data for longer than a turn lasts, and turns are as short as they are
    elsewhere.

    Args:
        samples: of both sides.
        length: of their turns.
        iteration_s: seconds of an iteration.
        most: measured iterations that a turn may have.
    """
    usual, cold = turn_of(iteration_s)
    found = _settled_at(samples, length, iteration_s, most)
    return (min(most, usual), cold) if found is None else found


def _settled_at(
    samples: Sequence[Sample], length: int, iteration_s: float, most: int
) -> tuple[int, int] | None:
    usual, cold = turn_of(iteration_s)
    rows = np.vstack([s.times_ns[: len(s.times_ns) // length * length].reshape(-1, length) for s in samples])
    last = max(1, length // 4)
    course = np.median(rows / np.median(rows[:, -last:], axis=1)[:, None], axis=0)
    level = float(course[-last:].mean())
    unmeasured = cold
    while unmeasured + (measured := min(most, max(usual, unmeasured))) <= length:
        if float(course[unmeasured : unmeasured + measured].mean()) <= (1 + _SETTLED) * level:
            return measured, unmeasured
        unmeasured = max(unmeasured + 1, math.ceil(1.25 * unmeasured))
    return None


def kept(sample: Sample, length: int, turn: int, unmeasured: int) -> Sample:
    """The part of each turn that would have been measured."""
    rows = sample.times_ns[: len(sample.times_ns) // length * length].reshape(-1, length)
    times = rows[:, unmeasured : unmeasured + turn].ravel()
    return dataclasses.replace(sample, times_ns=times, turn=turn)
