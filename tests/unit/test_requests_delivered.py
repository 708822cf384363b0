"""A request lasts until the last of its answer is sent: by its framing, and by TCP, which may keep it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from latlab.model.schedule import FOREIGN, INTERVAL, WAKE, Losses, Schedule, ScheduledThread
from latlab.requests.connections import REQUEST, find_requests
from latlab.requests.owners import NOBODY, Owners
from latlab.requests.parts import Account
from latlab.schedule import Transfers

KEPT, MS = 256, 1_000_000
SERVER, CLIENT, TIMER, PROCESS = 11, 21, 31, 10
HERE, THERE = 7, 9  # the sockets of the server and of its client
TCP = 6
ESTABLISHED, FIN_WAIT, SYN_SENT, SYN_RECEIVED = 1, 4, 2, 3
GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
HEAD_OF_5 = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def transfers(calls: list[tuple[int, bytes]], out: list[tuple[int, bytes]], ready: list[Any]) -> Transfers:
    """Args: ready: (time, socket, thread), each of TCP."""

    def table(rows: list[tuple[int, bytes]]) -> dict[str, np.ndarray]:
        count = len(rows)
        return {
            "time_ns": np.array([row[0] for row in rows], np.int64),
            "ret": np.array([len(row[1]) for row in rows], np.int64),
            "sk": np.full(count, HERE, np.uint64), "tid": np.full(count, SERVER),
            "pid": np.full(count, PROCESS), "argument": np.full(count, 5),
            "payload": np.array([row[1][:KEPT].ljust(KEPT, b"\0") for row in rows], f"V{KEPT}"),
            "captured": np.array([min(KEPT, len(row[1])) for row in rows], np.int64),
        }  # fmt: skip

    times, sockets, tids = np.array(ready, np.int64).reshape(-1, 3).T
    arrivals = {
        "time_ns": times, "skaddr": sockets.astype(np.uint64), "tid": tids, "pid": tids + 1_000,
        "protocol": np.full(len(times), TCP), "family": np.full(len(times), 2),
    }  # fmt: skip
    return Transfers(
        table(out), table(calls), arrivals, {(PROCESS, 5): "socket:[1]"}, {1: ("127.0.0.1:80", True)},
        frozenset({PROCESS}), 0,
    )  # fmt: skip


@pytest.mark.parametrize(
    "writes",
    [
        [HEAD_OF_5, b"hello"],
        [HEAD_OF_5, b"h", b"el", b"l", b"o"],
        [HEAD_OF_5[:20], HEAD_OF_5[20:], b"hello"],
        [CHUNKED, b"5\r\n", b"hello\r\n", b"0\r\n\r\n"],
        [CHUNKED + b"5\r\nhello\r\n", b"0\r\n\r\n"],
        [b"HTTP/1.1 100 Continue\r\n\r\n", HEAD_OF_5, b"hello"],
        [HEAD_OF_5.replace(b": 5", b": 5000"), b"\0" * 2_000, b"\0" * 3_000],
        [b"HTTP/1.1 204 No Content\r\n", b"\r\n"],
    ],
)
def test_an_answer_lasts_until_its_last_write_however_it_is_cut(writes: list[bytes]) -> None:
    came, out = [], []
    for at in range(0, 600 * MS, 100 * MS):
        came.append((at, GET))
        out += [(at + (number + 1) * 10 * MS, one) for number, one in enumerate(writes)]
    found = find_requests(transfers(came, out, []))
    took = (found.rows["sent"] - found.rows["arrived"]).tolist()
    assert (found.framing, took) == ("http", [len(writes) * 10 * MS] * 6)


def test_pipelined_answers_end_each_with_its_own_body() -> None:
    out = [(20, HEAD_OF_5), (30, b"hello" + HEAD_OF_5 + b"he"), (50, b"llo" + HEAD_OF_5), (90, b"hello")]
    rows = find_requests(transfers([(10, GET * 3)], out, [])).rows
    assert rows[["answered", "sent"]].tolist() == [(20, 30), (30, 50), (50, 90)]


@pytest.mark.parametrize(
    ("asked", "writes", "framing"),
    [
        (b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", [b"$5\r\n", b"hello", b"\r\n"], "resp"),
        (b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", [b"*2\r\n$1\r\na\r\n", b"$1\r\n", b"b\r\n"], "resp"),
        (
            b"Q\0\0\0\x0dSELECT 1\0",
            [b"T\0\0\0\x06\0\0", b"C\0\0\0\x0dSELECT 1\0", b"Z\0\0\0\x05I"],
            "postgresql",
        ),
    ],
)  # fmt: skip
def test_answers_of_databases_end_with_their_last_write(
    asked: bytes, writes: list[bytes], framing: str
) -> None:
    came = [(at, asked) for at in range(0, 600, 100)]
    out = [(at + (number + 1) * 10, one) for at, _ in came for number, one in enumerate(writes)]
    found = find_requests(transfers(came, out, []))
    took = (found.rows["sent"] - found.rows["arrived"]).tolist()
    assert (found.framing, took) == (framing, [len(writes) * 10] * 6)


def kept(rounds: int = 6, *, late: int = 40 * MS) -> tuple[list[Any], list[Any], list[Any]]:
    """What comes in, what goes out in two writes, of which TCP keeps the second one, and arrivals."""
    came, out, ready = [], [], []
    for at in range(0, rounds * 100 * MS, 100 * MS):
        ready += [
            (at + 1, HERE, CLIENT),
            (at + 2 * MS - 5, THERE, SERVER),
            (at + 3 * MS + late, THERE, TIMER),
        ]
        came.append((at + 10, GET))
        out += [(at + 2 * MS, HEAD_OF_5), (at + 3 * MS, b"hello")]
    return came, out, ready


def test_what_tcp_keeps_after_the_last_write_is_part_of_the_request() -> None:
    rows = find_requests(transfers(*kept())).rows
    # Nothing tells when what was sent at last had to be there.
    assert rows["held"].tolist() == [40 * MS] * 5 + [0]
    assert (rows["sent"] - rows["arrived"]).tolist() == [43 * MS - 1] * 5 + [3 * MS - 1]


def test_what_goes_out_at_once_is_over_with_the_call() -> None:
    came, out, ready = kept()
    at_once = [(time if time % (100 * MS) < 40 * MS else time - 40 * MS - 5, *who) for time, *who in ready]
    rows = find_requests(
        transfers(came, out, [(t, sk, SERVER if sk == THERE else who) for t, sk, who in at_once])
    ).rows
    assert rows["held"].tolist() == [0] * 6


def test_a_request_ends_when_the_client_has_its_answer_and_not_when_the_call_comes_back() -> None:
    # Its client is woken while it is sent, runs first, and asks again before the call comes back.
    came, out, ready = [], [], []
    for at in range(0, 600 * MS, 100 * MS):
        ready += [(at + 1, HERE, CLIENT), (at + 1 + 40 * MS, THERE, SERVER)]
        came.append((at + 10, GET))
        out.append((at + 100 * MS + 5, HEAD_OF_5 + b"hello"))
    found = find_requests(transfers(came, out, ready))
    rows = found.rows
    assert (rows["sent"] - rows["arrived"]).tolist() == [40 * MS] * 6
    assert rows["answered"].tolist() == rows["sent"].tolist()
    assert rows["held"].tolist() == [0] * 6


def test_the_end_of_a_connection_is_not_the_end_of_its_last_answer() -> None:
    came, out, ready = kept()
    closes = 580 * MS
    given = transfers(came, out, [*ready, (closes + 10, THERE, SERVER)])

    def lives(*rows: tuple[int, int, int, int, int, int]) -> dict[str, np.ndarray]:
        keys = ("time_ns", "skaddr", "oldstate", "newstate", "sport", "dport")
        return dict(zip(keys, np.array(rows, np.int64).T, strict=True))

    known = lives(
        (-90, THERE, SYN_SENT, ESTABLISHED, 4711, 80), (-80, HERE, SYN_RECEIVED, ESTABLISHED, 80, 4711),
        (closes, HERE, ESTABLISHED, FIN_WAIT, 80, 4711),
    )  # fmt: skip
    assert find_requests(replace(given, lives=known)).rows["held"].tolist() == [40 * MS] * 6
    another = lives(
        (-90, THERE, SYN_SENT, ESTABLISHED, 4712, 80), (-80, HERE, SYN_RECEIVED, ESTABLISHED, 80, 4711)
    )
    assert find_requests(replace(given, lives=another)).rows["held"].tolist() == [0] * 6


def test_who_the_other_end_is_is_believed_only_where_nearly_each_call_tells_the_same() -> None:
    came, out, ready = kept()
    mixed = [(time, sk + time // (200 * MS) if sk == THERE else sk, who) for time, sk, who in ready]
    assert not find_requests(transfers(came, out, mixed)).rows["held"].any()
    assert not find_requests(transfers(*kept(2))).rows["held"].any()


def test_what_tcp_keeps_is_told_as_sending_and_keeps_no_thread() -> None:
    row = (0, 10, 20, 100, SERVER, SERVER, 0, 0, 1, 1, 1, 70)
    after = (25, 40, 90, 90, SERVER, SERVER, 0, 0, 1, 1, 1, 0)
    rows = np.array([row, after], REQUEST)
    threads = (ScheduledThread(SERVER, PROCESS, "server", "server", 0, 200),)
    seen = Schedule(
        0, 200, (0,), threads, np.zeros(0, INTERVAL), np.zeros(0, WAKE), np.zeros(0, FOREIGN), Losses("bpf")
    )
    spent = Account(seen, rows, ("GET",)).of(0)
    assert sum(spent.values()) == 100
    where = "kept in its socket by TCP after the last write: for an acknowledgement, or for room"
    assert spent["send", where] == 70
    assert (NOBODY, 30, 40) in list(Owners(rows).cut(SERVER, 0, 100))
