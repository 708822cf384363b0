"""Every command against an output that fails: a full disk, a reader that has gone, few files, no home."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from latlab.cli._main import latlab as root
from latlab.cli._main import main

LATLAB = [sys.executable, "-m", "latlab"]


def commands(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command that there is, groups included."""
    yield path
    if isinstance(group, click.Group):
        with click.Context(group) as context:
            for name in group.list_commands(context):
                command = group.get_command(context, name)
                assert command is not None
                yield from commands(command, (*path, name))


EVERY = sorted(set(commands(root)))
# What each says without measuring anything: the output that fails is its own.
QUICK = {
    ("clean",): ["--list", "--json"],
    ("completion",): ["bash"],
    ("queues", "list"): ["--json"],
    ("system", "check"): [],
    ("system", "show"): ["--json"],
    ("jitter",): ["-r", "0.1", "--json"],
}


def into(output: int, arguments: list[str]) -> tuple[int, str]:
    """Run latlab in a fork, with its stdout at a descriptor: its exit code and its stderr."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.dup2(output, 1)
            os.dup2(write, 2)
            sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - descriptors, not paths
            sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
            main(arguments)
        except SystemExit as left:
            code = int(left.code or 0)
            sys.stdout.flush()  # as the interpreter does at its end, where a failure makes it 120
        except Exception as error:  # noqa: BLE001 - whatever escapes is the finding
            sys.stderr.write(f"escaped: {error!r}\n")
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


@pytest.fixture
def full() -> Iterator[int]:
    """A disk without room."""
    with Path("/dev/full").open("w") as file:
        yield file.fileno()


@pytest.fixture
def gone() -> Iterator[int]:
    """A pipe whose reader has gone."""
    read, write = os.pipe()
    os.close(read)
    yield write
    os.close(write)


@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_a_full_disk_is_one_line_and_exit_code_1(command: tuple[str, ...], full: int) -> None:
    said = "latlab: the output: No space left on device; free some space, or write elsewhere\n"
    assert into(full, [*command, "--help"]) == (1, said)


@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_a_reader_that_has_gone_is_no_failure(command: tuple[str, ...], gone: int) -> None:
    assert into(gone, [*command, "--help"]) == (0, "")


@pytest.mark.parametrize("command", list(QUICK), ids=" ".join)
def test_a_result_that_finds_no_room_is_told_in_the_last_line(command: tuple[str, ...], full: int) -> None:
    code, said = into(full, [*command, *QUICK[command]])
    assert code == 1
    assert said.endswith("the output: No space left on device; free some space, or write elsewhere\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_stderr_leaves_the_exit_code(unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*LATLAB, "--version"], stdout=full, stderr=full, check=False, env=environment)
    assert done.returncode == 1


def test_a_home_that_cannot_be_written_loses_no_result() -> None:
    home = {**os.environ, "HOME": "/proc", "XDG_STATE_HOME": "/proc/none"}
    done = subprocess.run(
        [*LATLAB, "jitter", "-r", "0.1", "--json"], env=home, capture_output=True, text=True, check=False
    )
    assert '"cores"' in done.stdout
    assert "Traceback" not in done.stderr


def test_too_few_open_files_are_one_line() -> None:
    done = subprocess.run(
        ["bash", "-c", f"ulimit -n 6; exec {sys.executable} -m latlab queues list"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr


def test_a_library_that_finds_no_memory_is_one_line(monkeypatch: pytest.MonkeyPatch, full: int) -> None:
    def no_room() -> None:
        raise ImportError("libx.so: failed to map segment from shared object")

    monkeypatch.setattr("latlab.system.environment.capture", no_room)
    code, said = into(full, ["system", "show", "--json"])
    assert code == 1
    assert said == "latlab: there is no memory left; raise the limit on memory, or close other programs\n"
