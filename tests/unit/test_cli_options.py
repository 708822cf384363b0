"""The kit of options: one type for each quantity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from latlab.cli.kit.options import CPUS, EFFECT, Count, Duration, Seconds, Share, Words
from latlab.errors import UsageError


def read(kind: click.ParamType[Any], written: str) -> Any:
    return kind.convert(written, None, None)


def test_seconds_are_taken_with_and_without_their_unit() -> None:
    assert [read(Seconds(), one) for one in ("5", "5s", "0.5", "500ms", "2m")] == [5.0, 5.0, 0.5, 0.5, 120.0]


@pytest.mark.parametrize("written", ["inf", "nan", "-1", "0", "5x", "1e400"])
def test_a_time_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(click.BadParameter):
        read(Seconds(), written)


def test_shares_counts_durations_and_cpus_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latlab.system.cpus.online_cpus", lambda: list(range(8)))
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


def test_help_as_a_word_is_the_help_at_every_level() -> None:
    from latlab.cli._main import latlab

    for typed, asked in (
        (["help"], ["--help"]),
        (["help", "bench"], ["bench", "--help"]),
        (["help", "bench", "run"], ["bench", "run", "--help"]),
        (["bench", "help", "run"], ["bench", "run", "--help"]),
        (["jitter", "help"], ["jitter", "--help"]),
    ):
        said, wanted = CliRunner().invoke(latlab, typed), CliRunner().invoke(latlab, asked)
        assert (typed, said.output, said.exit_code) == (typed, wanted.output, 0)


def test_a_group_that_measures_has_q_and_v_too() -> None:
    from latlab.cli._main import latlab

    listed = CliRunner().invoke(latlab, ["jitter", "--help"]).output
    assert "-q, --quiet" in listed
    assert "-v, --verbose" in listed


@pytest.mark.parametrize(
    "call",
    [["jitter"], ["jitter", "study"], ["stubs", "load"], ["bench", "run", "x.py"]],
    ids=" ".join,
)
def test_a_cpu_that_this_machine_does_not_run_is_told_alike_by_every_command(call: list[str]) -> None:
    assert "this machine runs no CPU 4095" in refused(*call, "--cpus", "0,4095")


def refused(*arguments: str) -> str:
    """What a call says that is refused before anything is done."""
    from latlab.cli._main import latlab

    with pytest.raises((UsageError, click.UsageError)) as caught:
        latlab.main(list(arguments), standalone_mode=False)
    return str(caught.value)


@pytest.mark.parametrize("call", [("check",), ("tune",)])
def test_settings_are_not_judged_for_a_core_that_is_not_there(call: tuple[str, ...]) -> None:
    assert "runs no CPU 4095" in refused("system", *call, "--cpus", "0,4095")
    assert "names no CPU" in refused("system", *call, "--cpus", "")


def test_one_foreign_result_is_told_what_it_lacks(tmp_path: Path) -> None:
    times = {"times": [1.0, 1.1, 1.2]}
    file = tmp_path / "three.json"
    file.write_text(json.dumps({"results": [{"command": name, **times} for name in "abc"]}))
    assert "holds 3 benchmarks and nothing to compare with; name B" in refused("bench", "compare", str(file))


def test_verdicts_without_a_baseline_are_refused_before_anything_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "fixture.py"
    file.write_text("class Nothing:\n    def run(self): pass\n")
    said = refused("bench", "run", str(file), "--junit", str(tmp_path / "out.xml"))
    assert "--baseline FILE" in said
    assert not (tmp_path / "out.xml").exists()


def test_a_remedy_is_said_once() -> None:
    with pytest.raises(click.BadParameter) as caught:
        EFFECT.convert("inf", None, None)
    assert caught.value.message.count("write 2% or 0.02") == 1


def test_a_word_where_a_number_belongs_is_called_no_whole_number(capsys: pytest.CaptureFixture[str]) -> None:
    from latlab.cli._main import main

    with pytest.raises(SystemExit):
        main(["diagnose", "--pid", "abc"])
    assert "'abc' is not a whole number; see" in capsys.readouterr().err


def test_words_are_taken_each_once_and_a_wrong_one_is_told_the_nearest() -> None:
    measures = Words(("typical", "mean", "tail"), "measure")
    assert read(measures, "mean, tail,mean") == ("mean", "tail")
    with pytest.raises(click.BadParameter, match="no measure tial; did you mean 'tail'"):
        read(measures, "tial")


def completed(*arguments: str) -> list[str]:
    """What a shell is offered for the last of the arguments."""
    from click.shell_completion import ShellComplete

    from latlab.cli._main import latlab

    shell = ShellComplete(latlab, {}, "latlab", "_LATLAB_COMPLETE")
    return [one.value for one in shell.get_completions(list(arguments[:-1]), arguments[-1])]


def test_values_are_completed() -> None:
    assert completed("messaging", "run", "--transport", "ring") == ["ring"]
    assert completed("messaging", "run", "--sweep", "message") == ["messages="]
    assert completed("stubs", "emit", "--language", "p") == ["python"]
    assert completed("stubs", "calibrate", "--kind", "sle")[0].startswith("sleep")
    assert completed("bench", "ab", "--measures", "mean,t") == ["mean,typical", "mean,tail"]
    assert completed("system", "check", "--cpus", "0")[:1] == ["0"]
