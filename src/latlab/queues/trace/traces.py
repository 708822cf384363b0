"""Event traces as an application writes them (include/latlab/trace.hpp), on a recording's clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.formats.event_traces.files import NO_QUEUE, TraceFile, read_traces
from latlab.model.queues.observation import Observation
from latlab.queues.sample.recorder import Sink

__all__ = ["keep_traces", "trace_columns"]

Columns = dict[str, NDArray[Any]]
_CHUNK_ROWS = 65_536


def trace_columns(
    files: Sequence[Path],
    observation: Observation,
    clock: Mapping[str, Any],
    lanes: Sequence[Sequence[str]] = (),
) -> tuple[Columns, dict[str, int]]:
    """Traces of all processes in one table, in order of time.

    Args:
        files: a trace file a process.
        observation: whose topology names the queues.
        clock: from ticks to ns, as in a recording: `ticks`, `ns`, `hz`.
        lanes: by file, the stage that writes each lane; where it isn't known, a hop's stage is the drain of
            its queue, and the stage of an end that of the event's last hop.

    Returns:
        Columns event, push_ns, pop_ns, queue (-1 of an end), stage, end, tag; and how many records were
        `lost` for want of room, and one in how many events is traced (`every`).

    Raises:
        InputError: a file is not a trace file.
    """
    parts: list[Columns] = []
    said = {"lost": 0, "every": 0}
    until = np.iinfo(np.int64).max
    for number, file in enumerate(files):
        traces = read_traces(file)
        said["lost"] += traces.lost
        said["every"] = traces.every
        parts.append(_columns(traces, observation, lanes[number] if lanes else (), clock))
        if traces.lost:
            until = min(until, _known_until(traces, parts[-1]["pop_ns"]))
    empty: Columns = {
        "event": np.empty(0, np.uint64),
        "push_ns": np.empty(0, np.int64),
        "pop_ns": np.empty(0, np.int64),
        "queue": np.empty(0, np.int32),
        "stage": np.empty(0, "<U1"),
        "end": np.empty(0, np.uint16),
        "tag": np.empty(0, np.uint16),
    }
    columns = {name: np.concatenate([kind, *(part[name] for part in parts)]) for name, kind in empty.items()}
    order = np.argsort(columns["pop_ns"], kind="stable")
    # Behind a lost record an event seems to begin at its next hop, and to be faster than it was.
    order = order[columns["pop_ns"][order] <= until]
    columns = {name: values[order] for name, values in columns.items()}
    return (columns if lanes else _with_ends(columns)), said


def keep_traces(
    files: Sequence[Path],
    observation: Observation,
    clock: Mapping[str, Any],
    sink: Sink,
    lanes: Sequence[Sequence[str]] = (),
    *,
    since_ns: int = 0,
) -> tuple[Columns, dict[str, int]]:
    """Write the traces into a recording as the series "traces", and give what `trace_columns` does.

    Args: as of `trace_columns`; besides
        since_ns: events that ended before are left out whole.
    """
    columns, said = trace_columns(files, observation, clock, lanes)
    if since_ns:
        events, index = np.unique(columns["event"], return_inverse=True)
        over = np.zeros(len(events), np.int64)
        np.maximum.at(over, index, columns["pop_ns"])
        columns = {name: values[over[index] >= since_ns] for name, values in columns.items()}
    records = len(columns["event"])
    for begin in range(0, records, _CHUNK_ROWS):
        sink.append("traces", {name: values[begin : begin + _CHUNK_ROWS] for name, values in columns.items()})
    sink.put("traces-summary", {"schema": 1, "records": records, **said})
    return columns, said


def _known_until(traces: TraceFile, pop_ns: NDArray[np.int64]) -> int:
    """When the first lane was full: from then on events may have hops that found no room."""
    counts = np.bincount(traces.lanes)
    return min(int(pop_ns[traces.lanes == lane].max()) for lane in np.flatnonzero(counts == counts.max()))


def _columns(
    traces: TraceFile, observation: Observation, lanes: Sequence[str], clock: Mapping[str, Any]
) -> Columns:
    scale = 1e9 / clock["hz"]

    def on_the_clock(ticks: NDArray[np.uint64]) -> NDArray[np.int64]:
        since = ticks.astype(np.int64) - int(clock["ticks"])
        times: NDArray[np.int64] = int(clock["ns"]) + np.rint(since * scale).astype(np.int64)
        return times

    queue = _queue_numbers(traces, observation)
    drains = np.array([*(one.drain for one in observation.queues), ""])
    return {
        "event": traces.records["event"].astype(np.uint64),
        "push_ns": on_the_clock(traces.records["push_ticks"]),
        "pop_ns": on_the_clock(traces.records["pop_ticks"]),
        "queue": queue,
        "stage": np.array(lanes)[traces.lanes] if lanes else drains[queue],
        "end": traces.records["end"].astype(np.uint16),
        "tag": traces.records["tag"].astype(np.uint16),
    }


def _with_ends(columns: Columns) -> Columns:
    """An end happens at the stage that took the event out last."""
    order = np.lexsort((columns["end"], columns["pop_ns"], columns["event"]))
    ends = columns["end"][order] != 0
    last = np.maximum.accumulate(np.where(ends, 0, np.arange(len(order))))
    same = columns["event"][order][last] == columns["event"][order]
    stage = columns["stage"].copy()
    stage[order] = np.where(ends & same, stage[order][last], stage[order])
    return {**columns, "stage": stage}


def _queue_numbers(traces: TraceFile, observation: Observation) -> NDArray[np.int32]:
    """The observation's number of each record's queue; -1 of an end, or of a queue that was never seen."""
    pids = {item.number: item.pid for item in observation.processes}
    numbers = {
        slot: queue.number
        for queue in observation.queues
        for process, slot, _ in queue.slots
        if pids.get(process) == traces.pid
    }
    lookup = np.full(max(numbers, default=-1) + 2, -1, dtype=np.int32)
    for slot, number in numbers.items():
        lookup[slot] = number
    slots = traces.records["queue"]
    known = (slots != NO_QUEUE) & (slots < len(lookup) - 1)
    found: NDArray[np.int32] = lookup[np.where(known, slots, len(lookup) - 1)]
    return found
