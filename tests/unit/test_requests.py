from __future__ import annotations

import numpy as np
import pytest

from latlab.requests.connections import find_requests
from latlab.requests.framing import kind_of
from latlab.schedule import Transfers


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1\r\n1\r\n", ("resp", "SET")),
        (b"*1\r\n$4\r\nping\r\n", ("resp", "PING")),
        (b"GET /orders/4711?page=2 HTTP/1.1\r\nHost: a\r\n", ("http", "GET /orders/#")),
        (b"POST /x HTTP/1.1\r\n", ("http", "POST /x")),
        (b"Q\x00\x00\x00\x20SELECT a FROM b WHERE c='x' AND d=1\x00",
         ("postgresql", "SELECT a FROM b WHERE c=? AND d=?")),
        (b"\x01\x02\x03", ("direction", "request")),
        (b"", ("direction", "request")),
    ],
)  # fmt: skip
def test_a_request_is_named_by_its_first_bytes_without_its_values(
    payload: bytes, kind: tuple[str, str]
) -> None:
    assert kind_of(payload.ljust(96, b"\0"), len(payload)) == kind


def transfers(calls: list[tuple[int, int]], ready: list[int]) -> Transfers:
    """One socket: calls are (time, bytes), positive for bytes in."""

    def table(rows: list[tuple[int, int]]) -> dict[str, np.ndarray]:
        count = len(rows)
        return {
            "time_ns": np.array([time for time, _ in rows], np.int64),
            "ret": np.array([abs(size) for _, size in rows], np.int64),
            "sk": np.full(count, 7, np.uint64), "tid": np.full(count, 11), "pid": np.full(count, 10),
            "argument": np.full(count, 5), "payload": np.zeros(count, "V96"),
        }  # fmt: skip

    arrivals = {"time_ns": np.array(ready, np.int64), "skaddr": np.full(len(ready), 7, np.uint64)}
    return Transfers(
        table([one for one in calls if one[1] < 0]), table([one for one in calls if one[1] > 0]), arrivals,
        {(10, 5): "socket:[1]"}, {1: ("127.0.0.1:80", True)}, frozenset({10}), 0,
    )  # fmt: skip


def test_a_request_goes_from_its_arrival_to_its_last_byte_out() -> None:
    found = find_requests(transfers([(20, 5), (25, 5), (40, -3), (45, -3), (60, 1), (70, -1)], [10, 24, 55]))
    assert found.rows[["arrived", "read", "answered", "sent"]].tolist() == [
        (10, 20, 40, 45),
        (55, 60, 70, 70),
    ]
    assert (found.rows["bytes_in"].tolist(), found.rows["bytes_out"].tolist()) == ([10, 1], [6, 1])


def test_an_answer_without_its_request_is_left_out_and_a_request_without_answer_is_counted() -> None:
    found = find_requests(transfers([(5, -1), (20, 5), (40, -3), (60, 1)], [15, 55]))
    assert (len(found.rows), found.unanswered) == (1, 1)


def test_a_request_whose_arrival_was_not_seen_counts_from_its_reading() -> None:
    found = find_requests(transfers([(20, 5), (40, -3)], []))
    assert (found.rows["arrived"].tolist(), found.rows["seen"].tolist()) == ([20], [0])
