"""Files of a hostile user in a shared folder, named by root: none hangs, fills, fools or tells a secret.

Every reader of a file or folder that a user names, by every attack on a file: a pipe, links to a secret, to
an endless device and to the reader's own folder, a sparse file of a gigabyte, another user's file.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import struct
import sys
import tempfile
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.files.started import as_user

from latlab._core import stubs_replay
from latlab.bench.judging.levels import accepted
from latlab.cli._main import main
from latlab.errors import InputError
from latlab.formats.trusted import read_file
from latlab.stubs.components import trace

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
EVE = 54321
SECRET = "root:$6$a-secret-that-nobody-else-may-see"
_LONGEST_S = 60
_MOST_CPU_S = 5.0  # with its imports, of which a fork has most already
_MOST_KIB = 400_000

# A command's words, and what of them the attacker lays: FILE, or a member of FOLDER.
READERS: dict[str, tuple[str, str]] = {
    "a recording's head": ("runs show FOLDER", "recording.json"),
    "a recording's result": ("show FOLDER", "result.json"),
    "a recording to compare": ("runs compare FOLDER FOLDER", "recording.json"),
    "a recording of queues": ("queues analyse FOLDER", "recording.json"),
    "a recording of requests": ("requests show FOLDER", "recording.json"),
    "a diagnosis": ("show FOLDER", "answer.txt"),
    "a timeline": ("stubs compare FOLDER FOLDER", "timeline.json"),
    "action files": ("stubs emit FOLDER --language python", "0.actions"),
    "a stub's trace": ("stubs decode FILE", "x.trace"),
    "a study": ("stubs study FILE --dry-run -- true", "study.toml"),
    "a workload": ("messaging ab FILE FILE", "a.toml"),
    "a model": ("queues simulate FILE", "model.toml"),
    "a layout": ("demo --layout FILE", "layout.toml"),
    "what is known of an application": ("diagnose FILE", "question.toml"),
    "traces as text": ("queues verify --traces FILE --samples FILE", "traces.txt"),
    "results of a benchmark": ("bench compare FILE", "results.json"),
    "outliers": ("jitter periods FILE", "outliers.csv"),
    "a histogram's log": ("show FILE", "x.hlog"),
    "a table of percentiles": ("show FILE", "x.hgrm"),
    "messages of a market": ("market census FILE", "day"),
}
Attack = Callable[[Path, Path], None]


def pipe(file: Path, secret: Path) -> None:
    os.mkfifo(file)


def link_to_a_secret(file: Path, secret: Path) -> None:
    file.symlink_to(secret)


def link_to_what_never_ends(file: Path, secret: Path) -> None:
    file.symlink_to("/dev/zero")


def link_to_itself(file: Path, secret: Path) -> None:
    file.symlink_to(file)


def sparse(file: Path, secret: Path) -> None:
    file.touch()
    os.truncate(file, 1 << 30)


def deep(file: Path, secret: Path) -> None:
    file.write_text("[" * 1_000_000)


def escapes(file: Path, secret: Path) -> None:
    file.write_text("\x1b]0;mine\x07\x1b[2J = 1\n")


ATTACKS = (pipe, link_to_a_secret, link_to_what_never_ends, link_to_itself, sparse, deep, escapes)


def called(arguments: list[str], said: Path) -> tuple[int, float, int]:
    """Run latlab in a fork: its exit code, its seconds of CPU, and the KiB that it took beyond ours."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.setsid()
            signal.alarm(_LONGEST_S)  # whoever waits for the other end of a pipe ends by it
            out = os.open(said, os.O_WRONLY | os.O_CREAT)
            for place in (1, 2):
                os.dup2(out, place)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - descriptors, not paths
            sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
            main(arguments)
        except SystemExit as left:
            code = int(left.code or 0)
            sys.stdout.flush()
        except BaseException:  # noqa: BLE001 - whatever escapes is the finding
            os.write(2, f"escaped: {traceback.format_exc()}".encode())
        finally:
            os._exit(code)
    _, status, used = os.wait4(child, 0)
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss - ours


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder that everybody may enter, unlike pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("attack", ATTACKS, ids=[one.__name__ for one in ATTACKS])
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_a_hostile_user_laid_costs_root_a_line(reader: str, attack: Attack, base: Path) -> None:
    (shared := base / "shared").mkdir()
    shared.chmod(0o1777)
    (secret := base / "secret").write_text(SECRET)
    secret.chmod(0o600)
    words, name = READERS[reader]
    if (reader, attack) == ("messages of a market", pipe):
        pytest.skip("a feed may come by a pipe: who names one waits for it")
    folder = shared / "theirs"

    def lay() -> None:
        folder.mkdir()
        if name == "result.json":
            (folder / "recording.json").write_text('{"schema": 1, "kind": "jitter"}')
        attack(folder / name, secret)

    assert as_user(EVE, lay) == 0
    named = {"FOLDER": str(folder), "FILE": str(folder / name)}
    said = base / "said"
    code, cpu_s, grew = called([named.get(word, word) for word in words.split()], said)
    text = said.read_text(errors="replace")
    assert code in (1, 2), text
    assert text.splitlines()[-1].startswith("latlab")
    assert "Traceback" not in text
    assert SECRET not in text
    assert "\x1b" not in text
    assert cpu_s < _MOST_CPU_S
    assert grew < _MOST_KIB
    assert secret.read_text() == SECRET


def test_a_file_that_is_swapped_between_check_and_use_gives_no_secret(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shared := base / "shared").mkdir()
    shared.chmod(0o1777)
    (secret := base / "secret").write_text(SECRET)
    secret.chmod(0o600)
    file = shared / "file"

    def swap() -> None:
        for number in range(1_000_000):
            made = shared / f"{number}"
            if number % 2:
                made.symlink_to(secret)
            else:
                made.write_text("theirs")
            made.rename(file)

    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(EVE)
            os.setuid(EVE)
            swap()
        finally:
            os._exit(0)
    monkeypatch.setenv("LATLAB_ALL_USERS", "1")
    got: set[bytes] = set()
    try:
        for _ in range(3000):
            with contextlib.suppress(InputError):
                got.add(read_file(file, 1000))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert got <= {b"theirs", b""}  # "": it is being written


def test_what_lies_behind_a_trace_s_end_is_not_brought_into_the_memory(tmp_path: Path) -> None:
    trace.write(tmp_path / "x", [trace.Definition("parse", "int", "q", [trace.Value(1, 1, 0, b"abcdefgh")])])
    os.truncate(tmp_path / "x", 1 << 30)
    tracemalloc.start()
    try:
        (read,) = trace.read(tmp_path / "x")
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()
    assert [value.data for value in read.values] == [b"abcdefgh"]


@pytest.mark.parametrize("tag", [0, 1, 2])
def test_what_a_sparse_trace_claims_to_hold_is_not_read_before_all_heads(tmp_path: Path, tag: int) -> None:
    trace.write(tmp_path / "x", [trace.Definition("parse", "int", "q", [trace.Value(1, 1, 0, b"abcdefgh")])])
    end = (tmp_path / "x").stat().st_size - 32
    with open(tmp_path / "x", "r+b") as file:
        file.seek(end)
        size = (1 << 30) - (1 << 20)
        file.write(struct.pack(stubs_replay.TRACE_HEAD_FORMAT, tag, 0, 0, 0, 0, 1, 1, size, 0))
        file.truncate(1 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"unknown entry|damaged definition"):
            trace.read(tmp_path / "x")
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_a_trace_longer_than_what_is_read_at_once_is_read_to_its_end(tmp_path: Path) -> None:
    values = [trace.Value(1, 1, 0, bytes([number % 256]) * (number * 997 % 100_000)) for number in range(200)]
    trace.write(tmp_path / "x", [trace.Definition("parse", "int", "q", values)])
    (read,) = trace.read(tmp_path / "x")
    assert read.values == values


def test_accepted_levels_are_read_through_the_door(tmp_path: Path) -> None:
    (tmp_path / "levels.json").symlink_to("/dev/zero")
    with pytest.raises(InputError, match="is a symbolic link"):
        accepted(tmp_path / "levels.json")
