"""What results that were measured apart can't tell is told by a command that can be copied."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from latlab.bench import Results, compare_results, of_baseline, parse
from latlab.reports.bench.sweep import growth_json, sweep_text
from latlab.reports.bench.text import interval

TIMES = [np.array([100.0 + i]) for i in range(8)]


def results(tool: str = "latlab", revision: str = "", modified: str = "False") -> Results:
    environment = {"git.revision": revision, "git.modified": modified} if revision else {}
    return Results(tool, {"one": TIMES}, environment)


def why(before: Results, now: Results, folder: Path, target: str = "speed.py:Fixture") -> str:
    advice = of_baseline(before, now, [parse(str(folder / target))], Path("base.json"), folder)
    (judged,) = compare_results(before, now, smallest_effect=0.01, alpha=0.05, advice=advice).values()
    return judged.result.why


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "speed.py").touch()
    return tmp_path / "below"


def test_two_revisions_are_compared_by_the_command_of_both(folder: Path) -> None:
    said = why(results(revision="a" * 40), results(revision="b" * 40), folder)
    assert said.endswith("latlab bench rev aaaaaaaaaaaa --target below/speed.py:Fixture")


def test_changes_that_are_not_committed_are_committed_first(folder: Path) -> None:
    said = why(results(revision="a" * 40), results(revision="a" * 40, modified="True"), folder)
    assert said.startswith("commit the changes, then")
    assert "latlab bench rev aaaaaaaaaaaa --target below/speed.py:Fixture" in said


def test_of_one_revision_more_runs_tell_it(folder: Path) -> None:
    said = why(results(revision="a" * 40), results(revision="a" * 40), folder)
    assert f"latlab bench run {folder}/speed.py:Fixture --save-baseline base.json" in said


def test_without_a_revision_both_files_are_named(folder: Path) -> None:
    said = why(results(), results(), folder)
    assert "latlab bench ab OLD/" in said
    assert " A B" not in said


def test_hyperfines_commands_are_in_the_command(tmp_path: Path) -> None:
    commands = {"sleep 0.1": TIMES, "grep 'x y' f": TIMES}
    found = Results("hyperfine", commands)
    (judged,) = compare_results(found, found, smallest_effect=0.01, alpha=0.05).values()
    words = shlex.split(judged.result.why.partition("interleaved: ")[2])
    assert words == ["latlab", "bench", "ab", *commands]


def test_an_open_end_of_an_interval_is_said_in_words() -> None:
    assert interval((-0.01, 0.02)) == "[-1 %, +2 %]"
    assert interval((None, 0.02)) == "(at most +2 %)"
    assert interval((0.01, None)) == "(at least +1 %)"
    assert interval((None, None)) == "(too few measurements for an interval)"


def test_the_measured_growth_comes_before_its_law() -> None:
    sizes = [10, 100, 1000, 10_000]
    few = [("One", {"size": n}, 2.0 * n) for n in sizes]
    (line,) = sweep_text(growth_json(few), []).splitlines()
    assert line.startswith("One: 1,000 × the time for 1,000 × the size (10 to 10,000); grows as n (")
    noisy = [("One", {"size": n}, t) for n, t in zip(sizes, (50.0, 55.0, 90.0, 120.0), strict=True)]
    (line,) = sweep_text(growth_json(noisy), []).splitlines()
    assert line.startswith("One: 2.4 × the time for 1,000 × the size (10 to 10,000); the law is open")
    (line,) = sweep_text(growth_json(noisy[:2]), []).splitlines()
    assert line.startswith("One: 1.1 × the time for 10 × the size (10 to 100); the law is open: it takes 4")
