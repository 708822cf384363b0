"""Trace files that still grow, written here byte by byte."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from latlab.errors import InputError
from latlab.formats.live_traces import GrowingTraces, trace_files
from latlab.formats.traces import FINISHED, MAGIC, NO_QUEUE

LANES, RECORDS = 2, 8
LANE_BYTES = 64 + 32 * RECORDS


class Writer:
    """An application that traces: its file, mapped."""

    def __init__(self, path: Path) -> None:
        head = struct.pack("<QIIQQIIQQ", MAGIC, 1, LANES, LANE_BYTES, RECORDS, os.getpid(), 16, 1000, 5000)
        path.write_bytes(head.ljust(4096, b"\0") + bytes(LANES * LANE_BYTES))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)

    def put(self, lane: int, event: int, push: int, pop: int, end: int = 0) -> None:
        at = 4096 + lane * LANE_BYTES
        (written,) = struct.unpack_from("<Q", self.memory, at)
        queue = NO_QUEUE if end else 3
        struct.pack_into("<QQQIHH", self.memory, at + 64 + 32 * written, event, push, pop, queue, end, 0)
        struct.pack_into("<Q", self.memory, at, written + 1)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    made = Writer(tmp_path / "traces")
    yield made
    made.memory.close()


def test_a_process_s_trace_file_is_found_in_its_maps(writer: Writer, tmp_path: Path) -> None:
    assert trace_files(os.getpid()) == [tmp_path / "traces"]


def test_a_process_that_is_gone_has_none() -> None:
    assert trace_files(2**22 + 1) == []


def test_what_comes_after_the_start_is_read_once(writer: Writer, tmp_path: Path) -> None:
    writer.put(0, event=1, push=10, pop=20)
    growing = GrowingTraces(tmp_path / "traces")
    writer.put(0, event=2, push=30, pop=40)
    writer.put(1, event=2, push=50, pop=50, end=FINISHED)

    hops, ends = growing.read(growing.counts(), growing.counts())

    assert (hops["event"].tolist(), ends["event"].tolist()) == ([2], [2])
    assert [part.size for part in growing.read(growing.counts(), growing.counts())] == [0, 0]


def test_an_end_is_kept_back_until_its_hops_are_known(writer: Writer, tmp_path: Path) -> None:
    growing = GrowingTraces(tmp_path / "traces")
    before = growing.counts()
    writer.put(0, event=2, push=30, pop=40)
    writer.put(1, event=2, push=50, pop=50, end=FINISHED)

    first = growing.read(before, growing.counts())
    second = growing.read(growing.counts(), growing.counts())

    assert [part.size for part in first] == [1, 0]
    assert [part.size for part in second] == [0, 1]


def test_a_full_lane_is_told(writer: Writer, tmp_path: Path) -> None:
    growing = GrowingTraces(tmp_path / "traces")
    for number in range(RECORDS):
        assert not growing.full
        writer.put(1, event=number, push=1, pop=2)

    assert growing.full


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(bytes(8192))

    with pytest.raises(InputError, match="is no trace file"):
        GrowingTraces(tmp_path / "other")
