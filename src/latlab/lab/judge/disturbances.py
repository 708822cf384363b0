"""What disturbed a run, in words: stages that stood still, a queue that is too small, the largest burst."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latlab.errors import NotTrustworthyError
from latlab.model.diagnosis.pipeline import QueueRow
from latlab.model.evidence.pipeline import Disturbance, Loss, RunDoubt, RunFinding
from latlab.model.evidence.said import said
from latlab.model.queues.analysis import Analysis, SocketResult, Stall, Verdict
from latlab.model.queues.observation import Observation
from latlab.queues import stalls

__all__ = [
    "burst_in_words",
    "losses_in_words",
    "stalls_in_words",
    "unanswered",
    "with_cause",
]

_LOOKS = 11  # at a stall
_FULL = 0.98  # of the capacity: a queue that is counted in batches may show a little less
_BLOCKED = 0.5  # of the looks
_NO_CPU = 0.5  # of a stall: for so much of it the thread was ready and had none


def unanswered(verdict: str, found: Analysis) -> tuple[str, ...]:
    """Why what was observed carries no answer, so that nothing may rely on it; empty where it does.

    Args:
        verdict: the last word on what limits; others than the analysis may have had it.
        found: whose evidence says why; its doubts speak for themselves.
    """
    if verdict != Verdict.UNKNOWN or found.doubts:
        return ()
    why = f": {found.evidence[-1]}" if found.evidence else ""
    return (said(RunDoubt.UNKNOWN, why=why),)


def with_cause(sentence: str, limiting: str | None, found: Analysis, stood: Sequence[str]) -> str:
    """The sentence; where no stage limits, with what disturbed: one that stood still, a queue too small.

    Args:
        stood: from `stalls_in_words`.
    """
    if limiting is not None or found.doubts or found.lines:
        return sentence
    if stood:
        return said(RunFinding.BUT, sentence=sentence, stall=stood[0])
    if found.verdict == Verdict.BURST:
        hit = [queue for queue in found.queues if queue.capacity and (queue.dropped or queue.blocked)]
        if hit:
            # The one that is full the longest for its size: those behind it are full since it is.
            small = min(hit, key=lambda queue: (queue.capacity, -queue.full))
            lost = f", and lost {small.dropped:,}" if small.dropped else ""
            times = f"{small.blocked:,} times" if small.blocked else "at times"
            full = {"capacity": small.capacity, "times": times, "lost": lost}
            return said(RunFinding.OVERFLOWS, sentence=sentence, queue=small.name, **full)
    return sentence


def stalls_in_words(observation: Observation) -> tuple[str, ...]:
    """Stages that stood still, in words, the longest first; at most five."""
    try:
        found = stalls(observation)
    except NotTrustworthyError:
        return ()
    found = tuple(stall for stall in found if not _blocked(stall, observation))
    begin = int(observation.sweeps["t_ns"][0]) if observation.sweeps["t_ns"].size else 0
    # One that nobody kept from running is somebody's doing; the others are the scheduler's, and come after.
    found = tuple(sorted(found, key=lambda stall: (stall.without_cpu or 0.0) >= _NO_CPU))
    return tuple(
        said(
            Disturbance.STOOD_STILL,
            stage=stall.stage,
            ns=stall.to_ns - stall.from_ns,
            begin_ns=stall.from_ns - begin,
            fill=stall.fill,
            queue=stall.queue,
            why=_why(stall),
        )
        for stall in found[:5]
    )


def _blocked(stall: Stall, observation: Observation) -> bool:
    """It could not put its results on: then it is not the one that stood still, but one behind it."""
    samples = observation.samples
    times = np.linspace(stall.from_ns, stall.to_ns, _LOOKS)
    for queue in observation.queues:
        if queue.source != stall.stage or not queue.capacity:
            continue
        rows = np.flatnonzero(samples["queue"] == queue.number)
        at = np.searchsorted(samples["t_ns"][rows], times, side="right") - 1
        seen = rows[at[at >= 0]]
        fill = samples["in"][seen].astype(np.int64) - samples["out_high"][seen].astype(np.int64)
        if seen.size and float((fill >= _FULL * queue.capacity).mean()) >= _BLOCKED:
            return True
    return False


def losses_in_words(
    queues: Sequence[QueueRow], limiting: str | None, sockets: Sequence[SocketResult] = ()
) -> tuple[str, ...]:
    """Queues that overran, and what they lost, the most first; before them what the kernel dropped."""
    since = "" if limiting is None else said(Loss.CANNOT_KEEP_UP, stage=limiting)
    kernel = tuple(
        said(Loss.KERNEL, dropped=socket.dropped, socket=socket.name, since=since)
        for socket in sockets
        if socket.dropped
    )
    return kernel + tuple(
        said(
            Loss.DROPPED,
            part=queue.drops / (queue.events_in + queue.drops),
            queue=queue.name,
            since=since,
            dropped=queue.drops,
            offered=queue.events_in + queue.drops,
        )
        for queue in sorted(queues, key=lambda queue: -queue.drops)
        if queue.drops
    )


def _why(stall: Stall) -> str:
    if stall.without_cpu is None:
        return said(Disturbance.NOT_KNOWN)
    if stall.without_cpu >= _NO_CPU:
        return said(Disturbance.NO_CPU, part=stall.without_cpu)
    return said(Disturbance.DID_NOT_ASK)


def burst_in_words(found: Analysis) -> str | None:
    """Where the burst sat that was largest against its queue's usual fill, and the queues that it reached."""
    names = {queue.number: queue.name for queue in found.queues}
    bursts = {
        (queue.number, burst.from_ns): (queue, burst) for queue in found.queues for burst in queue.bursts
    }
    if not bursts:
        return None
    queue, burst = max(bursts.values(), key=lambda pair: pair[1].height / max(pair[0].mean_fill, 1.0))
    way, at = [queue.name], burst
    while at.next_queue is not None and names[at.next_queue] not in way:
        way.append(names[at.next_queue])
        later = [
            b for (number, _), (_, b) in bursts.items() if number == at.next_queue and b.from_ns >= at.from_ns
        ]
        if not later:
            break
        at = min(later, key=lambda candidate: candidate.from_ns)
    after = said(Disturbance.WENT_ON, queues=", ".join(way[1:])) if len(way) > 1 else ""
    return said(
        Disturbance.BURST,
        queue=queue.name,
        height=burst.height,
        ns=burst.to_ns - burst.from_ns,
        begin_ns=burst.from_ns - found.from_ns,
        after=after,
    )
