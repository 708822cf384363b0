from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest
from tests.files.started import latlab

from latlab.formats.hdr import hlog
from latlab.model.statistics.histogram import Histogram

FIXTURE = Path(__file__).parents[1] / "data" / "recordings" / "v1"
SHARED = Path(os.environ.get("LATLAB_SHARED", Path(__file__).parents[3] / "shared"))


show = partial(latlab, "show")


def test_a_recording_is_shown_with_its_series_and_its_environment() -> None:
    done = show(FIXTURE, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["schema"], found["kind"], found["complete"]) == (1, "fixture", True)
    assert found["series"] == {"fills": {"rows": 3, "columns": ["t_ns", "queue", "fill"]}}
    assert found["environment"]["facts"]["kernel.release"] == {"value": "6.1.0"}


def test_a_recording_is_shown_as_text_without_escape_codes_where_nobody_watches() -> None:
    done = show(FIXTURE)
    assert done.returncode == 0
    assert "a recording of fixture" in done.stdout
    assert "t_ns, queue, fill" in done.stdout
    assert "\x1b" not in done.stdout


def test_an_interval_log_is_shown_with_its_totals(tmp_path: Path) -> None:
    path = tmp_path / "log without a suffix"
    with hlog.LogWriter(path) as out:
        out.write(Histogram.of([1000, 2000]), 1, 2)
        out.write(Histogram.of([1_000_000]), 2, 3, tag="A")
    found = json.loads(show(path, "--json").stdout)
    keys = ("schema", "histograms", "count", "p50", "p99.9", "max")
    assert [found[key] for key in keys] == [1, 2, 3, 2000, 1_000_447, 1_000_447]
    assert found["by_tag"]["A"]["count"] == 1


def test_the_log_of_jhiccup_is_shown_with_its_known_totals() -> None:
    path = SHARED / "data" / "hlog" / "jHiccup-2.0.7S.logV2.hlog"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    found = json.loads(show(path, "--json").stdout)
    keys = ("histograms", "count", "p99.9", "max")
    assert [found[key] for key in keys] == [62, 48761, 1745879039, 1796210687]


def test_a_percentile_table_is_shown(tmp_path: Path) -> None:
    hlog.write_hgrm(tmp_path / "x.hgrm", Histogram.of(range(1, 1001)))
    found = json.loads(show(tmp_path / "x.hgrm", "--json").stdout)
    assert (found["count"], found["p50"], found["max"]) == (1000, 500.0, 1000.0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty; it reads recordings"),
        (b"\x7fELF\0\0", "is not a format that latlab can read; it reads recordings"),
        (b"#[Histogram log format version 1.2]\n1,1,1,HISTF", "line 2: "),
    ],
)
def test_what_cannot_be_shown_is_one_line_on_stderr(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    done = show(path, "--json")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"latlab: {path}: ")
    assert said in done.stderr


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_missing_file_and_a_folder_that_is_no_recording_are_named(tmp_path: Path, name: str) -> None:
    done = show(tmp_path / name)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_results_of_another_tool_are_shown_and_damaged_ones_are_none(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    results = [
        {"command": name, "times": [level, level * 1.01]} for name, level in (("./a", 1.0), ("./b", 2.0))
    ]
    path.write_text(json.dumps({"results": results}))
    found = json.loads(show(path, "--json").stdout)
    assert (found["tool"], list(found["benchmarks"])) == ("hyperfine", ["./a", "./b"])
    assert found["benchmarks"]["./b"] == {"processes": 2, "values": 2, "typical_ns": pytest.approx(2.01e9)}
    assert "results of 2 benchmarks (hyperfine)" in show(path).stdout
    path.write_text(path.read_text()[:-9])
    done = show(path)
    assert (done.returncode, "is not a format that latlab can read" in done.stderr) == (1, True)
