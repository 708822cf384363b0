"""Reads event-trace files (include/latlab/trace.hpp): when traced events were put into queues and taken out.

Version history:
    1  (2026-11) the first.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from latlab.errors import InputError
from latlab.formats.trusted import TrustedFile
from latlab.words import plural

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
    "header_of",
    "lane_counts",
    "read_header",
    "read_traces",
    "records_of",
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
MOST_LANES = 65_536
MOST_BYTES = 1 << 34  # of a file: 500 million records; a sparse file may claim any size
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
    with TrustedFile(path) as file:
        return header_of(file)


def header_of(file: TrustedFile) -> TraceHeader:
    """The head of an open file, checked against the file's size.

    Raises:
        InputError: as `read_header`.
    """
    path = file.path
    raw = file.read(0, HEADER_BYTES)
    if len(raw) < HEADER_BYTES:
        raise InputError(
            path,
            f"is cut short in its header ({plural(len(raw), 'byte')})",
            place=f"offset {len(raw)}",
            remedy=_REMEDY,
        )
    head = np.frombuffer(raw[: _HEADER.itemsize], _HEADER)[0]
    if int(head["magic"]) != MAGIC:
        raise InputError(path, "is not a trace file", place="offset 0", remedy=_REMEDY)
    if int(head["version"]) != VERSION:
        raise InputError(
            path, f"has version {head['version']}, and this latlab reads {VERSION}", place="offset 8"
        )
    names = ("lanes", "lane_bytes", "lane_records", "pid", "every", "clock_ticks", "clock_ns")
    found = TraceHeader(*(int(head[name]) for name in names))
    if found.lane_bytes != LANE_HEAD_BYTES + found.lane_records * RECORD.itemsize:
        what = f"promises {found.lane_records} records in a lane of {plural(found.lane_bytes, 'byte')}"
        raise InputError(path, what, place="offset 16", remedy=_REMEDY)
    wanted = HEADER_BYTES + found.lanes * found.lane_bytes
    if found.lanes > MOST_LANES or wanted > MOST_BYTES:
        what = f"promises {found.lanes} lanes and {plural(wanted, 'byte')}, more than any trace has"
        raise InputError(path, what, place="offset 12", remedy=_REMEDY)
    if file.size < wanted:
        what = f"has {plural(file.size, 'byte')} where its header promises {wanted}"
        raise InputError(path, what, place="offset 16", remedy="copy the file again from where it was made")
    return found


def records_of(file: TrustedFile, head: TraceHeader, lane: int, first: int, last: int) -> np.ndarray:
    """A lane's records from `first` up to `last`, shape (n,), dtype `RECORD`.

    Raises:
        InputError: the file is shorter than it was when it was opened.
    """
    at = HEADER_BYTES + lane * head.lane_bytes + LANE_HEAD_BYTES + first * RECORD.itemsize
    size = max(0, last - first) * RECORD.itemsize
    raw = file.read(at, size)
    if len(raw) != size:
        raise InputError(file.path, "became shorter while it was read", place=f"offset {at + len(raw)}")
    return np.frombuffer(raw, RECORD)


def lane_counts(file: TrustedFile, head: TraceHeader) -> list[tuple[int, int]]:
    """Of each lane: the records that it holds, and those that found no room.

    Raises:
        InputError: the file became shorter, or a lane claims more than it has room for.
    """
    counts = []
    for lane in range(head.lanes):
        at = HEADER_BYTES + lane * head.lane_bytes
        raw = file.read(at, 16)
        if len(raw) != 16:
            raise InputError(file.path, "became shorter while it was read", place=f"offset {at + len(raw)}")
        written, missed = (int(value) for value in np.frombuffer(raw, "<u8"))
        if written > head.lane_records:
            what = f"lane {lane} claims {written} of {head.lane_records} records"
            raise InputError(file.path, what, place=f"offset {at}")
        counts.append((written, missed))
    return counts


def read_traces(path: str | os.PathLike[str]) -> TraceFile:
    """Read a trace file, also one whose process still runs or was killed.

    Raises:
        InputError: when the file is short, foreign, of another version, or contradicts itself.
    """
    with TrustedFile(path) as file:
        head = header_of(file)
        counts = lane_counts(file, head)
        parts = [records_of(file, head, lane, 0, written) for lane, (written, _) in enumerate(counts)]
    numbers = [np.full(written, lane, dtype=np.uint32) for lane, (written, _) in enumerate(counts)]
    return TraceFile(
        records=np.concatenate(parts) if parts else np.empty(0, RECORD),
        lanes=np.concatenate(numbers) if numbers else np.empty(0, np.uint32),
        pid=head.pid,
        every=head.every,
        clock_ticks=head.clock_ticks,
        clock_ns=head.clock_ns,
        lost=sum(missed for _, missed in counts),
    )
