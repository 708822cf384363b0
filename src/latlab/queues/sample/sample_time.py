"""How long it takes to sample one queue, against where its counts lie in memory."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from latlab._core import clock as core_clock
from latlab._core import queues as core
from latlab.model.queues.overhead import SampleTime
from latlab.queues.sample.follow import Follower, Target, require
from latlab.stats.quantiles import quantiles

__all__ = ["sample_times"]

_APART_S = 50e-6  # between two looks, so that the application writes the counts anew meanwhile
_LOOKS_A_DRAIN = 256


def sample_times(targets: Sequence[Target], seconds: float) -> tuple[SampleTime, ...]:
    """Look at each queue alone, in turn, while the application works.

    A look is what the sampler does for one queue at one period; what a look at no queue takes (two readings
    of the clock) is measured in between and subtracted from the quantiles.

    Args:
        targets: process ids or names of applications.
        seconds: for which it looks; the processes should live as long.

    Raises:
        InputError: nothing matches the targets.
    """
    follower = Follower(targets)
    follower.refresh()
    require(follower, targets)
    readers, versions, planned = follower.plan()
    samplers = []
    for plan in ([], *([one] for one in planned)):
        sampler = core.Sampler(stamp_every=1, chunk_samples=1024, chunks=4)
        sampler.set_plan(readers, versions, plan)
        samplers.append(sampler)
    reference = core_clock.reference()[:2]
    taken: list[list[NDArray[np.uint32]]] = [[] for _ in samplers]
    until, looks = time.monotonic() + seconds, 0
    time.sleep(0.01)  # the rate of the counter is measured over at least this
    later = core_clock.reference()[:2]
    hz = (later[0] - reference[0]) * 1e9 / max(1, later[1] - reference[1])
    while time.monotonic() < until:
        for sampler in samplers:
            sampler.sweep()
            time.sleep(_APART_S)
        looks += 1
        if looks % _LOOKS_A_DRAIN == 0:
            _drain(samplers, taken, reference, hz)
    _drain(samplers, taken, reference, hz)
    empty, *rest = (np.concatenate(parts) if parts else np.empty(0, np.uint32) for parts in taken)
    nothing = float(np.median(empty)) if len(empty) else 0.0
    found = []
    for (number, _, producers, consumers), times in zip(planned, rest, strict=True):
        if not len(times):
            continue
        queue = follower.queues[number]
        reader_index, slot, _ = (producers or consumers)[0]
        header = readers[reader_index].header()
        p50, p99 = (max(0.0, value - nothing) for value in quantiles(times, (0.5, 0.99)))
        found.append(
            SampleTime(
                queue=queue.name,
                pid=header["pid"],
                slot=slot,
                offset_bytes=header["queue_counts_offset"] + slot * header["queue_counts_bytes"],
                parts=len({*producers, *consumers}),
                looks=len(times),
                p50_ns=p50,
                p99_ns=p99,
            )
        )
    return tuple(sorted(found, key=lambda item: (item.pid, item.offset_bytes)))


def _drain(
    samplers: Sequence[core.Sampler],
    taken: list[list[NDArray[np.uint32]]],
    reference: tuple[int, int],
    hz: float,
) -> None:
    for sampler, parts in zip(samplers, taken, strict=True):
        sampler.flush()
        parts += [sweeps["duration_ns"] for _, sweeps, _ in sampler.drain(*reference, hz)]
