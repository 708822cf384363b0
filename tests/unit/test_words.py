from __future__ import annotations

import json

import numpy as np
import pytest

from latlab import words as text
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
