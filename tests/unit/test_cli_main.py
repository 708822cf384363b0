from __future__ import annotations

import subprocess
import sys

from tests.files.started import latlab

import latlab as latlab_package
from latlab.errors import InputError, UsageError


def test_an_unknown_command_is_named_on_one_line_with_exit_code_2() -> None:
    done = latlab("nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "latlab: unknown command 'nonsense'; see 'latlab --help'\n"


def test_help_goes_to_stdout_with_exit_code_0() -> None:
    done = latlab("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Find out where a program's latency comes from" in done.stdout


def test_a_group_without_a_command_shows_its_help_and_nothing_behind_it() -> None:
    done = latlab("messaging")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: latlab messaging" in done.stderr
    assert "; see" not in done.stderr


def test_the_list_of_commands_has_whole_sentences() -> None:
    for group in ("messaging", "runs", "system"):
        assert "..." not in latlab(group, "--help").stdout.partition("Commands:")[2]


def test_a_missing_option_is_said_in_one_clause() -> None:
    done = latlab("messaging", "report", "nowhere")
    assert done.returncode == 2
    assert ".;" not in done.stderr


def test_a_closed_standard_output_is_no_error() -> None:
    command = [sys.executable, "-m", "latlab", "messaging", "transports"]
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *command], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_completion_in_python_offers_what_is_not_imported_yet() -> None:
    assert {"bench", "diagnose", "messaging", "queues"} <= set(dir(latlab_package))


def test_an_input_error_says_file_place_fault_and_remedy() -> None:
    error = InputError("feed.itch", "the frame is cut short", place="offset 12", remedy="copy the file again")
    assert str(error) == "feed.itch: offset 12: the frame is cut short; copy the file again"


def test_a_usage_error_leaves_with_2() -> None:
    assert UsageError("no").exit_code == 2
