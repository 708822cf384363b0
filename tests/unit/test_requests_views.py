"""The slowest requests as timelines and for Perfetto, and requests in a diagnosis."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

from rich.console import Console

from latlab.live.requests_top import screen
from latlab.model.diagnosis.answer import Answer
from latlab.model.requests import (
    RequestKind,
    RequestPart,
    Requests,
    RequestSpan,
    RequestWake,
    SlowRequest,
    TailAnswer,
)
from latlab.reports.diagnosis.text import text
from latlab.reports.requests.perfetto import trace
from latlab.reports.requests.timeline import timelines

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
    assert "Requests: The slow requests take 800 µs longer" in said
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
