"""`latlab dashboard`, asked over HTTP and looked at by a browser.

Over 400 lines: one application and one page, at which each of them looks.
"""

from __future__ import annotations

import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from latlab.cli.dashboard import title
from latlab.live.dashboard import Dashboard, changes, drawing, frame, mean_time_ns
from latlab.live.queues_top import latency_text
from latlab.model.queues.live import QueueNow, Snapshot, StageNow
from latlab.queues import Application, Happenings, Live, applications

pytestmark = pytest.mark.side_by_side  # what is shown is read, not how fast

APP = textwrap.dedent(
    """
    import queue, threading, time
    from latlab.queues import instrument, set_application

    set_application("dashboard-test")
    jobs = instrument(queue.Queue(100), name="jobs", source="load", drain="work")

    def work():
        while jobs.get() is not None:
            time.sleep(0.005)

    threading.Thread(target=work, daemon=True).start()
    print("ready", flush=True)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        jobs.put(1)
    """
)


def queue_now(number: int = 0, **more: object) -> QueueNow:
    values: dict[str, object] = {
        "number": number,
        "name": f"q{number}",
        "kind": "bounded",
        "source": "a",
        "drain": "b",
        "capacity": 100,
        "fill_low": 2,
        "fill_high": 2,
        "high_water": 5,
        "total_in": 12,
        "total_out": 10,
        "dropped": 0,
        "blocked": 0,
        "rate_in_hz": 1000.0,
        "rate_out_hz": 1000.0,
        **more,
    }
    return QueueNow(**values)  # type: ignore[arg-type]


def snapshot(*queues: QueueNow, t_s: float = 0.0, limits: str | None = None) -> Snapshot:
    return Snapshot(int(t_s * 1e9), queues, (StageNow("b", "", "", "busy", 0.5, 0.0, 1000.0, 2),), limits)


def test_the_mean_time_is_what_is_inside_over_what_enters() -> None:
    pipeline = snapshot(queue_now(0), queue_now(1, source="b", drain="c", fill_low=4, fill_high=4))

    assert mean_time_ns(pipeline) == 6 / 1000 * 1e9
    assert mean_time_ns(snapshot(queue_now(0, rate_in_hz=0.0))) is None


def test_a_frame_says_what_the_page_needs_and_no_more() -> None:
    document = frame(snapshot(queue_now(), limits="b"), [], alive=True)

    assert document["queues"] == [[0, 2, 5, 1000, 1000, 0, 0]]
    assert document["limits"] == "b"
    assert 'class="box limit"' in drawing(snapshot(queue_now(), limits="b"))


def test_of_the_next_look_only_the_rows_that_differ_are_told() -> None:
    before = frame(snapshot(queue_now(0), queue_now(1)), [], alive=True)
    after = changes(frame(snapshot(queue_now(0), queue_now(1, fill_high=9)), [], alive=True), before)

    assert after["queues"] == [[1, 9, 5, 1000, 1000, 0, 0]]
    assert after["stages"] == []
    assert (before["whole"], after["whole"]) == (True, False)


def test_where_a_stage_has_come_the_frame_is_whole() -> None:
    before = frame(snapshot(queue_now()), [], alive=True)
    more = replace(snapshot(queue_now()), stages=(StageNow("new", "", "", "", None, None, 0.0, 0),))
    after = changes(frame(more, [], alive=True), before)

    assert after["whole"]
    assert after["queues"] == [[0, 2, 5, 1000, 1000, 0, 0]]


def test_the_drawing_says_how_full_a_queue_is_of_what_it_holds_and_how_full_it_was() -> None:
    large = queue_now(1, source="b", drain="c", capacity=65536, fill_high=20_000, high_water=65536)
    free = queue_now(2, source="c", drain="d", capacity=0)
    svg = drawing(snapshot(queue_now(), large, free))

    labels = ("2 of 100, most 5", "20 k of 65.5 k, most 65.5 k", ">2, most 5<")
    assert [label in svg for label in labels] == [True, True, True]


def test_the_page_is_called_by_the_application_with_the_process_beside() -> None:
    known = [
        Application("x", "ready", 7, application="feed"),
        Application("y", "dead", 8, application="gone"),
    ]

    assert title(("7",), known) == "feed (7)"
    assert title(("8", "feed"), known) == "8, feed"


def test_a_source_has_no_rate_in_the_drawing() -> None:
    stages = tuple(StageNow(name, "", "", "", None, None, rate, 0) for name, rate in (("a", 0.0), ("b", 7.0)))
    svg = drawing(replace(snapshot(queue_now()), stages=stages))

    assert ("7/s" in svg, "0/s" in svg) == (True, False)


def test_stages_of_a_type_that_limits_are_marked_in_the_drawing() -> None:
    seen = replace(
        snapshot(queue_now(), limits="worker"), stages=(StageNow("b", "worker", "", "", 0.9, 0, 1, 2),)
    )

    assert 'class="box limit"' in drawing(seen)


class Still:
    """An application that does nothing."""

    alive = True

    def look(self) -> Snapshot:
        return snapshot(queue_now())


def documents(port: int, count: int) -> list[dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/events")
    answer = connection.getresponse()
    found: list[dict[str, Any]] = []
    while len(found) < count:
        line = answer.readline().decode()
        if line.startswith("data: {"):
            found.append(json.loads(line.removeprefix("data: ")))
    connection.close()
    return found


def test_a_browser_that_comes_late_is_told_everything_and_then_what_changes() -> None:
    page = Dashboard(Still(), lambda _: [], "still", per_second=50)
    serving = threading.Thread(target=page.run)
    serving.start()
    try:
        early = documents(page.port, 5)
        late = documents(page.port, 5)
    finally:
        page.stop()
        serving.join()

    for told in (early, late):
        assert told[0]["whole"]
        assert len(told[0]["queues"]) == 1
        assert [one["queues"] for one in told[1:] if not one["whole"]][-1] == []


class Growing:
    """An application of many queues, each with more in it than in the look before."""

    alive = True
    looks = 0

    def look(self) -> Snapshot:
        self.looks += 1
        return snapshot(*(replace(queue_now(), number=n, fill_high=self.looks) for n in range(400)))


def test_a_browser_that_takes_little_at_a_time_is_told_whole_frames() -> None:
    source = Growing()
    page = Dashboard(source, lambda _: [], "slow", per_second=100)
    serving = threading.Thread(target=page.run)
    serving.start()
    found = b""
    try:
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", page.port))
            slow.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            until = source.looks + 600  # far more than the kernel's buffers hold
            while source.looks < until:
                time.sleep(0.01)
            while len(found) < 4_000_000:
                found += slow.recv(1 << 16)
    finally:
        page.stop()
        serving.join()
    told = found.split(b"\n\n")[:-1]
    frames = [json.loads(one.partition(b"data: ")[2]) for one in told if one.startswith(b"event: frame")]
    assert len(frames) > 5
    # What was not taken is left out whole: of a frame that was begun everything comes.
    assert all(len(one["queues"]) == 400 for one in frames if one["whole"])


def test_drops_stalls_bursts_and_changes_are_told_once() -> None:
    happenings = Happenings()

    def kinds(*queues: QueueNow, t_s: float, limits: str | None = None) -> list[str]:
        return [one.kind for one in happenings.feed(snapshot(*queues, t_s=t_s, limits=limits))]

    assert kinds(queue_now(), t_s=0) == []
    assert kinds(queue_now(dropped=3), t_s=0.1) == ["drop"]
    assert kinds(queue_now(dropped=3), t_s=0.2) == []
    assert kinds(queue_now(dropped=3), t_s=1.3) == ["stall"]
    assert kinds(queue_now(dropped=3), t_s=1.4) == []
    assert kinds(queue_now(dropped=3, total_out=99, fill_low=90, fill_high=90), t_s=1.5) == ["burst"]
    assert kinds(queue_now(dropped=3, total_out=199), queue_now(1), t_s=1.6) == ["appeared"]
    assert kinds(queue_now(1), t_s=1.7, limits="b") == ["gone", "limit"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dashboard of a running application; its address with a token."""
    app = tmp_path_factory.mktemp("dashboard") / "app.py"
    app.write_text(APP)
    with subprocess.Popen([sys.executable, str(app)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        command = [
            sys.executable,
            "-m",
            "latlab",
            "dashboard",
            str(process.pid),
            "--port",
            "0",
            "--token",
            "secret",
        ]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as dashboard:
            assert dashboard.stderr is not None
            yield dashboard.stderr.readline().strip()
            dashboard.send_signal(signal.SIGTERM)
            assert dashboard.wait(20) == 0
        process.kill()


def port_of(address: str) -> int:
    found = re.search(r":(\d+)/", address)
    assert found is not None, address
    return int(found[1])


def test_without_its_token_nothing_is_shown(served: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(served), timeout=20)
    connection.request("GET", "/events?token=guess")

    assert connection.getresponse().status == 403


def test_another_host_s_name_is_refused_with_the_right_token(served: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(served), timeout=20)
    connection.request("GET", "/?token=secret", headers={"Host": "evil.example"})

    assert connection.getresponse().status == 421


def test_two_hundred_browsers_are_told_everything() -> None:
    page = Dashboard(Still(), lambda _: [], "many", per_second=10, token="t")
    serving = threading.Thread(target=page.run)
    serving.start()
    asked = [http.client.HTTPConnection("127.0.0.1", page.port, timeout=30) for _ in range(200)]
    try:
        for one in asked:
            one.request("GET", "/events?token=t")
        told = [one.getresponse() for one in asked]
        assert [answer.status for answer in told] == [200] * 200
        assert {answer.readline() for answer in told} == {b"event: topology\n"}
    finally:
        for one in asked:
            one.close()
        page.stop()
        serving.join()


def test_a_process_is_shown_by_its_name(served: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(served), timeout=20)
    connection.request("GET", "/?token=secret")

    assert re.search(r"<h1>dashboard-test \(\d+\)</h1>", connection.getresponse().read().decode())


def frames_until_limited(port: int) -> list[dict[str, Any]]:
    """The frames of at most half a minute, the last of which says what limits."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/events?token=secret")
    answer = connection.getresponse()
    frames: list[dict[str, Any]] = []
    held: dict[int, Any] = {}  # rows, as the page holds them
    until = time.monotonic() + 30
    while time.monotonic() < until and not (frames and frames[-1]["limits"] == "work"):
        line = answer.readline().decode()
        if line.startswith("data: {"):
            frames.append(json.loads(line.removeprefix("data: ")))
            held.update((row[0], row) for row in frames[-1]["queues"])
            frames[-1]["queues"] = list(held.values())
    connection.close()
    return frames


def test_frames_come_as_events_with_what_limits(served: str) -> None:
    frames = frames_until_limited(port_of(served))

    assert frames[-1]["limits"] == "work"
    assert frames[-1]["queues"][0][1] > 50


class Wrapper(BaseHTTPRequestHandler):
    """A page around the dashboard whose loading takes some seconds: the browser dumps what it has by then."""

    address = ""

    def do_GET(self) -> None:
        if self.path == "/slow":
            time.sleep(5)
        body = (
            f"<iframe id=f width=1400 height=1000 src='{self.address}'></iframe><img src=/slow>"
            "<script>onload = function () { "
            "document.body.innerHTML = document.getElementById('f').contentDocument.body.innerHTML }</script>"
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing to say."""


@pytest.mark.peer
def test_a_browser_draws_the_page_and_its_frames(served: str, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("chromium is not installed")
    frames_until_limited(port_of(served))
    Wrapper.address = served
    server = ThreadingHTTPServer(("127.0.0.1", 0), Wrapper)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        done = subprocess.run(
            [
                *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
                *(f"--user-data-dir={tmp_path}", "--disable-web-security", "--dump-dom"),
                f"http://127.0.0.1:{server.server_address[1]}/",
            ],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
    finally:
        server.shutdown()
        server.server_close()

    # On a loaded machine the judgement may change from one look to the next; the page shows what it is told.
    assert re.search(r'id="verdict">(Bottleneck: work|No stage limits)', done.stdout)
    assert "load → work: " in done.stdout
    assert "no traces" in done.stdout
    assert re.search(r"now [0-9.]+ (ms|s); over the last minute p50", done.stdout)


def test_percentiles_of_traced_events_are_shown_live(tmp_path: Path) -> None:
    layout = tmp_path / "layout.toml"
    layout.write_text('name = "live-latency"\n[trace]\nevery = 4\n')
    command = [sys.executable, "-m", "latlab", "demo", "--layout", str(layout), "--seconds", "12"]
    with subprocess.Popen(
        [*command, "-o", str(tmp_path / "run")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as demo:
        until = time.monotonic() + 60
        while not any(one.live and one.application == "live-latency" for one in applications()):
            assert time.monotonic() < until
            time.sleep(0.05)
        with Live(["live-latency"]) as live:
            latency = None
            while time.monotonic() < until and live.alive and (latency is None or latency.p99_ns is None):
                latency = live.look().latency
                time.sleep(0.1)
        demo.terminate()

    assert latency is not None
    assert latency.events >= 100
    assert latency.p50_ns is not None
    assert latency.p99_ns is not None
    assert 1_000 < latency.p50_ns <= latency.p99_ns < 60e9
    assert "traced events in" in latency_text(latency)


def test_an_application_without_traces_is_said_to_have_none() -> None:
    assert frame(snapshot(queue_now()), [], alive=True)["latency"] is None
    assert latency_text(None) == "end to end: no traces"
