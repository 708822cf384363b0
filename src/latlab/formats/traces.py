"""Reads event-trace files (include/latlab/trace.hpp): when traced events were put into queues and taken out.

Version history:
    1  (2026-11) the first.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from latlab.errors import InputError

__all__ = [
    "FILTERED",
    "FINISHED",
    "HEADER_BYTES",
    "LANE_HEAD_BYTES",
    "NO_QUEUE",
    "RECORD",
    "VERSION",
    "TraceFile",
    "TraceHeader",
    "read_header",
    "read_traces",
]

MAGIC = 0x315341525454414C
VERSION = 1
NO_QUEUE = 0xFFFF_FFFF
"""The queue of a record that ends an event."""
FINISHED = 1
"""The event reached the end of the pipeline."""
FILTERED = 2
"""The event was used up at a stage before the end."""

RECORD = np.dtype(
    [
        ("event", "<u8"),
        ("push_ticks", "<u8"),
        ("pop_ticks", "<u8"),
        ("queue", "<u4"),
        ("end", "<u2"),
        ("tag", "<u2"),
    ]
)
_HEADER = np.dtype(
    [
        ("magic", "<u8"),
        ("version", "<u4"),
        ("lanes", "<u4"),
        ("lane_bytes", "<u8"),
        ("lane_records", "<u8"),
        ("pid", "<u4"),
        ("every", "<u4"),
        ("clock_ticks", "<u8"),
        ("clock_ns", "<u8"),
    ]
)
HEADER_BYTES = 4096
LANE_HEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class TraceFile:
    """One process's traces.

    Attributes:
        records: of dtype `RECORD`, shape (n,), in the order of lanes and then of time.
        lanes: the lane of each record, shape (n,).
        pid: of the process that wrote them.
        every: one event in so many was traced.
        clock_ticks: the counter and CLOCK_MONOTONIC (`clock_ns`) at one instant, when the file was made.
        clock_ns: see `clock_ticks`.
        lost: records that found no room.
    """

    records: np.ndarray
    lanes: np.ndarray
    pid: int
    every: int
    clock_ticks: int
    clock_ns: int
    lost: int


@dataclass(frozen=True, slots=True)
class TraceHeader:
    """What a file says of itself.

    Attributes:
        lanes: each of `lane_bytes`, with room for `lane_records`.
        pid, every, clock_ticks, clock_ns: as in `TraceFile`.
    """

    lanes: int
    lane_bytes: int
    lane_records: int
    pid: int
    every: int
    clock_ticks: int
    clock_ns: int


_REMEDY = "give a trace file as latlab's trace.hpp writes it"


def read_header(path: str | os.PathLike[str]) -> TraceHeader:
    """Read the head of a file.

    Raises:
        InputError: when the file is short, foreign, of another version, or contradicts itself.
    """
    try:
        with Path(path).open("rb") as file:
            raw = file.read(HEADER_BYTES)
    except OSError as error:
        raise InputError(path, error.strerror or "can't be read") from error
    if len(raw) < HEADER_BYTES:
        raise InputError(
            path, f"is cut short in its header ({len(raw)} bytes)", place=f"offset {len(raw)}", remedy=_REMEDY
        )
    head = np.frombuffer(raw[: _HEADER.itemsize], _HEADER)[0]
    if int(head["magic"]) != MAGIC:
        raise InputError(path, "is no trace file", place="offset 0", remedy=_REMEDY)
    if int(head["version"]) != VERSION:
        raise InputError(
            path, f"has version {head['version']}, and this latlab reads {VERSION}", place="offset 8"
        )
    names = ("lanes", "lane_bytes", "lane_records", "pid", "every", "clock_ticks", "clock_ns")
    found = TraceHeader(*(int(head[name]) for name in names))
    if found.lane_bytes != LANE_HEAD_BYTES + found.lane_records * RECORD.itemsize:
        what = f"promises {found.lane_records} records in a lane of {found.lane_bytes} bytes"
        raise InputError(path, what, place="offset 16", remedy=_REMEDY)
    return found


def read_traces(path: str | os.PathLike[str]) -> TraceFile:
    """Read a trace file, also one whose process still runs or was killed.

    Raises:
        InputError: when the file is short, foreign, of another version, or contradicts itself.
    """
    head = read_header(path)
    raw = np.fromfile(Path(path), dtype=np.uint8)
    lanes, lane_bytes, capacity = head.lanes, head.lane_bytes, head.lane_records
    wanted = HEADER_BYTES + lanes * lane_bytes
    if raw.size < wanted:
        what = f"has {raw.size} bytes where its header promises {wanted}"
        raise InputError(path, what, place="offset 16", remedy="copy the file again from where it was made")
    parts, numbers, lost = [], [], 0
    for lane in range(lanes):
        at = HEADER_BYTES + lane * lane_bytes
        written, missed = (int(value) for value in raw[at : at + 16].view("<u8"))
        if written > capacity:
            raise InputError(
                path, f"lane {lane} claims {written} of {capacity} records", place=f"offset {at}"
            )
        begin = at + LANE_HEAD_BYTES
        parts.append(raw[begin : begin + written * RECORD.itemsize].view(RECORD))
        numbers.append(np.full(written, lane, dtype=np.uint32))
        lost += missed
    return TraceFile(
        records=np.concatenate(parts) if parts else np.empty(0, RECORD),
        lanes=np.concatenate(numbers) if numbers else np.empty(0, np.uint32),
        pid=head.pid,
        every=head.every,
        clock_ticks=head.clock_ticks,
        clock_ns=head.clock_ns,
        lost=lost,
    )
