from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from latlab.requests.connections import NEVER, find_requests
from latlab.schedule import Transfers
from latlab.schedule.sockets import DropWatch, socket_ends

KEPT = 256


def transfers(calls: list[tuple[Any, ...]], ready: list[int]) -> Transfers:
    """One socket: calls are (time, bytes), positive for bytes in, or (time, sign, bytes, how many)."""

    def table(rows: list[tuple[Any, ...]]) -> dict[str, np.ndarray]:
        sizes = [abs(row[1]) if len(row) == 2 else row[3] if len(row) > 3 else len(row[2]) for row in rows]
        known = [
            row[2][:KEPT] if len(row) > 2 else b"\x01" * min(size, KEPT)
            for row, size in zip(rows, sizes, strict=True)
        ]
        count = len(rows)
        return {
            "time_ns": np.array([row[0] for row in rows], np.int64),
            "ret": np.array(sizes, np.int64),
            "sk": np.full(count, 7, np.uint64), "tid": np.full(count, 11), "pid": np.full(count, 10),
            "argument": np.full(count, 5),
            "payload": np.array([one.ljust(KEPT, b"\0") for one in known], f"V{KEPT}"),
            "captured": np.array([len(one) for one in known], np.int64),
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
    assert (found.rows["arrived"].tolist(), found.rows["sent"].tolist()) == ([15, 55], [40, NEVER])


def test_a_request_whose_arrival_was_not_seen_counts_from_its_reading() -> None:
    found = find_requests(transfers([(20, 5), (40, -3)], []))
    assert (found.rows["arrived"].tolist(), found.rows["seen"].tolist()) == ([20], [0])


SET = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1\r\n1\r\n"


def names(found: Any) -> list[str]:
    return [found.kinds[number] for number in found.rows["kind"].tolist()]


def test_each_request_of_a_pipelined_batch_counts() -> None:
    found = find_requests(transfers([(20, 1, SET * 4), (40, -1, b"+OK\r\n" * 4)], [10]))
    assert (names(found), found.framing, found.uncounted) == (["SET"] * 4, "resp", 0)
    assert found.rows["sent"].tolist() == [40] * 4


def test_answers_count_what_of_a_batch_was_not_captured() -> None:
    found = find_requests(transfers([(20, 1, SET * 40), (40, -1, b"+OK\r\n" * 40)], [10]))
    assert (len(found.rows), found.uncounted) == (40, 0)
    assert names(found)[-1] == "request of a batch, not captured"


def test_where_neither_shows_how_many_came_that_is_said() -> None:
    value = b"$4000\r\n" + b"x" * 4000 + b"\r\n"
    found = find_requests(transfers([(20, 1, SET * 40), (40, -1, value * 40)], [10]))
    assert found.uncounted == 1
    assert found.rows["sent"].tolist() == [40] * len(found.rows)


def test_answers_follow_their_requests_when_more_come_meanwhile() -> None:
    calls = [(20, 1, SET * 2), (30, -1, b"+OK\r\n"), (40, 1, SET), (50, -1, b"+OK\r\n"), (60, -1, b"+OK\r\n")]
    found = find_requests(transfers(calls, [10, 35]))
    assert found.rows[["arrived", "sent"]].tolist() == [(10, 30), (10, 50), (35, 60)]


def test_bytes_that_only_begin_as_a_protocols_are_told_apart_by_direction() -> None:
    calls: list[tuple[Any, ...]] = []
    for at in range(0, 200, 20):
        calls += [(at + 5, 1, b"Q\0\0\0\x05\x07"), (at + 10, -1, b"\x99\x01\x02\x03\x04\x05")]
    assert find_requests(transfers(calls, [])).framings == {"direction": 10}


def test_lines_are_a_framing_where_each_is_answered_by_one() -> None:
    def exchanges(answer: bytes) -> list[tuple[Any, ...]]:
        return [one for at in range(0, 120, 20) for one in ((at + 5, 1, b"a\nb\n"), (at + 10, -1, answer))]

    assert find_requests(transfers(exchanges(b"A\nB\n"), [])).framings == {"lines": 12}
    assert find_requests(transfers(exchanges(b"A\nB\nC\n"), [])).framings == {"direction": 6}


def test_what_arrived_and_nobody_read_is_open() -> None:
    found = find_requests(transfers([(20, 5), (40, -3)], [15, 70]))
    assert found.rows[["arrived", "read", "sent"]].tolist() == [(15, 20, 40), (70, NEVER, NEVER)]


def test_a_connection_that_ended_leaves_nothing_open() -> None:
    found = find_requests(transfers([(20, 5), (40, -3), (60, 1, b"", 0)], [15, 55]))
    assert len(found.rows) == 1


def test_what_comes_after_an_answer_had_not_arrived_before_it() -> None:
    found = find_requests(transfers([(20, 5), (40, -3), (60, 1), (70, -1)], [15]))
    assert found.rows[["arrived", "seen"]].tolist() == [(15, 1), (60, 0)]


def test_a_connection_that_follows_at_the_same_address_has_its_own_arrivals() -> None:
    calls = [(20, 5), (40, -3), (60, 1, b"", 0), (90, 5), (95, -3)]
    found = find_requests(transfers(calls, [15, 55, 80]))
    assert found.rows[["arrived", "sent"]].tolist() == [(15, 40), (80, 95)]


def test_what_is_only_peeked_at_is_read_once() -> None:
    given = transfers([(20, 5), (21, 5), (40, -3)], [15])
    given.received["flags"] = np.array([2, 0])  # type: ignore[index]
    found = find_requests(given)
    assert found.rows[["arrived", "read", "bytes_in"]].tolist() == [(15, 21, 5)]


def test_what_is_read_where_others_are_asked_is_told_with_who_sent_it() -> None:
    given = transfers([(20, 5), (40, -3), (60, 5), (70, -3)], [15, 55])
    ready = {**given.ready, "tid": np.array([90, 91]), "pid": np.array([90, 91])}
    served = find_requests(replace(given, ready=ready))
    assert (served.clients, served.asked) == (frozenset({90, 91}), {})
    upstream = replace(given, ready=ready, ends={1: ("127.0.0.1:4711", False)})
    found = find_requests(upstream)
    assert len(found.rows) == 0
    assert [one.tolist() for one in found.asked[11]] == [[20, 60], [90, 91]]
    elsewhere = replace(upstream, ends={1: ("10.0.0.1:4711", False)})
    assert find_requests(elsewhere).asked[11][1].tolist() == [-1, -1]


def test_who_connected_to_a_unix_socket_asks_and_who_accepted_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = ["* 1 * 2", "* 2 * 1", "/run/a.sock 3 * 4", "* 4 * 3", "@a 5 /run/b.sock 6", "/run/b.sock 6 @a 5"]
    ss = tmp_path / "ss"
    ss.write_text("#!/bin/sh\n" + "".join(f"echo 'u_str ESTAB 0 0 {one}'\n" for one in shown))
    ss.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "tcp").write_text("\n")
    ends = socket_ends(tmp_path)
    assert ends == {3: ("unix /run/a.sock", True), 4: ("unix /run/a.sock", False)}
    given = transfers([(20, 5), (40, -3), (60, 5), (70, -3)], [15, 55])  # as one whose first call receives
    asks = replace(given, descriptors={(10, 5): "socket:[4]"}, ends=ends)
    assert len(find_requests(asks).rows) == 0
    serves = find_requests(replace(given, descriptors={(10, 5): "socket:[3]"}, ends=ends))
    assert (len(serves.rows), serves.connections) == (2, ("unix /run/a.sock (descriptor 5 of 10)",))


def both(one: Transfers, other: Transfers) -> Transfers:
    """The calls and arrivals of two connections."""

    def joined(left: Any, right: Any) -> dict[str, np.ndarray]:
        return {key: np.concatenate([left[key], right[key]]) for key in left}

    moved: dict[str, Any] = {
        name: {**getattr(other, name), key: np.full_like(getattr(other, name)[key], 8)}
        for name, key in (("sent", "sk"), ("received", "sk"), ("ready", "skaddr"))
    }
    other = replace(other, **moved)
    return replace(
        one, sent=joined(one.sent, other.sent), received=joined(one.received, other.received),
        ready=joined(one.ready, other.ready),
    )  # fmt: skip


def test_what_the_processes_of_a_server_ask_each_other_is_no_request_of_its_own() -> None:
    def told(by: int) -> Transfers:
        given = transfers([(20, 5), (40, -3), (60, 5), (70, -3)], [15, 55])
        return replace(given, ready={**given.ready, "pid": np.array([by, by]), "tid": np.array([by, by])})

    outside, inside = told(90), told(10)
    assert len(find_requests(both(outside, outside)).rows) == 4
    assert len(find_requests(both(outside, inside)).rows) == 2
    assert len(find_requests(both(outside, inside)).connections) == 1
    assert len(find_requests(inside).rows) == 2  # client and server of one command


def test_lines_of_a_batch_that_was_not_captured_are_counted_by_their_answers() -> None:
    calls: list[tuple[Any, ...]] = []
    for at in range(0, 1_000, 100):
        calls += [(at, 1, b"ask\n"), (at + 1, -1, b"answer\n")]
    calls += [(1_000, 1, b"ask again\n" * 40), *((1_001 + at, -1, b"answer\n") for at in range(40))]
    found = find_requests(transfers(calls, []))
    assert (found.framings, found.uncounted) == ({"lines": 50}, 0)


def test_who_is_asked_through_its_standard_input_serves_though_it_answered_first() -> None:
    calls = [(20, -6), (25, 6), (40, -6)]
    piped = replace(transfers(calls, []), descriptors={(10, 5): "pipe:[1]"}, ends={})
    assert not find_requests(piped).connections  # any other pair: who gets bytes first is asked
    received = {**piped.received, "argument": np.zeros(1, np.int64)}
    sent = {**piped.sent, "argument": np.ones(2, np.int64)}
    standard = {(10, 0): "pipe:[1]", (10, 1): "pipe:[2]"}
    found = find_requests(replace(piped, received=received, sent=sent, descriptors=standard))
    assert (found.rows["read"].tolist(), found.rows["sent"].tolist()) == ([25], [40])


def test_a_unix_socket_between_the_processes_of_a_server_is_no_connection_of_its_clients() -> None:
    def through_unix(by: int, at: int) -> Transfers:
        given = transfers([(at + 20, 5), (at + 40, -3), (at + 60, 5), (at + 70, -3)], [at + 15, at + 55])
        who = np.array([by, by])
        ready = {**given.ready, "pid": who, "tid": who, "family": np.array([1, 1])}
        return replace(given, ready=ready, ends={})

    outside, inside = through_unix(90, 0), through_unix(10, 0)
    assert len(find_requests(both(outside, inside)).rows) == 2
    # What it answered at an end that had this address before is not what was asked.
    before = through_unix(10, -200).ready
    ready = {key: np.concatenate([before[key], outside.ready[key]]) for key in before}
    reused = replace(outside, ready=ready)
    assert len(find_requests(both(reused, inside)).rows) == 2


def test_the_next_connection_at_the_address_of_a_unix_socket_begins_with_another_asker_and_answerer() -> None:
    calls = [(20, 5), (40, -3), (60, 1), (4_080, 5), (4_095, -3)]  # its farewell has no answer

    def by(*tellers: int, pids: list[int]) -> Any:
        given = transfers(calls, [15, 55, 4_070])
        received = {**given.received, "pid": np.array(pids), "tid": np.array(pids)}
        ready = {**given.ready, "tid": np.array(tellers), "pid": np.array(tellers), "family": np.ones(3, int)}
        found = find_requests(replace(given, received=received, ready=ready, ends={}))
        answered = found.rows[found.rows["answered"] != NEVER]
        return answered[["arrived", "sent"]].tolist()

    assert by(90, 90, 91, pids=[10, 10, 12]) == [(15, 40), (4_070, 4_095)]
    # A process that hands its connection on, and threads that share one, are on one connection.
    assert by(90, 90, 90, pids=[10, 10, 12]) == [(15, 40), (55, 4_095)]
    assert by(90, 90, 91, pids=[10, 10, 10]) == [(15, 40), (55, 4_095)]


def test_words_that_may_be_commands_are_not_a_protocol_while_no_answer_is_known() -> None:
    """A line asks, and a file is sent for an answer, of whose bytes nothing is known."""

    def exchanges(answer: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return [one for at in range(0, 120, 20) for one in ((at + 5, 1, b"get 7\n"), (at + 10, -1, *answer))]

    assert find_requests(transfers(exchanges((b"", 3_000)), [])).framings == {"direction": 6}
    assert find_requests(transfers(exchanges((b"$4096\r\nxx", 4_105)), [])).framings == {"resp": 6}


def test_answers_in_another_order_than_their_requests_are_said_to_be() -> None:
    calls: list[tuple[Any, ...]] = []
    for at in range(0, 3_000, 100):  # the second one overtakes the first, of which the third comes meanwhile
        calls += [(at + 5, 1, b"q 1\n"), (at + 10, 1, b"q 2\n"), (at + 20, -1, b"a 2\n")]
        calls += [(at + 30, 1, b"q 3\n"), (at + 40, -1, b"a 3\n"), (at + 50, -1, b"a 1\n")]
    found = find_requests(transfers(calls, []))
    assert (found.framing, found.overlapping) == ("direction", 1)
    plain = [one for at in range(0, 900, 20) for one in ((at + 5, 1, b"q\n"), (at + 10, -1, b"a\nb\n"))]
    assert find_requests(transfers(plain, [])).overlapping == 0


def test_what_a_connection_moves_without_being_read_is_read_when_it_arrives() -> None:
    given = transfers([(at + 10, -5) for at in range(0, 200, 20)], [at + 5 for at in range(0, 200, 20)])
    began = dict(
        zip(("time_ns", "skaddr", "oldstate", "newstate", "sport"), ([1], [7], [3], [1], [80]), strict=True)
    )
    lives = {key: np.array(one) for key, one in began.items()}
    moved = replace(given, sent={**given.sent, "protocol": np.full(10, 6)}, lives=lives)
    rows = find_requests(moved).rows
    assert (rows["sent"] - rows["arrived"]).tolist() == [5] * 10
    # Of one that was there before, it isn't known who asks.
    assert find_requests(replace(moved, lives={})).pushed == 1
    pushed = find_requests(replace(moved, ready=transfers([], []).ready))
    assert (len(pushed.rows), pushed.pushed) == (0, 1)


def test_a_connection_of_an_unknown_descriptor_is_served_by_a_process_that_only_serves() -> None:
    given = transfers([(20, -5), (40, 5), (60, -3), (70, 5), (90, -3)], [15, 35, 65])
    sent, received = (
        {**one, "argument": np.full(len(one["time_ns"]), -1)} for one in (given.sent, given.received)
    )
    unknown = replace(given, sent=sent, received=received)
    assert len(find_requests(unknown).rows) == 2
    asks = {**unknown.descriptors, (10, 6): "socket:[2]"}
    other = replace(unknown, descriptors=asks, ends={**unknown.ends, 2: ("127.0.0.1:4711", False)})
    assert len(find_requests(other).rows) == 0  # what went out first may be a question


def test_what_the_kernel_dropped_in_front_of_a_programs_own_datagram_sockets_is_counted(
    tmp_path: Path,
) -> None:
    def kernel(*sockets: tuple[int, int]) -> None:
        rows = [
            f"  {n}: 0100007F:26DF 00000000:0000 07 0:0 00:0 0 0 0 {inode} 2 0 {dropped}"
            for n, (inode, dropped) in enumerate(sockets)
        ]
        (tmp_path / "net").mkdir(exist_ok=True)
        (tmp_path / "net/udp").write_text("\n".join(["  sl  local_address ... drops", *rows]))

    def opens(pid: int, inode: int) -> None:
        folder = tmp_path / str(pid) / "fd"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(inode)).symlink_to(f"socket:[{inode}]")

    watch = DropWatch(tmp_path)
    opens(7, 501)
    kernel((501, 40), (502, 9))
    watch.look([7])
    assert not watch.dropped  # that was before
    opens(7, 503)
    kernel((501, 45), (502, 99), (503, 0))  # 502 is another program's
    watch.look([7])
    kernel((501, 47), (502, 99), (503, 30))
    watch.look([7])
    assert watch.dropped == (("UDP 127.0.0.1:9951", 7, 30), ("UDP 127.0.0.1:9951", 7, 7))
