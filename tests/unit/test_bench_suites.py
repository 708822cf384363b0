"""Folders of fixtures: which files they hold, and what a pattern means."""

from __future__ import annotations

from pathlib import Path

import pytest

from latlab.bench.processes.child_asv import kind
from latlab.bench.results.api import expand
from latlab.bench.results.suites import is_wanted, may_hold, modules, remedy
from latlab.bench.results.targets import parse
from latlab.errors import InputError, UsageError


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("time_it", "time"),
        ("TimeIt", "time"),
        ("timeraw_import", "timeraw"),
        ("peakmem_it", "peakmem"),
        ("track_size", "track"),
        ("MemObject", "mem"),
        ("timeit", ""),
        ("memory", ""),
        ("time_", ""),
        ("Timer", ""),
    ],
)
def test_a_name_says_which_of_asvs_kinds_a_benchmark_is(name: str, expected: str) -> None:
    assert kind(name) == expected


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (None, True),
        ("io", True),
        ("io.Load", True),
        ("io.Load.time_csv", True),
        ("*.time_csv", True),
        ("io.Lo", False),
        ("other", False),
    ],
)
def test_a_pattern_is_a_name_or_its_first_parts_or_has_wildcards(pattern: str | None, found: bool) -> None:
    assert is_wanted("io.Load.time_csv", pattern) is found
    assert may_hold("io", pattern) or not found


def test_asvs_settings_say_which_folder_holds_the_benchmarks(tmp_path: Path) -> None:
    (tmp_path / "asv.conf.json").write_text('{"url": "http://x//y", // a comment\n "benchmark_dir": "here",}')
    for name in (
        "io.py",
        "__init__.py",
        "below/__init__.py",
        "below/x.py",
        "env/y.py",
    ):
        (tmp_path / "here" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "here" / name).touch()
    (tmp_path / "setup.py").touch()
    assert [name for name, _ in modules(tmp_path)] == ["below.x", "io"]
    assert [name for name, _ in modules(tmp_path / "here")] == ["below.x", "io"]
    (tmp_path / "asv.conf.json").write_text("{")
    with pytest.raises(InputError, match="is not asv's JSON"):
        modules(tmp_path)


def test_a_folder_without_fixtures_is_an_error_and_pytest_is_named_for_its_tests(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError) as plain:
        expand(parse(str(tmp_path)))
    assert "write a class" in str(plain.value.remedy)
    (tmp_path / "test_it.py").write_text("def test_it(tmp_path, benchmark):\n    benchmark(int)\n")
    for text in (str(tmp_path), str(tmp_path / "test_it.py")):
        with pytest.raises(UsageError) as tests:
            expand(parse(text))
        assert f"pytest --latlab {text}" in str(tests.value.remedy)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "def _own(): pass\ndef total(n): pass\ndef run():\n    return 1\n",
            "name a function, as app.py:run",
        ),
        ("class Book:\n    def add(self): pass\n", "or name a function"),
        ("def test_add(benchmark): pass\n", "these are pytest's tests: pytest --latlab app.py"),
    ],
)
def test_a_file_without_fixtures_is_told_what_of_it_can_be_measured(
    text: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "app.py"
    file.write_text(text)
    assert remedy(file, "app.py").endswith(said)
