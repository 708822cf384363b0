"""What the evidence of a verdict says, from the numbers that it was judged by."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from latlab.model.evidence.queues import QueueEvidence
from latlab.model.evidence.said import said
from latlab.model.queues.analysis import Period, QueueResult
from latlab.model.queues.observation import SEVERAL, Observation, QueueKind
from latlab.queues.judge.measures.measured import Measured
from latlab.queues.judge.measures.stages import StageView
from latlab.queues.judge.measures.threads import every_thread
from latlab.queues.judge.ranking import Ranking
from latlab.queues.judge.stopped import Stopped
from latlab.schedule.interpreter_lock import takes_one_cpu
from latlab.words import duration, share

__all__ = [
    "around",
    "burst_sentence",
    "cpu_sentence",
    "lock_sentence",
    "longest_period",
    "moving_sentence",
    "overflowing",
    "ranking_sentence",
    "stopped_sentence",
    "thread_sentence",
    "without_cpu",
]

_SMALLEST_BURST = 4  # a queue of fewer is full in passing
_OVERFULL = 0.005  # of the time: then bursts are too large for a queue, though its stage is fast enough
_SATURATED = 0.8  # of all CPUs
_ASLEEP = 1.5  # times as long as it runs, or would, who waits for a lock is busy
_KEPT_WAITING = 0.25  # of its busy time, a stage without a CPU: then the scheduler may be the finding
_SEGMENTS = 12  # of the timeline


def thread_sentence(measured: Measured, stage: int) -> list[str]:
    """What the kernel says of the thread of a stage; nothing where that is unknown."""
    thread = measured.threads.get(measured.views[stage].label)
    if thread is None:
        return []
    times = {"ran": thread.cpu, "waited": thread.wait, "preempted": thread.involuntary_hz}
    return [said(QueueEvidence.THREAD, **times)]


def ranking_sentence(measured: Measured, ranking: Ranking) -> str:
    """How busy the first two stages are, by what, and how likely equal stages lead so."""
    first = ranking.order[0]
    # What is compared may be normalised to the events of the whole; what is said is of the time.
    shares = measured.work.sum(axis=1) / max(float(measured.time.sum()), 1e-12)
    if measured.work is not measured.demand:
        # As its service is told: with the time in which it has an event, and says that it is idle.
        whole = np.minimum(shares * measured.stretch, 1.0)
        shares = whole if whole[first] >= whole[list(ranking.order[:2])].max() else shares
    label = measured.views[first].label
    text = f"{label} was busy {share(shares[first])} of the time"
    if len(ranking.order) > 1:
        second = ranking.order[1]
        text += f", {measured.views[second].label} {share(shares[second])}"
    how = "its own times" if label in measured.own else "the counts around it"
    if measured.work is measured.demand:
        text, how = text.replace(" was busy ", " needs a CPU ", 1), "the CPU time of its thread"
    elif without_cpu(measured)[first] > 0:
        how += ", less the time that its thread had no CPU"
    if ranking.by_chance < 0.001:
        return said(QueueEvidence.BUSY_SURELY, busiest=text, how=how)
    return said(QueueEvidence.BUSY, busiest=text, how=how, chance=1 / ranking.by_chance)


def around(view: StageView, queues: tuple[QueueResult, ...]) -> list[str]:
    """What stood in the queues around a stage, and how far back they are full."""
    sentences: list[str] = []
    for row in view.inputs:
        queue = queues[row]
        fill = {"queue": queue.name, "fill": queue.mean_fill}
        if queue.capacity:
            bounds = {"capacity": queue.capacity, "full": queue.full}
            sentences.append(said(QueueEvidence.INPUT_BOUNDED, **bounds, **fill))
        elif queue.kind == QueueKind.UNBOUNDED:
            grows = queue.growth_hz > 0
            kind = QueueEvidence.INPUT_GROWS if grows else QueueEvidence.INPUT_SHRINKS
            change = {"growth": queue.growth_hz} if grows else {"fall": -queue.growth_hz}
            sentences.append(said(kind, **change, **fill))
        else:
            sentences.append(said(QueueEvidence.INPUT, **fill))
    for row in view.outputs:
        queue = queues[row]
        filled = queue.nonempty_samples[0] / max(1, queue.samples)
        sentences.append(said(QueueEvidence.OUTPUT, queue=queue.name, empty=1 - filled))
    chain = _backpressure(view, queues)
    if len(chain) > 1:
        sentences.append(said(QueueEvidence.BACK_PRESSURE, queues=", ".join(chain)))
    return sentences[:6]


def _backpressure(view: StageView, queues: tuple[QueueResult, ...]) -> list[str]:
    """Queues in front of a stage, and in front of those who fill them, that are full for 5 % of the time."""
    full: dict[str, list[QueueResult]] = {}
    for queue in queues:
        if queue.full >= 0.05:
            full.setdefault(queue.drain, []).append(queue)
    chain: dict[str, None] = {}
    labels = deque([view.label])
    while labels:
        for queue in full.get(labels.popleft(), ()):
            if queue.name not in chain:
                chain[queue.name] = None
                labels.extend(queue.source.split(SEVERAL))
    return list(chain)


def overflowing(queues: tuple[QueueResult, ...]) -> QueueResult | None:
    """The queue that an input seems to have risen above the most, or None."""
    drains = {queue.drain for queue in queues if queue.drain}
    hurt = [
        queue
        for queue in queues
        if queue.kind != QueueKind.POOL
        and queue.source != queue.drain
        and (queue.dropped or (queue.full >= _OVERFULL and _rose(queue, drains)))
    ]
    return max(hurt, key=lambda queue: (queue.dropped, queue.blocked, queue.full)) if hurt else None


def burst_sentence(queues: tuple[QueueResult, ...]) -> str | None:
    """The sentence about an input that rose above a queue, or None."""
    worst = overflowing(queues)
    if worst is None:
        return None
    effect = (
        f"{worst.dropped:,} events were dropped"
        if worst.dropped
        else f"it was full {share(worst.full, digits=2)} of the time"
    )
    fills = {"capacity": worst.capacity, "fill": worst.mean_fill, "p99": worst.fill_p99}
    return said(QueueEvidence.OVERFLOWS, queue=worst.name, effect=effect, **fills)


def _rose(queue: QueueResult, drains: set[str]) -> bool:
    """An input of the line was low for half of the time, and rose above what its queue holds.

    What fills a queue further back is a stage; and round a circle, the window of what may be under way.
    """
    return (
        queue.capacity >= _SMALLEST_BURST
        and queue.fill_p50 <= queue.capacity / 2
        and drains.isdisjoint(queue.source.split(SEVERAL))
    )


def cpu_sentence(observation: Observation, window: tuple[int, int]) -> str | None:
    """The sentence that convicts the machine, or None: the application's threads use the CPUs, and wait for
    them.
    """
    shares = every_thread(observation, window)
    if not shares or not observation.cpus:
        return None
    used, waited = sum(s.cpu for s in shares), sum(s.wait for s in shares)
    if used < _SATURATED * observation.cpus or waited < _KEPT_WAITING:
        return None
    return said(QueueEvidence.MACHINE_FULL, used=used, cpus=observation.cpus, waiting=waited)


def lock_sentence(observation: Observation, measured: Measured, window: tuple[int, int]) -> str | None:
    """The sentence that convicts the interpreter's lock, or None.

    The threads of one Python process take one CPU together, and the stage that needs most of it is busy for
    much longer than it runs or waits for a CPU: it sleeps until it gets the lock.
    """
    python = all(queue.of_python for queue in observation.queues if queue.drain)
    if len(observation.processes) != 1 or not python:
        return None
    used = sum(shares.cpu for shares in every_thread(observation, window))
    first = int(measured.demand.sum(axis=1).argmax())
    thread = measured.threads.get(measured.views[first].label)
    if not takes_one_cpu(used) or thread is None or not measured.exact.all():
        return None
    busy = float(measured.busy[first].sum() / measured.time.sum())
    if busy < _ASLEEP * (thread.cpu + thread.wait):
        return None
    label = measured.views[first].label
    return said(QueueEvidence.INTERPRETER_LOCK, used=used, stage=label, busy=busy, runs=thread.cpu)


def stopped_sentence(label: str, stopped: Stopped, window: tuple[int, int]) -> str:
    """Since when a stage takes nothing, and what waits for it."""
    since_s, for_s = (stopped.since_ns - window[0]) / 1e9, (window[1] - stopped.since_ns) / 1e9
    if stopped.ended:
        return said(QueueEvidence.ENDED, stage=label, since_s=since_s, for_s=for_s, waiting=stopped.waiting)
    return said(
        QueueEvidence.STOPPED,
        stage=label,
        since_s=since_s,
        for_s=for_s,
        waiting=stopped.waiting,
        state=": its thread lives and does not run" if stopped.ended is False else "",
    )


def moving_sentence(timeline: tuple[Period, ...]) -> str | None:
    """The sentence about a bottleneck that moves; None where it does not.

    It moves where two stages each limit for at least two twelfths of the run.
    """
    total = sum(period.to_ns - period.from_ns for period in timeline)
    times: dict[str, int] = {}
    for period in timeline:
        if period.stage is not None:
            times[period.stage] = times.get(period.stage, 0) + period.to_ns - period.from_ns
    long = [stage for stage, time in times.items() if time >= 1.9 * total / _SEGMENTS]
    if len(long) < 2:
        return None
    start = timeline[0].from_ns
    stretches = ", ".join(
        f"{period.stage} from {duration(period.from_ns - start)} to {duration(period.to_ns - start)}"
        for period in timeline
        if period.stage is not None
    )
    return said(QueueEvidence.MOVES, stretches=stretches)


def longest_period(timeline: tuple[Period, ...]) -> tuple[str, float]:
    """The stage that limits for the longest, and its share of the time."""
    times: dict[str, int] = {}
    for period in timeline:
        if period.stage is not None:
            times[period.stage] = times.get(period.stage, 0) + period.to_ns - period.from_ns
    total = sum(period.to_ns - period.from_ns for period in timeline)
    label = max(times, key=lambda name: times[name])
    return label, times[label] / total


def without_cpu(measured: Measured) -> NDArray[np.float64]:
    """Shape (stages,): the share of the time in which a stage was busy and its thread had no CPU."""
    waited: NDArray[np.float64] = (measured.busy - measured.work).sum(axis=1) / measured.time.sum()
    return waited
