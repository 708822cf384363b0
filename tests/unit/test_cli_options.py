"""The kit of options: one type for each quantity."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from latlab.cli.kit.options import CPUS, Count, Duration, Seconds, Share


def read(kind: click.ParamType[Any], written: str) -> Any:
    return kind.convert(written, None, None)


def test_seconds_are_taken_with_and_without_their_unit() -> None:
    assert [read(Seconds(), one) for one in ("5", "5s", "0.5", "500ms", "2m")] == [5.0, 5.0, 0.5, 0.5, 120.0]


@pytest.mark.parametrize("written", ["inf", "nan", "-1", "0", "5x", "1e400"])
def test_a_time_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(click.BadParameter):
        read(Seconds(), written)


def test_shares_counts_durations_and_cpus_are_read() -> None:
    assert read(Share(), "2%") == 0.02
    assert read(Count(), "64k") == 64_000
    assert read(Duration(), "1.5ms") == 1_500_000
    assert read(CPUS, "0-2,5") == (0, 1, 2, 5)


def test_a_mistyped_command_is_told_its_neighbour_at_every_level() -> None:
    from latlab.cli._main import latlab

    for group, typed, near in (
        ([], "diagnoze", "diagnose"),
        (["queues"], "lsit", "list"),
        (["bench"], "copmare", "compare"),
        (["market"], "insde", "inside"),
        (["messaging"], "conforn", "conform"),
        (["runs"], "exprot", "export"),
        (["system"], "chekc", "check"),
        (["stubs"], "captrue", "capture"),
    ):
        result = CliRunner().invoke(latlab, [*group, typed])
        assert (f"unknown command '{typed}'; did you mean '{near}'?" in result.output, result.exit_code) == (
            True,
            2,
        )
