"""How a connection's bytes are cut into requests, by what the first bytes of each call show."""

from __future__ import annotations

import pytest
from tests.files.tables import table_of

from latlab.requests.framing import Framing, Stream, UnparsedError, candidates
from latlab.requests.framing.http import Http, path_kind
from latlab.requests.framing.message import UNKNOWN, Message
from latlab.requests.framing.postgresql import PostgreSql, fingerprint
from latlab.requests.framing.resp import Resp

SET = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1\r\n1\r\n"


def query(text: str) -> bytes:
    body = text.encode() + b"\0"
    return b"Q" + (len(body) + 4).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    ("framing", "data", "kind"),
    [
        (Resp(), SET, "SET"),
        (Resp(), b"*1\r\n$4\r\nping\r\n", "PING"),
        (Resp(), b"*2\r\n$8\r\nJSON.GET\r\n$1\r\na\r\n", "JSON.GET"),
        (Resp(), b"*1\r\n$8\r\nFT._LIST\r\n", "FT._LIST"),
        (Resp(), b"*1\r\n$14\r\nCMS.INITBYDIM2\r\n", "CMS.INITBYDIM2"),
        (Resp(), b"PING\r\n", "PING"),
        (Resp(), b"geoadd2 k 1 2 a\r\n", "GEOADD2"),
        (Http(), b"GET /orders/4711?page=2 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /orders/#"),
        (Http(), b"POST /x HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "POST /x"),
        (PostgreSql(), query("SELECT a FROM b WHERE c='x' AND d=1"), "SELECT a FROM b WHERE c=? AND d=?"),
    ],
)  # fmt: skip
def test_a_whole_request_has_its_length_and_its_kind_without_values(
    framing: Framing, data: bytes, kind: str
) -> None:
    message = framing.request(data)
    assert message is not None
    assert (message.length, message.kind) == (len(data), kind)


@pytest.mark.parametrize(
    ("framing", "data"),
    [
        (Resp(), b"*1\r\n$2\r\n\x01\x02\r\n"),
        (Resp(), b"\x00\x01"),
        (Resp(), b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n"),
        (Http(), b"GET lost\r\n"),
        (Http(), b"hello"),
        (PostgreSql(), b"QUIT\r\n"),
        (PostgreSql(), b"\0\0\0\x10\x04\xd2\x16\x2e" + 8 * b"\0"),  # cancels another, unanswered
    ],
)
def test_what_is_not_of_the_protocol_does_not_parse(framing: Framing, data: bytes) -> None:
    with pytest.raises(UnparsedError):
        framing.request(data)


test_a_path_is_named_without_ids_and_without_its_query = table_of(
    path_kind,
    {
        "/": "/",
        "/users/17/photos/3.jpg": "/users/#/photos/#.jpg",
        "/u/550e8400-e29b-41d4-a716-446655440000": "/u/#",
        "/commit/62a6306b1f": "/commit/#",
        "/deadbeefcafe": "/deadbeefcafe",  # a word, as far as anybody can tell: no digit
        "/api/v2/items/0099aabbccddeeff": "/api/v2/items/#",
        "/s/dGhpc0lzQVRva2VuMTIz": "/s/#",
        "/search?q=secret&page=2": "/search",
        "http://host.example:80/a/1": "/a/#",
    },
)


def test_lists_of_values_in_a_query_are_one() -> None:
    assert fingerprint("SELECT  x FROM t1 WHERE a IN (1, 2,3) AND b = 'it''s';") == (
        "SELECT x FROM t1 WHERE a IN (?, …) AND b = ?"
    )


def test_a_prepared_statement_has_the_name_of_its_query() -> None:
    def message(sort: bytes, body: bytes) -> bytes:
        return sort + (len(body) + 4).to_bytes(4, "big") + body

    framing = PostgreSql()
    parse = message(b"P", b"s1\0UPDATE a SET b = $1\0\0\0") + message(b"S", b"")
    bind = message(b"B", b"\0s1\0\0\0\0\0\0\0") + message(b"E", b"\0\0\0\0\0") + message(b"S", b"")
    stream = Stream(framing.request)
    cuts = stream.feed(1, len(parse), parse) + stream.feed(2, len(bind), bind)
    assert [cut.kind for cut in cuts] == ["UPDATE a SET b = $1", "UPDATE a SET b = $1"]


def test_a_farewell_to_postgresql_is_no_request_that_waits_for_an_answer() -> None:
    stream = Stream(PostgreSql().request)
    query = b"Q\0\0\0\x0dselect 1\0"
    assert [cut.length for cut in stream.feed(1, 14, query)] == [14]
    assert stream.feed(2, 5, b"X\0\0\0\x04") == []
    assert stream.began is None
    assert not stream.bad


def test_each_request_of_a_batch_is_cut_also_across_calls() -> None:
    stream = Stream(Resp().request)
    batch = SET * 3
    cuts = stream.feed("first", 40, batch[:40]) + stream.feed("second", len(batch) - 40, batch[40:])
    assert [(cut.began, cut.kind, cut.length) for cut in cuts] == [
        ("first", "SET", len(SET)),
        ("first", "SET", len(SET)),
        ("second", "SET", len(SET)),
    ]


def test_a_body_that_was_not_captured_is_skipped_by_its_length() -> None:
    head = b"POST /a HTTP/1.1\r\nContent-Length: 5000\r\n\r\n"
    stream = Stream(Http().request)
    assert stream.feed(1, 4096, head) == []
    cuts = stream.feed(2, len(head) + 5000 - 4096 + len(head), b"\0" * 200)
    assert ([cut.kind for cut in cuts], stream.lost) == (["POST /a"], True)


def test_behind_what_was_not_captured_nothing_is_cut() -> None:
    stream = Stream(Resp().request)
    assert len(stream.feed(1, 10 * len(SET), SET * 2)) == 2
    assert stream.lost


def test_a_body_in_chunks_has_an_unknown_length() -> None:
    message = Http().answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "GET /")
    assert message is not None
    assert message.length == UNKNOWN


@pytest.mark.parametrize(
    ("asked", "status", "body"),
    [("GET /", "200 OK", 5), ("HEAD /", "200 OK", 0), ("GET /", "304 Not Modified", 0)],
)
def test_answers_without_a_body_end_with_their_head(asked: str, status: str, body: int) -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n".encode()
    message = Http().answer(head + b"hello", asked)
    assert message is not None
    assert message.length == len(head) + body


@pytest.mark.parametrize(
    ("reply", "length"),
    [
        (b"+OK\r\n", 5), (b":1000\r\n", 7), (b"$5\r\nhello\r\n", 11), (b"$-1\r\n", 5),
        (b"*2\r\n:1\r\n$1\r\na\r\n", 15), (b"*0\r\n", 4), (b"$5000\r\nabc", 5009),
    ],
)  # fmt: skip
def test_a_reply_of_redis_has_its_length(reply: bytes, length: int) -> None:
    message = Resp().answer(reply, "GET")
    assert message is not None
    assert message.length == length


def test_a_protocol_is_proposed_when_half_of_the_beginnings_may_be_of_it() -> None:
    assert candidates([SET, SET, b"\x01\x02\x03\x04"])[0].name == "resp"
    assert candidates([b"\xff\xff\xff\n", b"\xff\xfe\xff\xff", b"\x01\n"])[0].name == "lines"
    assert candidates([b"\xff\x01\xff\n", b"\xff\x01\xff\n"]) == []


def test_what_steers_a_terminal_is_in_no_kind_of_a_request() -> None:
    assert path_kind("/a\x1b]x\x9b/b") == "/a?]x?/b"
    assert fingerprint("SELECT \x1b]0;x") == "SELECT ?]?;x"


def test_a_client_of_postgresql_may_ask_for_encryption_first_and_go_on_without() -> None:
    framing = PostgreSql()
    asked = framing.request(b"\0\0\0\x08\x04\xd2\x16\x2f")
    assert asked is not None
    assert (asked.length, asked.kind) == (8, "negotiate encryption")
    assert framing.answer(b"N", asked.kind) == Message(1)
    with pytest.raises(UnparsedError):
        framing.answer(b"S", asked.kind)
