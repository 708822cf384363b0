"""Every command against an output that fails: a full disk, a reader that has gone, few files, no home."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from latlab.cli._main import latlab as root
from latlab.cli._main import main
from latlab.cli.kit.output_failures import say_failure
from latlab.errors import LatlabError

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


def closed(number: int, arguments: list[str]) -> tuple[int, str, str]:
    """Run latlab with a standard stream closed, as `>&-` does: its exit code, its stdout and its stderr."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {number}>&-', "sh", *LATLAB, *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A disk without room; what finds none there is kept in the test's folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
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
def test_a_result_that_finds_no_room_is_kept_and_told_in_the_last_line(
    command: tuple[str, ...], full: int
) -> None:
    code, said = into(full, [*command, *QUICK[command]])
    assert code == 1
    told = re.search(r"the output: No space left on device; what it was to say is in (\S+)\n$", said)
    assert told, said
    kept = Path(told[1]).read_text(encoding="utf-8")
    if "--json" in QUICK[command]:
        json.loads(kept)  # all of it
    assert kept.endswith("\n")


def test_a_result_that_finds_no_room_anywhere_is_told_with_the_remedy(
    full: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/none")
    code, said = into(full, ["completion", "bash"])
    assert code == 1
    assert said.endswith("the output: No space left on device; free some space, or write elsewhere\n")


def test_what_was_said_before_an_error_is_kept_too(
    full: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        click.echo("a first figure")
        raise LatlabError("the rest could not be measured")

    monkeypatch.setattr(root, "main", fails)
    code, said = into(full, [])
    assert code == 1
    assert said.startswith("latlab: the rest could not be measured\nlatlab: the output: No space left")
    (kept,) = tmp_path.glob("latlab-output-*")
    assert kept.read_text(encoding="utf-8") == "a first figure\n"


def test_data_that_finds_no_room_is_not_kept(
    full: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root, "main", lambda *_, **__: sys.stdout.writelines(["x" * 1000] * 2000))
    assert into(full, [])[0] == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", list(QUICK), ids=" ".join)
def test_a_closed_stream_takes_nothing_from_a_result(command: tuple[str, ...]) -> None:
    for number in (0, 1, 2):
        code, shown, said = closed(number, [*command, *QUICK[command]])
        assert (number, code) == (number, 0)
        assert (shown == "") == (number == 1)
        assert "Traceback" not in said


def test_measuring_processes_have_their_results_where_the_streams_are_closed(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("class One:\n    def run(self): pass\n")
    call = [*LATLAB, "bench", "ab", f"{tmp_path}/f.py:One", f"{tmp_path}/f.py:One", "--pairs", "2"]
    call += ["--iterations", "10", "--no-control", "--raw", str(tmp_path / "raw.csv")]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *call], check=False)
    assert done.returncode == 3
    assert (tmp_path / "raw.csv").read_text().endswith("# end\n")


def test_warnings_that_find_no_room_leave_a_verdict_its_exit_code(made: dict[str, str]) -> None:
    with open("/dev/full", "w") as nowhere:
        done = subprocess.run(
            [*LATLAB, "bench", "compare", made["BEFORE"], made["AFTER"]],
            stdout=subprocess.PIPE, stderr=nowhere, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 4
    assert "slower" in done.stdout


def test_what_finds_no_room_is_named_and_the_verdict_shown(made: dict[str, str]) -> None:
    for option in ("--summary", "--junit"):
        done = subprocess.run(
            [*LATLAB, "bench", "compare", made["BEFORE"], made["AFTER"], option, "/dev/full"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert "slower" in done.stdout
        assert done.stderr.splitlines()[-1].startswith("latlab: /dev/full: No space left on device")


@pytest.mark.parametrize("code", [0, 3])
def test_a_command_that_ends_by_itself_tells_of_a_full_disk_too(
    code: int, full: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*_: object, **__: object) -> None:
        click.echo("a result")
        sys.exit(code)

    monkeypatch.setattr(root, "main", ends)
    status, said = into(full, [])
    assert status == 1
    assert re.fullmatch(r"latlab: the output: No space left on device; what it was to say is in \S+\n", said)


# What reads a file and prints a result; each file of `made`.
PRINTS = [
    ("jitter", "periods", "OUTLIERS"),
    ("market", "census", "DAY"),
    ("market", "depth", "DAY"),
    ("messaging", "transports"),
    ("runs", "list", "RUNS"),
    ("runs", "show", "RUN"),
    ("show", "RUN"),
    ("system", "clocks"),
    ("system", "tune"),
    ("system", "restore"),
]
# What writes a file of its own.
WRITES = [
    ("market", "inside", "DAY", "-o"),
    ("market", "stats", "DAY", "-o"),
    ("market", "generate", "--messages", "100", "--symbols", "2", "-o"),
    ("jitter", "-r", "0.1", "--no-trace", "--html"),
    ("jitter", "-r", "0.1", "--no-trace", "--hgrm"),
    ("jitter", "-r", "0.1", "--no-trace", "--cyclictest"),
    ("jitter", "-r", "0.1", "--no-trace", "-f"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files that the tables name."""
    folder = tmp_path_factory.mktemp("made")
    day = folder / "day"
    generate = [*LATLAB, "market", "generate", "--seed", "1", "--messages", "500", "--symbols", "2"]
    subprocess.run([*generate, "-o", str(day)], check=True, capture_output=True)
    data = Path(__file__).parents[1] / "data"
    for name, level in (("before", 1.0), ("after", 2.0)):
        times = [level * (1 + 0.001 * (i % 3)) for i in range(12)]
        results = {"results": [{"command": "./a", "times": times}]}
        (folder / f"{name}.json").write_text(json.dumps(results))
    return {
        "BEFORE": str(folder / "before.json"),
        "AFTER": str(folder / "after.json"),
        "DAY": str(day),
        "OUTLIERS": str(data / "jitter/planted-100hz.csv"),
        "RUN": str(data / "recordings/v1"),
        "RUNS": str(data / "recordings"),
    }


@pytest.mark.parametrize("command", PRINTS, ids=" ".join)
def test_what_is_printed_to_a_full_disk_ends_with_one_line(
    command: tuple[str, ...], full: int, made: dict[str, str]
) -> None:
    code, said = into(full, [made.get(word, word) for word in command])
    assert code == 1
    assert "latlab: the output: No space left on device; what it was to say is in " in said.splitlines()[-1]
    assert "Traceback" not in said
    assert "escaped" not in said


@pytest.mark.parametrize("command", PRINTS, ids=" ".join)
def test_what_is_printed_to_nobody_is_no_failure(
    command: tuple[str, ...], gone: int, made: dict[str, str]
) -> None:
    assert into(gone, [made.get(word, word) for word in command])[0] == 0


@pytest.fixture
def full_device(tmp_path: Path) -> Path:
    """A disk without room that a root may spoil; nobody else can."""
    if os.geteuid() != 0:
        return Path("/dev/full")
    path = tmp_path / "full"
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        path.open("w").close()
    except OSError:
        pytest.skip("no device can be made here")
    return path


@pytest.mark.parametrize("command", WRITES, ids=" ".join)
def test_a_file_without_room_is_told_and_a_device_stays_one(
    command: tuple[str, ...], full_device: Path, made: dict[str, str]
) -> None:
    with open(os.devnull, "w") as nowhere:
        code, said = into(nowhere.fileno(), [*(made.get(word, word) for word in command), str(full_device)])
    assert code == 1
    assert full_device.is_char_device()
    assert "No space left on device" in said.splitlines()[-1]
    assert "Traceback" not in said
    assert "escaped" not in said


@pytest.mark.parametrize("command", WRITES, ids=" ".join)
def test_a_folder_that_is_not_there_is_told(command: tuple[str, ...], made: dict[str, str]) -> None:
    with open(os.devnull, "w") as nowhere:
        code, said = into(nowhere.fileno(), [*(made.get(word, word) for word in command), "/proc/none/x"])
    assert code in (1, 2)  # told by the arguments, or by the first write
    assert "/proc/none/x" in said.splitlines()[-1]
    assert "escaped" not in said


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


def test_a_lack_of_descriptors_is_not_said_of_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    for filename, said in ((None, "latlab: Too many"), ("/tmp/x", "latlab: /tmp/x: Too many")):
        error = OSError(errno.EMFILE, os.strerror(errno.EMFILE), filename)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("latlab.cli.kit.output_failures._forget_output", lambda: None)
            assert say_failure(error) == 1
        assert capsys.readouterr().err.startswith(said)
