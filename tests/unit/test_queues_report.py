import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from latlab.cli import main
from latlab.model.machine.environment import Environment
from latlab.queues import analyse, landmarks
from latlab.queues.model.tandem import Line, observe, simulate
from latlab.reports.queues.compare_html import ComparedSide, write_comparison
from latlab.reports.queues.html import write_queues_report
from latlab.reports.queues.text import analysis_lines, compare_lines


@pytest.fixture(scope="module")
def line() -> Any:
    times = simulate(Line(slower=0.3), np.array([2]), 4_000, seed=1)
    return observe(Line(slower=0.3), times, 0, 100_000.0), times


def test_a_landmark_stands_where_the_samples_have_it(line: Any) -> None:
    observation, _ = line
    samples = dict(observation.samples)
    dropped = np.zeros(len(samples["t_ns"]), np.uint64)
    first = int(observation.sweeps["t_ns"][300])
    dropped[(samples["t_ns"] >= first) & (samples["queue"] == 0)] = 3
    found = landmarks(dataclasses.replace(observation, samples={**samples, "dropped": dropped}))
    assert [mark.t_ns for mark in found if mark.name == "first drop"] == [first]


def test_trading_starts_with_the_eleventh_event_into_a_book(line: Any) -> None:
    observation, _ = line
    queues = tuple(
        dataclasses.replace(q, drain_type="book" if q.number == 4 else "") for q in observation.queues
    )
    samples = dict(observation.samples)
    begin = samples["in"][samples["queue"] == 4][0]
    came = np.maximum(samples["in"].astype(np.int64) - int(begin) - 1_000, 0)
    samples["in"] = np.where(samples["queue"] == 4, came, samples["in"]).astype(np.uint64)
    found = landmarks(dataclasses.replace(observation, queues=queues, samples=samples))
    mine = samples["queue"] == 4
    expected = samples["t_ns"][mine][np.argmax(samples["in"][mine] > 10)]
    assert [mark.t_ns for mark in found if mark.name == "trading starts"] == [expected]


def test_an_analysis_tells_the_landmarks_in_text_and_json(line: Any) -> None:
    observation, _ = line
    found = analyse(observation)
    full = next(mark for mark in found.landmarks if mark.name == "first full queue")
    assert f"first full queue: {full.subject}" in "\n".join(analysis_lines(found))
    assert {"t_ns": full.t_ns, "name": full.name, "subject": full.subject} in found.to_json()["landmarks"]


def test_a_comparison_page_draws_both_runs(line: Any, tmp_path: Any) -> None:
    observation, _ = line
    one, two = (ComparedSide(name, observation, analyse(observation)) for name in ("one", "two"))
    write_comparison(tmp_path / "page.html", one, two, Environment({}), ["the kernel"])
    page = (tmp_path / "page.html").read_text()
    assert "differ in the kernel" in page
    assert page.count('"name": "before"') == page.count('"name": "after"') > 5
    assert page.count("<svg") >= 2


def test_the_page_names_every_queue_and_the_limiting_stage(line: Any, tmp_path: Any) -> None:
    observation, times = line
    traces = {
        "queue": np.full(100, 2),
        "push_ns": times.put[0, 2, 1000:1100].astype(np.int64),
        "pop_ns": times.taken[0, 2, 1000:1100].astype(np.int64),
    }
    path = tmp_path / "page.html"
    write_queues_report(path, observation, analyse(observation), Environment({}), None, traces)
    page = path.read_text()
    assert "Bottleneck: stage-2" in page
    assert all(f"queue-{i}" in page for i in range(5))
    assert "Traced events against samples" in page
    assert "mean by Little" in page
    assert "arrivals/s" in page


def test_a_comparison_shows_both_answers_and_what_only_one_run_has(line: Any) -> None:
    observation, _ = line
    before = analyse(observation)
    after = analyse(observation, exclude=("queue-4",))
    text = "\n".join(compare_lines(before, after))
    assert "before  Bottleneck: stage-2" in text
    assert "queue queue-4: in the first run only" in text
    assert "+0.0 %" in text


def test_reports_of_what_is_no_recording_are_one_line(tmp_path: Any, capsys: Any) -> None:
    for arguments in (["report", str(tmp_path)], ["compare", str(tmp_path), str(tmp_path)]):
        with pytest.raises(SystemExit) as left:
            main(["queues", *arguments])
        assert left.value.code == 1
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_analysis_of_a_line_is_a_document_that_json_takes(line: Any) -> None:
    document = json.loads(json.dumps(analyse(line[0]).to_json()))
    assert (document["schema"], document["limiting_stage"]) == (1, "stage-2")
