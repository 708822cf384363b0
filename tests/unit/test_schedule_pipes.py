"""Pipes as connections, by hand-made system calls."""

from __future__ import annotations

import numpy as np

from latlab.schedule.pipes import PIPES, joined, pipe_transfers

IN, OUT = "pipe:[1]", "pipe:[2]"


def table(*rows: tuple[int, int, int, int]) -> dict[str, np.ndarray]:
    """Rows of (time, process, descriptor, bytes)."""
    time, pid, descriptor, size = np.array(rows, np.int64).reshape(-1, 4).T
    return {
        "time_ns": time, "pid": pid, "tid": pid, "argument": descriptor, "ret": size,
        "captured": size, "payload": np.full(len(rows), b"x", "V8"),
    }  # fmt: skip


Table = dict[str, np.ndarray]


def moved(
    descriptors: dict[tuple[int, int], str], wrote: Table, read: Table, begun: Table, *vectors: Table
) -> tuple[Table, ...]:
    tables = (wrote, read, begun, *(vectors or [table()] * 3))
    return pipe_transfers(dict(zip(PIPES, tables, strict=True)), descriptors, frozenset({10}), 8)


def test_what_one_peer_writes_and_reads_is_a_connection() -> None:
    descriptors = {(10, 0): IN, (10, 1): OUT, (20, 5): IN, (20, 6): OUT}
    sent, received, ready = moved(
        descriptors,
        wrote=table((30, 10, 1, 3), (11, 20, 5, 4)),
        read=table((15, 10, 0, 4), (40, 20, 6, 3)),
        begun=table((10, 20, 5, 4), (29, 10, 1, 3)),
    )
    assert (sent["time_ns"].tolist(), received["time_ns"].tolist()) == ([30], [15])
    assert ready["time_ns"].tolist() == [10]
    assert len({*sent["sk"].tolist(), *received["sk"].tolist(), *ready["skaddr"].tolist()}) == 1


def test_a_pipe_within_the_program_and_a_file_are_no_connection() -> None:
    descriptors = {(10, 3): IN, (10, 4): IN, (10, 1): OUT, (10, 5): "/var/log/some"}
    sent, received, ready = moved(
        descriptors, wrote=table((30, 10, 4, 1), (31, 10, 5, 9)), read=table((32, 10, 3, 1)), begun=table()
    )
    assert [len(one["time_ns"]) for one in (sent, received, ready)] == [0, 0, 0]


def test_tables_are_joined_by_the_columns_that_both_have() -> None:
    one = {"time_ns": np.array([1]), "sk": np.array([7]), "family": np.array([2])}
    other = {"time_ns": np.array([2]), "sk": np.array([1])}
    both = joined(one, other)
    assert (both["time_ns"].tolist(), set(both)) == ([1, 2], {"time_ns", "sk"})


def test_what_is_read_and_written_in_several_buffers_moves_through_pipes_too() -> None:
    descriptors = {(10, 0): IN, (10, 1): OUT, (20, 5): IN, (20, 6): OUT}
    plain = table((11, 20, 5, 4)), table((40, 20, 6, 3)), table((10, 20, 5, 4))
    sent, received, _ = moved(
        descriptors, *plain, table((30, 10, 1, 3)), table((15, 10, 0, 4)), table((29, 10, 1, 3))
    )
    assert (sent["time_ns"].tolist(), received["time_ns"].tolist()) == ([30], [15])
