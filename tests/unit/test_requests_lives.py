"""Connections that begin, end and wait while they are observed, by hand-made events."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from latlab.requests.connections import NEVER, find_requests
from latlab.requests.lives import Lives
from latlab.schedule import Transfers

ESTABLISHED, SYN_SENT, SYN_RECEIVED, CLOSE = 1, 2, 3, 7


def lives(*rows: tuple[int, int, int, int]) -> dict[str, np.ndarray]:
    """Rows of (time, socket, old state, new state), all of port 80."""
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    named = dict(zip(("time_ns", "skaddr", "oldstate", "newstate"), columns, strict=True))
    return {**named, "sport": np.full(len(rows), 80)}


def calls(*rows: tuple[int, int, int], socket: int = 7) -> Transfers:
    """Rows of (time, bytes, process): positive for bytes in, 0 for the end; no arrivals."""

    def table(chosen: list[tuple[int, int, int]]) -> dict[str, np.ndarray]:
        count = len(chosen)
        return {
            "time_ns": np.array([row[0] for row in chosen], np.int64),
            "ret": np.array([abs(row[1]) for row in chosen], np.int64),
            "sk": np.full(count, socket, np.uint64), "tid": np.full(count, 11),
            "pid": np.array([row[2] for row in chosen], np.int64), "argument": np.full(count, 5),
            "payload": np.full(count, b"\x01", "V256"), "captured": np.ones(count, np.int64),
        }  # fmt: skip

    nothing = {"time_ns": np.zeros(0, np.int64), "skaddr": np.zeros(0, np.uint64)}
    sent, received = ([row for row in rows if (row[1] < 0) == out] for out in (True, False))
    return Transfers(table(sent), table(received), nothing, {}, {}, frozenset({10}), 0)


def arrived(*rows: tuple[int, int]) -> dict[str, np.ndarray]:
    """Rows of (time, socket)."""
    times, sockets = np.array(rows, np.int64).reshape(-1, 2).T
    return {"time_ns": times, "skaddr": sockets.astype(np.uint64)}


MS = 1_000_000


def test_what_arrived_at_an_address_before_its_connection_is_not_its_own() -> None:
    given = replace(
        calls((60, 5, 10), (70, -3, 10)),
        ready=arrived((10, 7), (55, 7)), lives=lives((50, 7, SYN_RECEIVED, ESTABLISHED)),
    )  # fmt: skip
    assert find_requests(given).rows["arrived"].tolist() == [55]


def test_what_arrives_at_an_address_after_its_connection_has_ended_waits_for_nobody() -> None:
    moved = replace(calls((20, 5, 10), (40, -3, 10)), ready=arrived((15, 7), (70, 7)))
    assert len(find_requests(moved).rows) == 2
    ended = replace(moved, lives=lives((50, 7, ESTABLISHED, CLOSE)))
    assert len(find_requests(ended).rows) == 1


def test_a_new_connection_at_an_address_ends_the_one_before() -> None:
    given = replace(
        calls((20, 5, 10), (60 * MS, 5, 10), (70 * MS, -3, 10)),
        ready=arrived((15, 7), (55 * MS, 7)), lives=lives((50 * MS, 7, SYN_RECEIVED, ESTABLISHED)),
    )  # fmt: skip
    assert find_requests(given).rows[["arrived", "sent"]].tolist() == [(55 * MS, 70 * MS)]


def test_who_gave_up_waiting_waited_until_its_connection_ended() -> None:
    given = replace(
        calls((20, 5, 10)), ready=arrived((15, 7)), lives=lives((500 * MS, 7, ESTABLISHED, CLOSE))
    )
    rows = find_requests(given).rows
    assert rows[["arrived", "answered", "sent"]].tolist() == [(15, NEVER, 500 * MS)]


def test_a_connection_that_the_program_itself_has_made_serves_nobody() -> None:
    given = replace(calls((20, 5, 10), (40, -3, 10)), lives=lives((5, 7, SYN_SENT, ESTABLISHED)))
    assert not len(find_requests(given).rows)


def test_a_connection_that_nobody_has_accepted_is_open_since_its_first_bytes() -> None:
    given = replace(
        calls((20, 5, 10), (40, -3, 10)),
        ready=arrived((15, 7), (65, 8)),
        lives=lives((5, 7, SYN_RECEIVED, ESTABLISHED), (60, 8, SYN_RECEIVED, ESTABLISHED)),
    )
    found = find_requests(given)
    assert found.rows[["arrived", "read", "sent"]].tolist() == [(15, 20, 40), (65, NEVER, NEVER)]
    assert "not accepted yet" in found.kinds


def test_bytes_that_only_come_ask_nobody() -> None:
    assert len(find_requests(calls(*((at, 5, 10) for at in range(10, 40, 10)))).rows) == 1
    assert not len(find_requests(calls(*((at, 5, 10) for at in range(10, 70, 10)))).rows)


def test_of_no_call_at_all_there_is_no_request() -> None:
    nothing = {"time_ns": np.zeros(0, np.int64)}
    assert not len(find_requests(replace(calls(), sent=nothing, received=nothing)).rows)


def test_without_events_of_sockets_no_connection_is_known() -> None:
    known = Lives({})
    assert (known.births(7), known.of(7, 100), known.end(7), known.port(7)) == ([], None, None, 0)


def test_an_open_request_ends_with_its_own_connection_and_not_with_the_next_at_its_address() -> None:
    given = replace(
        calls((20, 5, 10), (40, -3, 10), (60, 5, 10), (900 * MS, 5, 10), (901 * MS, -3, 10)),
        ready=arrived((15, 7), (55, 7), (899 * MS, 7)),
        lives=lives((5, 7, SYN_RECEIVED, ESTABLISHED), (2 * MS, 7, ESTABLISHED, CLOSE),
                    (890 * MS, 7, SYN_RECEIVED, ESTABLISHED)),
    )  # fmt: skip
    rows = find_requests(given).rows  # what was asked last was a farewell
    assert rows[["arrived", "sent"]].tolist() == [(15, 40), (899 * MS, 901 * MS)]


def test_a_client_that_said_all_and_waits_is_answered() -> None:
    """It has shut down its sending side, as `nc -N` does: the server reads the end before it answers."""
    given = replace(
        calls((20, 5, 10), (25, 0, 10), (70, -3, 10), (120, 5, 10), (125, 0, 10), (160, -3, 10)),
        ready=arrived((15, 7), (115, 7)),
        lives=lives(
            (10, 7, SYN_RECEIVED, ESTABLISHED), (80, 7, ESTABLISHED, CLOSE),
            (110, 7, SYN_RECEIVED, ESTABLISHED),
        ),
    )  # fmt: skip
    sent, received = (
        {**one, "protocol": np.full(len(one["time_ns"]), 6)} for one in (given.sent, given.received)
    )
    found = find_requests(replace(given, sent=sent, received=received))
    assert found.rows[["arrived", "sent"]].tolist() == [(15, 70), (115, 160)]
    assert len(found.connections) == 2


def test_what_is_read_of_a_connection_that_was_reset_is_over_at_once() -> None:
    given = replace(
        calls((30, 5, 10), (500 * MS, 5, 10), (500 * MS + 10, -3, 10)),
        ready=arrived((15, 7), (499 * MS, 7)),
        lives=lives(
            (10, 7, SYN_RECEIVED, ESTABLISHED), (20, 7, ESTABLISHED, CLOSE),
            (490 * MS, 7, SYN_RECEIVED, ESTABLISHED), (600 * MS, 7, ESTABLISHED, CLOSE),
        ),
    )  # fmt: skip
    assert find_requests(given).rows["arrived"].tolist() == [499 * MS]


def test_answers_that_arrive_at_an_address_while_it_is_a_clients_are_none_of_the_servers() -> None:
    ready = arrived((15, 7), (115, 7), (215, 7), (315, 7))
    ready["pid"] = np.array([99, 10, 10, 10])
    given = replace(
        calls((20, 5, 10), (70, -3, 10)), ready=ready,
        lives=lives(
            (10, 7, SYN_RECEIVED, ESTABLISHED), (80, 7, ESTABLISHED, CLOSE), (90, 7, SYN_SENT, ESTABLISHED)
        ),
    )  # fmt: skip
    both = calls((20, 5, 10), (70, -3, 10), socket=8)
    joined = {key: np.concatenate([given.received[key], both.received[key]]) for key in given.received}
    out = {key: np.concatenate([given.sent[key], both.sent[key]]) for key in given.sent}
    found = find_requests(replace(given, received=joined, sent=out))
    assert len(found.rows) == 2
