"""Progress is told on stderr, unless -q asks for none; -v says where an error came from."""

from __future__ import annotations

import sys
import threading

import click
import pytest

from latlab.cli.kit import progress
from latlab.cli.kit.lazy import SuggestingGroup
from latlab.errors import InputError


@click.command()
@click.option("--fail", is_flag=True)
def work(fail: bool) -> None:
    """Do something."""
    progress.teller("work")("begins")
    if fail:
        raise InputError("file", "is not there")
    click.echo("result")


@click.group(cls=SuggestingGroup)
def group() -> None:
    """Hold the command."""


group.add_command(work)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    group.main(["work", *arguments], standalone_mode=False)
    told = capsys.readouterr()
    return told.out, told.err


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys) == ("result\n", "latlab work: begins\n")


def test_quiet_leaves_progress_out_and_the_result_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "-q") == ("result\n", "")


def test_an_error_says_where_it_came_from_only_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError):
        run(capsys, "--fail")
    assert "Traceback" not in capsys.readouterr().err
    with pytest.raises(InputError):
        run(capsys, "--fail", "-v")
    assert "Traceback" in capsys.readouterr().err


def test_a_clock_is_drawn_where_somebody_watches_and_gone_afterwards(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "_SHORT_S", 0.0)
    monkeypatch.setattr(progress, "_EVERY_S", 0.01)
    drawn = threading.Event()
    echo = click.echo

    def seen(*arguments: object, **options: bool) -> None:
        echo(*arguments, **options)  # type: ignore[arg-type]
        drawn.set()

    monkeypatch.setattr(click, "echo", seen)
    with progress.clock("recording", 9.0):
        assert drawn.wait(10)
    told = capsys.readouterr().err
    assert "recording: 0 s, at most 9 s left" in told
    assert told.endswith("\r\x1b[K")


def test_no_clock_is_drawn_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.clock("recording", 9.0):
        pass
    assert capsys.readouterr().err == ""
