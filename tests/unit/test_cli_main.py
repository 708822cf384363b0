from __future__ import annotations

from tests.files.started import latlab

from latlab.errors import InputError, UsageError


def test_an_unknown_command_is_named_on_one_line_with_exit_code_2() -> None:
    done = latlab("nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "latlab: unknown command 'nonsense'; see 'latlab --help'\n"


def test_help_goes_to_stdout_with_exit_code_0() -> None:
    done = latlab("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "latency laboratory" in done.stdout


def test_an_input_error_says_file_place_fault_and_remedy() -> None:
    error = InputError("feed.itch", "the frame is cut short", place="offset 12", remedy="copy the file again")
    assert str(error) == "feed.itch: offset 12: the frame is cut short; copy the file again"


def test_a_usage_error_leaves_with_2() -> None:
    assert UsageError("no").exit_code == 2
