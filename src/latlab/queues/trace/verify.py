"""Samples held against event traces: the proof that sampling from outside tells the truth.

At the time T of a sample, the traced events with push ≤ T ≤ pop were in the queue. A sample contradicts the
traces when it shows fewer events than that or, where every event is traced, more. A traced event whose push
or pop is T exactly, or less than a step of the clock beside it, may be on either side of it: contradictions
that such a tie explains are counted apart.

The stamps of a trace enclose the event's time in the queue (push is taken before it is put in, pop after it
is taken out), and a sample is read within an interval, so that only events that were inside for the whole
interval count against it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.errors import InputError
from latlab.model.queues.observation import Observation

__all__ = ["QueueSamples", "SampleDiscrepancy", "Verification", "verify", "verify_recording"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class QueueSamples:
    """Samples of one queue.

    Attributes:
        t_ns, t_end_ns: shape (samples,): the counts were read between these; equal where it was one instant.
        low, high: shape (samples,): bounds of the fill.
        counted: events that the queue counted from the first to the last sample.
    """

    t_ns: Ints
    t_end_ns: Ints
    low: Ints
    high: Ints
    counted: int


@dataclass(frozen=True)
class SampleDiscrepancy:
    """A sample that contradicts the traces.

    Attributes:
        sampled: (at least, at most) events in the queue by the sample.
        traced: events in the queue by the traces.
        events: (push, pop) of the traced events that were inside.
        queue: its name; "" where there is but one.
        after_gap: the sampler had just missed a period.
    """

    t_ns: int
    sampled: tuple[int, int]
    traced: int
    events: tuple[tuple[int, int], ...]
    queue: str = ""
    after_gap: bool = False


@dataclass(frozen=True)
class Verification:
    """Samples against traces.

    Attributes:
        traces: traced stays in a queue.
        samples: that were held against them.
        discrepancies: samples that contradict the traces.
        rate: discrepancies a sample; 0 without samples.
        ties: contradictions that events at T exactly explain.
        mean_residence_ns: of all traced stays, from push to pop; None without any.
        mean_residence_of_discrepant_ns: of those that were inside at a discrepancy; None without any.
        sum_sampled: of the fills of all samples (at least, at most), less the control events.
        sum_traced: of the traced events inside, over all samples.
        events_counted: that the queues counted meanwhile, less the control events.
        complete: every event is traced, so that samples may not show more either.
    """

    traces: int
    samples: int
    discrepancies: int
    rate: float
    ties: int
    mean_residence_ns: float | None
    mean_residence_of_discrepant_ns: float | None
    sum_sampled: tuple[int, int]
    sum_traced: int
    events_counted: int
    control_events: int
    complete: bool
    found: tuple[SampleDiscrepancy, ...]

    def to_json(self) -> dict[str, Any]:
        """The machine contract of `latlab queues verify --json`."""
        return {"schema": 1, **asdict(self)}


def verify(
    push_ns: Ints,
    pop_ns: Ints,
    samples: QueueSamples,
    *,
    complete: bool | None = None,
    control_events: int = 0,
    queue: str = "",
    gaps_end_ns: Ints | None = None,
    clock_step_ns: int = 0,
) -> Verification:
    """Hold one queue's samples against the traced stays in it.

    Args:
        push_ns, pop_ns: shape (stays,).
        complete: whether every event is traced; None: where there are as many traces as counted events.
        control_events: events that were counted and are not of the traced kind.
        queue: its name, for the discrepancies.
        gaps_end_ns: when the sampler was back after missed periods.
        clock_step_ns: of both stamps; 0: they are exact.
    """
    stays = len(push_ns)
    events = max(0, samples.counted - control_events)
    if complete is None:
        complete = 0 < events <= stays
    begin, end, low, high = samples.t_ns, samples.t_end_ns, samples.low, samples.high
    push, pop = np.sort(push_ns), np.sort(pop_ns)

    def pushed(at: Ints, side: Any) -> Ints:
        return np.searchsorted(push, at, side=side).astype(np.int64)

    def popped(at: Ints, side: Any) -> Ints:
        return np.searchsorted(pop, at, side=side).astype(np.int64)

    # Inside for all of [begin, end], ends included, and inside at any moment of it. The first is a lower
    # bound where an event came and went within the interval.
    surely = np.maximum(pushed(begin, "right") - popped(end, "left"), 0)
    at_most = pushed(end, "right") - popped(begin, "left")
    # Before the first push and after the last pop the tracer may not have run: nothing is missing there.
    traced = (end >= push[0]) & (begin <= pop[-1]) if stays else np.zeros(len(begin), np.bool_)
    wrong = (surely > high) | (traced & (at_most < low) & complete)
    # Without the events whose push or pop falls on the sample itself.
    apart = max(1, clock_step_ns)
    strictly = np.maximum(pushed(begin - apart, "right") - popped(end + apart, "left"), 0)
    tied = wrong & (surely > high) & (strictly <= high)
    wrong &= ~tied
    found = tuple(
        _discrepancy(int(i), begin, end, low, high, surely, push_ns, pop_ns, queue, gaps_end_ns)
        for i in np.flatnonzero(wrong)
    )
    discrepant = {event for discrepancy in found for event in discrepancy.events}
    count = len(begin)
    return Verification(
        traces=stays,
        samples=count,
        discrepancies=len(found),
        rate=len(found) / count if count else 0.0,
        ties=int(tied.sum()),
        mean_residence_ns=float((pop_ns - push_ns).mean()) if stays else None,
        mean_residence_of_discrepant_ns=(
            float(np.mean([p - s for s, p in discrepant])) if discrepant else None
        ),
        sum_sampled=(int(low.sum()) - control_events, int(high.sum()) - control_events),
        sum_traced=int(surely.sum()),
        events_counted=events,
        control_events=control_events,
        complete=bool(complete),
        found=found,
    )


def _discrepancy(
    i: int,
    begin: Ints,
    end: Ints,
    low: Ints,
    high: Ints,
    traced: Ints,
    push_ns: Ints,
    pop_ns: Ints,
    queue: str,
    gaps_end_ns: Ints | None,
) -> SampleDiscrepancy:
    at = np.flatnonzero((push_ns <= begin[i]) & (pop_ns >= end[i]))
    events = tuple((int(push_ns[j]), int(pop_ns[j])) for j in at)
    after_gap = False
    if gaps_end_ns is not None and len(gaps_end_ns):
        nearest = int(np.searchsorted(gaps_end_ns, end[i], side="right")) - 1
        after_gap = nearest >= 0 and bool(begin[i] - gaps_end_ns[nearest] < 1_000_000)
    return SampleDiscrepancy(
        int(begin[i]), (int(low[i]), int(high[i])), int(traced[i]), events, queue, after_gap
    )


def verify_recording(
    observation: Observation, traces: dict[str, NDArray[Any]], *, every: int = 0, control_events: int = 0
) -> Verification:
    """Hold all samples of a recording against its series of traces.

    Args:
        traces: columns queue (-1: of no queue), push_ns, pop_ns.
        every: one event in this many was traced; 0: unknown.
        control_events: as in `verify`, over all queues.

    Raises:
        InputError: when no trace is of an observed queue.
    """
    parts = []
    gaps = np.sort(observation.gaps["to_ns"]) if observation.gaps else None
    samples = observation.samples
    for queue in observation.queues:
        mine = traces["queue"] == queue.number
        rows = np.flatnonzero(samples["queue"] == queue.number)
        if not mine.any() or not len(rows):
            continue
        counts = {name: samples[name][rows].astype(np.int64) for name in ("in", "out_low", "out_high")}
        view = QueueSamples(
            samples["t_ns"][rows].astype(np.int64),
            samples["t_end_ns"][rows].astype(np.int64),
            np.maximum(counts["in"] - counts["out_high"], 0),
            np.maximum(counts["in"] - counts["out_low"], 0),
            int(counts["in"][-1] - counts["in"][0]),
        )
        push, pop = (traces[name][mine].astype(np.int64) for name in ("push_ns", "pop_ns"))
        # Of a part of the events nothing can be said about samples that show more.
        parts.append(
            verify(
                push,
                pop,
                view,
                complete=every == 1,
                queue=queue.name,
                gaps_end_ns=gaps,
                clock_step_ns=observation.clock_step_ns,
            )
        )
    if not parts:
        raise InputError(
            "traces", "no trace is of an observed queue", remedy="trace events while they are recorded"
        )
    return _joined(parts, control_events)


def _joined(parts: list[Verification], control_events: int) -> Verification:
    samples, discrepancies = sum(p.samples for p in parts), sum(p.discrepancies for p in parts)
    traces = sum(p.traces for p in parts)
    residence = sum((p.mean_residence_ns or 0.0) * p.traces for p in parts)
    found = tuple(discrepancy for part in parts for discrepancy in part.found)
    discrepant = {(d.queue, event) for d in found for event in d.events}
    return Verification(
        traces=traces,
        samples=samples,
        discrepancies=discrepancies,
        rate=discrepancies / samples if samples else 0.0,
        ties=sum(p.ties for p in parts),
        mean_residence_ns=residence / traces if traces else None,
        mean_residence_of_discrepant_ns=(
            float(np.mean([pop - push for _, (push, pop) in discrepant])) if discrepant else None
        ),
        sum_sampled=(
            sum(p.sum_sampled[0] for p in parts) - control_events,
            sum(p.sum_sampled[1] for p in parts) - control_events,
        ),
        sum_traced=sum(p.sum_traced for p in parts),
        events_counted=sum(p.events_counted for p in parts) - control_events,
        control_events=control_events,
        complete=all(p.complete for p in parts),
        found=found,
    )
