"""Recordings of requests as files: shown, as a page, compared."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.files import started

from latlab.formats.hdr.hlog import read_log
from latlab.formats.recording import RecordingWriter
from latlab.model.machine.environment import Environment
from latlab.model.schedule import FOREIGN, INTERVAL, WAKE, Losses, Schedule, ScheduledThread, State
from latlab.requests import Found, summarise
from latlab.requests.connections import NEVER, REQUEST

latlab = partial(started.latlab, "requests")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two hundred requests, of which the slowest has no answer."""
    ended = 10_000_000
    intervals = np.array([(0, State.RUNNING, 0, 0, 0, 0, ended, -1, -1, -1)], INTERVAL)
    schedule = Schedule(
        0, ended, (0,), (ScheduledThread(11, 10, "<server>", "server", 0, ended),), intervals,
        np.zeros(0, WAKE),
        np.zeros(0, FOREIGN), Losses("bpf"),
    )  # fmt: skip
    rows = [
        (at * 1000, at * 1000, at * 1000 + 500, at * 1000 + 500, 11, 11, 0, 0, 1, 1, 1, 0)
        for at in range(199)
    ]
    rows.append((500_000, NEVER, NEVER, NEVER, 11, 11, 0, 1, 0, 0, 1, 0))
    found = Found(np.array(rows, REQUEST), ("a",), ("GET /<b>", "not read yet"), {"http": 200})
    folder = tmp_path / "run"
    with RecordingWriter(
        folder, "requests", parameters={}, environment=Environment({}), command="latlab"
    ) as writer:
        writer.append("requests", {name: found.rows[name].copy() for name in REQUEST.names or ()})
        writer.put("names", {"schema": 1, "kinds": found.kinds, "connections": found.connections})
        writer.put("requests", summarise(found, schedule, 0).to_json())
    return folder


def test_a_recording_is_shown_with_its_lower_bounds(run: Path) -> None:
    done = latlab("show", str(run))
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 request had no answer when the observation ended, the oldest for 9.5 ms" in done.stdout
    assert "≥ 9.5 ms" in done.stdout


def test_shown_json_is_strict_and_what_was_recorded(run: Path) -> None:
    def refuse(text: str) -> float:
        raise AssertionError(text)

    found = json.loads(latlab("show", str(run), "--json").stdout, parse_constant=refuse)
    assert (found["schema"], found["requests"], found["still_open"]) == (1, 199, 1)
    assert found == json.loads((run / "requests.json").read_text())


def test_a_page_escapes_what_comes_from_the_server(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = latlab("show", str(run), "--html", str(page))
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "GET /&lt;b&gt;" in text
    assert "GET /<b>" not in text


def test_the_slowest_are_written_for_perfetto(run: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    done = latlab("show", str(run), "--perfetto", str(trace))
    assert done.returncode == 0, done.stderr
    events = json.loads(trace.read_text())["traceEvents"]
    assert max(one["dur"] for one in events if one["ph"] == "X") == 9_500.0


def test_answered_requests_over_time_are_a_log_that_hdr_histogram_reads(run: Path, tmp_path: Path) -> None:
    log = tmp_path / "requests.hlog"
    done = latlab("show", str(run), "--hlog", str(log))
    assert done.returncode == 0, done.stderr
    intervals = read_log(log).intervals
    assert [(one.tag, one.histogram.count) for one in intervals] == [(None, 199), ("GET_/<b>", 199)]
    assert intervals[0].histogram.quantile(0.5) == 500


def test_a_recording_without_requests_has_no_log(run: Path, tmp_path: Path) -> None:
    (run / "names.json").unlink()
    done = latlab("show", str(run), "--hlog", str(tmp_path / "no.hlog"))
    assert (done.returncode, "has no requests for a log" in done.stderr) == (1, True)


def test_a_live_view_needs_a_terminal() -> None:
    done = latlab("top", "--pid", "1")
    assert (done.returncode, "needs a terminal" in done.stderr) == (2, True)


def test_recordings_are_compared_in_pairs(run: Path, tmp_path: Path) -> None:
    assert latlab("compare", str(run)).returncode == 2
    again = shutil.copytree(run, tmp_path / "again") / "requests.json"
    again.write_text(json.dumps({**json.loads(again.read_text()), "began_ns": 5}))
    done = latlab("compare", str(run), str(again.parent))
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "No verdict. 1 pair of recordings.")
    assert latlab("compare", str(run), str(run.parent)).returncode == 1


def test_a_recording_counts_once_where_pairs_are_compared(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    for other in (run, copy):
        done = latlab("compare", str(run), str(other))
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{other} is the same recording as {run}: it counts once" in done.stderr
