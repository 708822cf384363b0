from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from latlab import words as text
from latlab.model import evidence
from latlab.model.evidence.said import Kind
from latlab.reports.json import document


class Terminal:
    def __init__(self, watched: bool) -> None:
        self.watched = watched

    def isatty(self) -> bool:
        return self.watched


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (0, "0 ns"),
        (9.6, "9.6 ns"),
        (850, "850 ns"),
        (999.6, "1 µs"),
        (12_345, "12.3 µs"),
        (4_560_000, "4.56 ms"),
        (1_200_000_000, "1.2 s"),
        (3.6e12, "3,600 s"),
        (-2500, "-2.5 µs"),
        (None, "–"),
        (float("nan"), "–"),
    ],
)
def test_a_duration_is_shown_in_the_unit_that_reads_best(ns: float | None, shown: str) -> None:
    assert text.duration(ns) == shown


def test_counts_and_shares_read_as_they_are_spoken() -> None:
    assert (text.count(1234567), text.share(0.1234), text.share(None)) == ("1,234,567", "12.3 %", "–")


def test_a_relative_difference_has_three_digits_whatever_its_size() -> None:
    shown = [text.relative(one) for one in (-0.5117, 0.00229, 0.0, 64.86171, None)]
    assert shown == ["-51.2 %", "0.229 %", "0 %", "6,486 %", "–"]
    assert text.relative(0.5117, signed=True) == "+51.2 %"


def test_a_plain_table_aligns_numbers_to_the_right_and_has_no_escape_codes() -> None:
    found = text.table(
        ["queue", "fill", "p99"], [["a", 7, "12 ns"], ["book → x", 1024, None]], title="Queues"
    )
    assert found.splitlines() == [
        "Queues",
        "queue     fill    p99",
        "--------  ----  -----",
        "a            7  12 ns",
        "book → x  1024      –",
    ]


def test_a_table_without_headings_has_no_line_for_them() -> None:
    assert text.table(["", ""], [["seed", "x"], ["state", "y"]]) == "seed   x\nstate  y"


def test_a_styled_table_shows_markup_as_the_text_that_it_is() -> None:
    found = text.table(["queue"], [["[red]evil[/red]"]], styled=True, width=60)
    assert "\x1b[" in found
    assert "[red]evil[/red]" in found


def test_a_row_that_does_not_fit_the_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells under 1"):
        text.table(["a"], [[1, 2]])


@pytest.mark.parametrize(
    ("watched", "environment", "expected"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_style_is_for_those_who_watch_and_did_not_decline(
    watched: bool, environment: dict[str, str], expected: bool
) -> None:
    assert text.wants_style(Terminal(watched), environment) is expected


def test_a_json_document_begins_with_its_schema_and_is_strict() -> None:
    found = document({"p50": np.float64("nan"), "fills": np.arange(3), "schema": 7})
    assert found.startswith('{\n  "schema": 1,')
    assert json.loads(found) == {"schema": 1, "p50": None, "fills": [0, 1, 2]}


def test_a_json_result_that_is_no_object_is_refused() -> None:
    with pytest.raises(TypeError, match="a JSON result is an object"):
        document([1])


@pytest.mark.parametrize(
    ("written", "ns"),
    [("100us", 100_000), ("1.5 ms", 1_500_000), ("2s", 2_000_000_000), ("3m", 180_000_000_000), ("7ns", 7)],
)
def test_a_duration_is_read_as_it_is_written(written: str, ns: int) -> None:
    assert text.duration_of(written) == ns


@pytest.mark.parametrize("written", ["5", "us", "-1s", "1 h", "nan s", ""])
def test_what_is_not_a_duration_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(ValueError, match="write 100us, 1ms or 2s"):
        text.duration_of(written)


def test_shares_and_sizes_are_read_back() -> None:
    assert [text.share_of(one) for one in ("2%", "2 %", "0.02")] == [0.02, 0.02, 0.02]
    assert [text.count_of(one) for one in ("64", "1k", "1.5M", "64MiB")] == [64, 1000, 1_500_000, 64 << 20]
    assert [text.size(one) for one in (512, 1536, 64 << 20, None)] == ["512 B", "1.5 KiB", "64 MiB", "–"]
    assert text.share(0.021, signed=True) == "+2.1 %"


def test_a_confidence_that_resamples_cap_is_a_bound() -> None:
    assert [text.sureness(one) for one in (0.5, 0.9925, 1.0)] == ["50 %", "at least 99 %", "100 %"]


def test_small_numbers_of_things_have_a_prefix_where_room_is_short() -> None:
    assert [text.short(one) for one in (7, 9_999, 12_345, 2_500_000, 2e9)] == [
        "7",
        "9,999",
        "12.3 k",
        "2.5 M",
        "2 G",
    ]


def test_frequencies_periods_and_seconds_have_one_unit() -> None:
    assert [text.frequency(one) for one in (250, 2_400_000_000, 1_250.0)] == ["250 Hz", "2.4 GHz", "1.25 kHz"]
    assert (text.period(4e6), text.period(1.5e9)) == ("4.000 ms", "1.500 s")
    assert [text.seconds(one) for one in (3, 0.25, 90)] == ["3 s", "250 ms", "90 s"]


_UNITS = re.compile(r" (ns|µs|us|ms|s|min|KiB|MiB|GiB|kB|MB|GB|B|bytes?|k?Hz|MHz|GHz)\b| %")
# Of hover texts and ticks, where a share has as many digits as its place on the axis.
_AXES = {"reports/sections/figures.py"}


def written_by_hand(source: str) -> Iterator[tuple[int, str]]:
    """Places in f-strings where a unit stands behind a value that no function of `words` has written."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, behind in pairwise(node.values):
            if not isinstance(value, ast.FormattedValue) or not isinstance(behind, ast.Constant):
                continue
            made = value.value.func if isinstance(value.value, ast.Call) else None
            name = made.attr if isinstance(made, ast.Attribute) else getattr(made, "id", "")
            if _UNITS.match(str(behind.value)) and name not in text.__all__:
                yield value.lineno, ast.unparse(value.value) + str(behind.value)[:8]


def test_quantities_are_written_by_the_module_of_words_alone() -> None:
    root = Path(text.__file__).parent
    found = [
        f"{file.relative_to(root)}:{line}: {what}"
        for file in sorted(root.rglob("*.py"))
        if file.name != "words.py" and str(file.relative_to(root)) not in _AXES
        for line, what in written_by_hand(file.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_unit_behind_a_bare_value_is_found() -> None:
    source = 'a = f"{x:.1f} ms, {count(y)} bytes, {z} %, {words.size(n)}"'
    assert [what for _, what in written_by_hand(source)] == ["x ms, ", "z %, "]


def test_a_wording_of_evidence_names_its_way_of_writing_instead_of_a_unit() -> None:
    for module in pkgutil.iter_modules(evidence.__path__, f"{evidence.__name__}."):
        importlib.import_module(module.name)
    wordings = [kind.value for kinds in Kind.__subclasses__() for kind in kinds]
    assert len(wordings) > 500
    assert [one for one in wordings if re.search(r"\{[^}]*\} ?(ns|µs|us|ms|s|Hz|KiB|MiB|%)(?!\w)", one)] == []


def test_json_is_written_by_the_one_strict_writer() -> None:
    root = Path(text.__file__).parent
    found = [
        str(file.relative_to(root))
        for file in sorted(root.rglob("*.py"))
        if "_inject" not in file.parts and re.search(r"\bjson\.dumps?\(", file.read_text(encoding="utf-8"))
    ]
    assert found == ["formats/documents.py"]
