"""Trace files that still grow, written here byte by byte."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from latlab.errors import InputError
from latlab.formats.event_traces.files import FINISHED, MAGIC, NO_QUEUE
from latlab.formats.event_traces.growing import GrowingTraces, trace_files

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

    with pytest.raises(InputError, match="is not a trace file"):
        GrowingTraces(tmp_path / "other")


def test_a_file_that_is_cut_short_while_it_is_followed_is_an_error_of_ours(
    writer: Writer, tmp_path: Path
) -> None:
    growing = GrowingTraces(tmp_path / "traces")
    os.truncate(tmp_path / "traces", 4096 + 8)

    with pytest.raises(InputError, match="became shorter while it was read"):
        growing.counts()


def test_a_header_that_promises_more_than_any_trace_has_is_refused(tmp_path: Path) -> None:
    lanes, records = 3, 1 << 40
    head = struct.pack("<QIIQQIIQQ", MAGIC, 1, lanes, 64 + 32 * records, records, os.getpid(), 16, 1000, 5000)
    (tmp_path / "huge").write_bytes(head.ljust(4096, b"\0"))
    with pytest.raises(InputError, match="more than any trace has"):
        GrowingTraces(tmp_path / "huge")


def test_a_lane_that_claims_more_than_its_room_is_refused(writer: Writer, tmp_path: Path) -> None:
    struct.pack_into("<Q", writer.memory, 4096, RECORDS + 1)
    with pytest.raises(InputError, match="lane 0 claims 9 of 8 records"):
        GrowingTraces(tmp_path / "traces")
