"""The slowest requests as timelines and for Perfetto, and requests in a diagnosis."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

from rich.console import Console

from latlab.cli.requests.record import _read
from latlab.live.requests_top import screen
from latlab.model.diagnosis.answer import Answer
from latlab.model.evidence.requests import TailPlace
from latlab.model.requests import (
    CommonTrait,
    QuantileForecast,
    RequestForecast,
    RequestKind,
    RequestPart,
    Requests,
    RequestSpan,
    RequestWake,
    SlowRequest,
    TailAnswer,
)
from latlab.reports.diagnosis.text import text
from latlab.reports.json import dumps
from latlab.reports.requests.perfetto import trace
from latlab.reports.requests.sentence import finding
from latlab.reports.requests.text import common_lines, part_rows, requests_lines, slow_rows
from latlab.reports.requests.timeline import timelines
from latlab.reports.sections.figures import bars

SPANS = (
    RequestSpan("server 11", "running", "", 0, 250_000),
    RequestSpan("server 11", "lock", "futex 0x40, <released>", 250_000, 1_000_000),
)
SLOW = SlowRequest(
    1_000_000, 5_000_000, "127.0.0.1:80", "GET /<b>",
    (RequestPart("lock", "futex 0x40", 750_000, 0.75), RequestPart("running", "", 250_000, 0.25)),
    timeline=SPANS, wakes=(RequestWake(1_000_000, "worker 12", "server 11"),),
)  # fmt: skip
FOUND = Requests(
    2.0, 400, 200.0, 4, "http", 90_000, 900_000, 990_000, 1_000_000, 0,
    (RequestKind("GET /", 400, 90_000, 900_000, 990_000, 1_000_000),), SLOW.parts, (), 5, (SLOW,), 0,
    answer=TailAnswer("", "lock", "futex 0x40", 800_000.0, 0.9, 5, 5, 0, 20, 1e-6),
)  # fmt: skip


def test_a_timeline_has_a_lane_a_thread_and_an_arrow_a_wake_up() -> None:
    drawn = timelines([SLOW])
    assert drawn.count('class="rq-lane"') == 3  # server, worker, and the axis
    assert 'class="rq-lock" style="left:25.000%;width:75.000%"' in drawn
    assert 'class="up" style="left:100.000%" title="worker 12 wakes server 11 at 1 ms"' in drawn
    assert "GET /<b>" not in drawn
    assert "<released>" not in drawn


def test_requests_without_a_timeline_draw_nothing() -> None:
    assert timelines([replace(SLOW, timeline=(), wakes=())]) == ""


def test_perfetto_gets_a_slice_a_part_and_an_arrow_a_wake_up() -> None:
    events = json.loads(trace(FOUND))["traceEvents"]
    slices = [one for one in events if one["ph"] == "X" and one["name"] in ("running", "blocked on a lock")]
    assert [(one["ts"], one["dur"]) for one in slices] == [(5_000.0, 250.0), (5_250.0, 750.0)]
    assert {one["ph"] for one in events if one["name"] == "wakes"} == {"X", "s", "f"}
    names = {one["args"]["name"] for one in events if one["ph"] == "M"}
    assert {"server 11", "worker 12", "1. GET /<b> on 127.0.0.1:80"} <= names


def test_a_diagnosis_of_a_server_tells_of_its_requests() -> None:
    answer = Answer("server", "Cannot tell.", None, "unknown", 0.0, (), (), (), (), requests=FOUND)
    said = text(answer, width=100)
    assert "Requests: The slowest hundredth of the requests take 800 µs longer" in said
    assert "400 requests on 4 connections" in said
    document = answer.to_json()["requests"]
    assert (document["schema"], document["p99_ns"]) == (1, 900_000)
    assert replace(answer, requests=None).to_json()["requests"] is None


def test_a_live_view_shows_one_look_after_the_other() -> None:
    out = StringIO()
    with screen(Console(file=out, force_terminal=True, width=110, height=40)) as show:
        show(FOUND)
        show(replace(FOUND, distrust=("too short",)))
    assert "p99 900 µs" in " ".join(out.getvalue().split())
    assert "Not trustworthy: too short." in out.getvalue()


def test_slices_of_a_track_nest_and_arrows_have_both_ends() -> None:
    spans = (
        RequestSpan("reader 11", "running", "", 0, 1_500),
        RequestSpan("reader 11", "thread", "", 1_500, 2_000),
        RequestSpan("worker 12", "running", "", 2_000, 9_000),
    )
    wakes = tuple(RequestWake(at, "reader 11", "worker 12") for at in (300, 900, 1_700, 1_900, 2_500))
    other = replace(SLOW, ns=9_000, timeline=spans, wakes=(*wakes, RequestWake(0, "client 9", "reader 11")))
    events = json.loads(trace(replace(FOUND, slowest=(SLOW, other))))["traceEvents"]
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for one in events:
        if one["ph"] == "X":
            tracks.setdefault((one["pid"], one["tid"]), []).append((one["ts"], one["ts"] + one["dur"]))
    for slices in tracks.values():
        open_until: list[float] = []
        for begin, end in sorted(slices, key=lambda one: (one[0], -one[1])):
            while open_until and open_until[-1] <= begin + 1e-6:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + 1e-6
            open_until.append(end)
    begun = [one["id"] for one in events if one["ph"] == "s"]
    assert sorted(begun) == sorted(one["id"] for one in events if one["ph"] == "f")
    assert len(set(begun)) == len(begun)
    named = {(one["pid"], one["tid"]) for one in events if one["name"] == "thread_name"}
    assert {(one["pid"], one["tid"]) for one in events if one["ph"] in "Xsf"} <= named


def test_a_slow_request_is_mostly_the_kind_of_part_that_its_parts_sum_to() -> None:
    parts = (RequestPart("running", "", 400, 0.4), RequestPart("lock", "a", 300, 0.3),
             RequestPart("lock", "b", 300, 0.3))  # fmt: skip
    assert slow_rows(replace(FOUND, slowest=(replace(SLOW, parts=parts),)))[0][2] == "blocked on a lock 60 %"


def test_a_request_whose_server_was_stopped_is_not_told_as_one_that_waits_for_another_process() -> None:
    parts = (RequestPart("process", TailPlace.STOPPED.value, 900, 0.9), RequestPart("running", "", 100, 0.1))
    assert slow_rows(replace(FOUND, slowest=(replace(SLOW, parts=parts),)))[0][2] == "stopped 90 %"


def test_the_holder_of_a_lock_is_told_by_its_function_or_by_what_it_waited_for() -> None:
    ran = "worker in crunch, called by compact"
    for holder, further, said in (
        ("runnable", "", f"0x40 in serve), held by {ran}, which was runnable without a CPU. So do"),
        ("running (worker in crunch)", "", "0x40 in serve), held by worker in crunch, which was running. So"),
        ("disk (fsync)", "", "0x40 in serve), whose holder was on the disk (fsync). So do"),
        ("process (peer, in ask)", "", "whose holder was waiting for another process (peer, in ask). So do"),
        ("process (peer, in ask)", "process (stopped by a signal, or frozen)",
         "waiting for another process (peer, in ask), which was stopped by a signal, or frozen. So do"),
        ("", "", "0x40 in serve, held by server). So do"),
    ):  # fmt: skip
        answer = replace(
            FOUND.answer, where="futex 0x40 in serve, held by server", holder=holder, ran=ran, further=further
        )
        assert said in finding(replace(FOUND, answer=answer))


def test_what_another_process_did_for_which_the_slow_ones_waited_is_told_to_the_end_in_one_sentence() -> None:
    answer = TailAnswer(
        "", "process", "postgres", 8e5, 0.9, 5, 5, 0, 20, 1e-6, holder="process (postgres)",
        further="timer (in pg_sleep)",
    )  # fmt: skip
    said = (
        "(postgres), which was waiting for another process (postgres), which was waiting for a timer (in pg_"
    )
    assert said in finding(replace(FOUND, answer=answer))


def test_the_sentence_and_the_table_tell_of_the_same_requests() -> None:
    own = (RequestPart("disk", "fsync", 7e5, 0.9),)
    few = replace(FOUND, answer=replace(FOUND.answer, group="slowest", of_slow=8, slow=7, parts=own))
    assert finding(few).startswith("The 8 slowest requests take 800 µs longer")
    assert "So do 7 of these 8, and 0 of 20 median ones" in finding(few)
    lines = requests_lines(few)
    title = lines.index("Where the 8 slowest requests spend their time, beside the median ones:")
    assert "fsync" in lines[title + 1]
    assert "futex" not in lines[title + 1]


def test_a_place_that_makes_much_less_than_its_part_is_told_with_its_own_share() -> None:
    answer = replace(FOUND.answer, where_share=0.5)
    assert "90 % of that blocked on a lock (mostly futex 0x40, 50 %)" in finding(
        replace(FOUND, answer=answer)
    )


def test_a_burst_is_told_with_how_many_came_before() -> None:
    answer = replace(FOUND.answer, kind="thread", where="server was busy with earlier ones", ahead=210)
    assert "waiting for a thread (server was busy with earlier ones, 210 of them at the median)" in finding(
        replace(FOUND, answer=answer)
    )


def test_a_server_that_was_stopped_is_told_so_and_not_to_wait_for_a_process() -> None:
    where = "stopped by a signal, or frozen"
    said = finding(replace(FOUND, answer=replace(FOUND.answer, kind="process", where=where)))
    assert "90 % of that stopped by a signal, or frozen. So do" in said
    rows = part_rows([RequestPart("process", where, 900.0, 0.9)], ())
    assert rows[0][:2] == ("stopped", "by a signal, or frozen")


def test_many_small_parts_of_a_kind_are_one_line() -> None:
    parts = [RequestPart("runnable", f"{name} had the CPU", 20.0, 0.02) for name in "abc"]
    rows = part_rows([RequestPart("lock", "a", 940.0, 0.94), *parts], parts[:1])
    assert rows == [
        ("blocked on a lock", "a", "940 ns", "94.0 %", "0 ns"),
        ("runnable without a CPU", "3 others", "60 ns", "6.0 %", "20 ns"),
    ]


def test_what_was_saved_is_read_back_as_it_was() -> None:
    answer = replace(
        FOUND.answer, candidates=(("lock", 0.9), ("running", 0.1)), parts=SLOW.parts, group="slowest",
        common=(CommonTrait("lock", "futex 0x40", 5, 5, 0, 20, 1e-4),), holder="disk (fsync)", ahead=3,
    )  # fmt: skip
    saved = replace(FOUND, answer=answer, framings={"http": 400})
    back = _read(json.loads(dumps(saved.to_json())))
    assert back == saved
    assert requests_lines(back) == requests_lines(saved)


def test_bars_with_long_names_lie_below_each_other_in_their_order() -> None:
    drawn = bars({"slow": {"waiting for a thread": 2.0, "running": 1.0}}, "ms", across=True)
    (bar,) = drawn["data"]
    assert (bar["orientation"], bar["y"], bar["x"]) == ("h", ["waiting for a thread", "running"], [2.0, 1.0])
    assert drawn["layout"]["xaxis"] == {"title": {"text": "ms"}}
    assert drawn["layout"]["yaxis"] == {"autorange": "reversed"}


def test_what_slow_requests_have_in_common_is_told_with_how_many_have_it() -> None:
    trait = CommonTrait("lock", "the interpreter's lock", 5, 5, 0, 20, 1e-4)
    (line,) = common_lines(replace(FOUND, answer=replace(FOUND.answer, common=(trait,))))
    assert (
        line == "lock: the interpreter's lock, in 5 of 5 slow requests and 0 of 20 median ones (p = 0.0001)"
    )


def test_a_forecast_says_of_which_requests_it_is() -> None:
    """Their percentiles may be others than those of all."""
    quantiles = tuple(
        QuantileForecast(name, 9_000, 9_000, 5_000, 4_000, 6_000) for name in ("p50", "p99", "p99.9")
    )
    told = RequestForecast("cpu", "", quantiles, simulated=100)
    assert "at the same arrivals of the first 100 requests:" in "\n".join(
        requests_lines(replace(FOUND, forecasts=(told,)))
    )
    of_all = replace(told, simulated=FOUND.requests)
    assert "at the same arrivals:" in "\n".join(requests_lines(replace(FOUND, forecasts=(of_all,))))
