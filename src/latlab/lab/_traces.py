"""From the processes' trace files to one table, on the recording's clock and in the recording."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.formats.recording import RecordingWriter, open_recording
from latlab.formats.traces import NO_QUEUE, TraceFile, read_traces
from latlab.lab._residence import TraceTable
from latlab.model.layout import STAGES, Layout
from latlab.model.queues import Observation

__all__ = ["keep_traces", "trace_columns"]

_CHUNK_ROWS = 65_536


def keep_traces(path: Path, observation: Observation, layout: Layout, writer: RecordingWriter) -> TraceTable:
    """Read both processes' traces, write them into the recording as the series "traces", and give the table.

    Args:
        path: of the trading process's file; the execution process's has ".execution" behind it.
    """
    clock = open_recording(writer.path).document("clock")
    columns, lost = trace_columns(path, observation, layout, clock)
    records = len(columns["event"])
    for begin in range(0, records, _CHUNK_ROWS):
        writer.append(
            "traces", {name: values[begin : begin + _CHUNK_ROWS] for name, values in columns.items()}
        )
    writer.put("traces-summary", {"schema": 1, "records": records, "lost": lost, "every": layout.trace_every})
    names = np.array([queue.name for queue in observation.queues] + [""])
    sources = np.array([queue.source_type for queue in observation.queues] + [""])
    return TraceTable(
        event=columns["event"],
        push_ns=columns["push_ns"],
        pop_ns=columns["pop_ns"],
        source=sources[columns["queue"]],
        drain=columns["stage"],
        queue=names[columns["queue"]],
        end=columns["end"],
    )


def trace_columns(
    path: Path, observation: Observation, layout: Layout, clock: Mapping[str, Any]
) -> tuple[dict[str, NDArray[Any]], int]:
    """Both processes' traces as the columns of the series "traces", in order of time, and records lost.

    Args:
        path: as in `keep_traces`.
        observation: whose topology names the queues.
        clock: from ticks to ns: `ticks`, `ns`, `hz`.
    """
    lanes = {
        "": [name for stage in STAGES[:-1] for name in layout.instances(stage)],
        ".execution": layout.instances("execution"),
    }
    parts: list[dict[str, NDArray[Any]]] = []
    lost = 0
    until = np.iinfo(np.int64).max
    for suffix, instances in lanes.items():
        file = Path(f"{path}{suffix}")
        if not file.exists():
            continue  # nothing is traced, or the process died before it came so far
        traces = read_traces(file)
        lost += traces.lost
        parts.append(_columns(traces, observation, instances, clock))
        if traces.lost:
            until = min(until, _known_until(traces, parts[-1]["pop_ns"]))
    empty: dict[str, NDArray[Any]] = {
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
    return {name: values[order] for name, values in columns.items()}, lost


def _known_until(traces: TraceFile, pop_ns: NDArray[np.int64]) -> int:
    """When the first lane was full: from then on events may have hops that found no room."""
    counts = np.bincount(traces.lanes)
    return min(int(pop_ns[traces.lanes == lane].max()) for lane in np.flatnonzero(counts == counts.max()))


def _columns(
    traces: TraceFile, observation: Observation, instances: list[str], clock: Mapping[str, Any]
) -> dict[str, NDArray[Any]]:
    scale = 1e9 / clock["hz"]

    def on_the_clock(ticks: NDArray[np.uint64]) -> NDArray[np.int64]:
        since = ticks.astype(np.int64) - int(clock["ticks"])
        times: NDArray[np.int64] = int(clock["ns"]) + np.rint(since * scale).astype(np.int64)
        return times

    return {
        "event": traces.records["event"].astype(np.uint64),
        "push_ns": on_the_clock(traces.records["push_ticks"]),
        "pop_ns": on_the_clock(traces.records["pop_ticks"]),
        "queue": _queue_numbers(traces, observation),
        "stage": np.array(instances)[traces.lanes],
        "end": traces.records["end"].astype(np.uint16),
        "tag": traces.records["tag"].astype(np.uint16),
    }


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
