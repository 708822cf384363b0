"""What event traces say of a pipeline: how long events waited in each queue, and were served at each stage.

A stage's service time is from the moment it took an event out of a queue to the moment it put it into the
next one (or was done with it); by the wall clock, so it holds what the scheduler took away meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latlab.formats.event_traces.files import FINISHED

__all__ = ["Residence", "TraceTable", "residence"]

_TIME_BITS = 40  # of a run: 18 minutes in ns


@dataclass(frozen=True, slots=True)
class TraceTable:
    """All trace records of a run, as columns of equal length.

    Attributes:
        event: the event's identity.
        push_ns: put into the queue; of an end, when the event ended.
        pop_ns: taken out; likewise.
        source: type of the stage that put it in ("" where unknown); of an end, "".
        drain: label of the stage instance that took it out, or at which it ended.
        queue: the queue's name; "" of an end.
        end: 0, or how the event ended (`formats.event_traces.files.FINISHED`, `FILTERED`).
    """

    event: NDArray[np.uint64]
    push_ns: NDArray[np.int64]
    pop_ns: NDArray[np.int64]
    source: NDArray[np.str_]
    drain: NDArray[np.str_]
    queue: NDArray[np.str_]
    end: NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class Residence:
    """Times from traces, in ns, unsorted.

    Attributes:
        waiting: by queue.
        service: by stage instance.
        service_at: by stage instance, when each was taken out of its queue.
        end_to_end: of the events that reached the end.
        end_to_end_at: when each of those began.
    """

    waiting: Mapping[str, NDArray[np.int64]]
    service: Mapping[str, NDArray[np.int64]]
    service_at: Mapping[str, NDArray[np.int64]]
    end_to_end: NDArray[np.int64]
    end_to_end_at: NDArray[np.int64]


def residence(traces: TraceTable, stages: Mapping[str, Sequence[str]]) -> Residence:
    """Waiting times, service times and end-to-end latency of traced events.

    Args:
        traces: of all processes.
        stages: the instances of each type of stage.

    Returns:
        The times; a stage or queue without a traced event is left out.
    """
    hops = traces.end == 0
    waiting = {
        str(name): (traces.pop_ns - traces.push_ns)[hops & (traces.queue == name)]
        for name in np.unique(traces.queue[hops])
    }
    _, event = np.unique(traces.event, return_inverse=True)
    origin = int(traces.push_ns.min(initial=np.iinfo(np.int64).max)) if event.size else 0
    key_of_pop = (event.astype(np.int64) << _TIME_BITS) + (traces.pop_ns - origin)
    key_of_push = (event.astype(np.int64) << _TIME_BITS) + (traces.push_ns - origin)
    service: dict[str, NDArray[np.int64]] = {}
    service_at: dict[str, NDArray[np.int64]] = {}
    for kind, instances in stages.items():
        taken = hops & np.isin(traces.drain, list(instances))
        if not taken.any():
            continue
        order = np.argsort(key_of_pop[taken], kind="stable")
        pops = key_of_pop[taken][order]
        who = traces.drain[taken][order]
        at = traces.pop_ns[taken][order]
        # What left the stage: into a next queue, or at its end. It belongs to the latest taking before it.
        left = (hops & (traces.source == kind)) | (~hops & np.isin(traces.drain, list(instances)))
        keys = np.sort(key_of_push[left])
        index = np.searchsorted(pops, keys, side="right") - 1
        same = index >= 0
        same[same] = (pops[index[same]] >> _TIME_BITS) == (keys[same] >> _TIME_BITS)
        # With a fan-out an event leaves several times; it has been served when it leaves for the last time.
        last = np.append(index[1:] != index[:-1], True) if index.size else np.empty(0, bool)
        kept = same & last
        times = keys[kept] - pops[index[kept]]
        for name in instances:
            mine = who[index[kept]] == name
            if mine.any():
                service[name] = times[mine]
                service_at[name] = at[index[kept]][mine]
    ended = traces.end == FINISHED
    began = np.full(int(event.max(initial=-1)) + 1, np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(began, event[hops], traces.push_ns[hops])
    known = ended & (began[event] != np.iinfo(np.int64).max) if event.size else ended
    return Residence(
        waiting=waiting,
        service=service,
        service_at=service_at,
        end_to_end=traces.pop_ns[known] - began[event[known]],
        end_to_end_at=began[event[known]],
    )
