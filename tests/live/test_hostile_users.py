"""Two users who mean no good, against each other and against root: a script of attacks on what is shared."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.files.started import as_user

from latlab._core import queues as core
from latlab.queues import Attachment, applications
from latlab.system.scratch import leftovers

EVE, MALLORY = 54321, 54322
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
Attack = Callable[[Path, bytes], object]


def folder_of(user: int) -> Path:
    return Path(f"/dev/shm/latlab-{user}")


@pytest.fixture(autouse=True)
def shared_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody's folder is where it is by default, and not the tests' own."""
    monkeypatch.delenv("LATLAB_COUNTERS", raising=False)


@pytest.fixture(scope="module")
def honest() -> Iterator[int]:
    """The process id of root's own application, which lives as long as this file's tests.

    It is not the tests' own process: that publishes once, in the folder that the other tests look into.
    """
    code = (
        "import sys; from latlab.queues import Queue\n"
        "queue = Queue(8, name='honest'); queue.put(1)\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    default = {name: value for name, value in os.environ.items() if name != "LATLAB_COUNTERS"}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=default
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        process.kill()


@pytest.fixture
def good(honest: int) -> Iterator[bytes]:
    """A counter file's bytes, as root's own application publishes them; everybody's folders are as before."""
    mine = next(path for path in map(Path, paths()) if path.name.startswith(f"{honest}-"))
    for user in (EVE, MALLORY):
        shutil.rmtree(folder_of(user), ignore_errors=True)
    yield mine.read_bytes()
    for user in (EVE, MALLORY):
        shutil.rmtree(folder_of(user), ignore_errors=True)


def paths() -> list[str]:
    return [one.path for one in applications()]


def named(folder: Path, pid: int = 1) -> Path:
    return folder / f"{pid}-1-0.counters"


def poked(good: bytes, offset: int, form: str, value: int) -> bytes:
    made = bytearray(good)
    struct.pack_into(form, made, offset, value)
    return bytes(made)


def put(folder: Path, data: bytes, *, mode: int = 0o600) -> Path:
    """As the attacker: a file in a folder of its own."""
    folder.mkdir(mode=0o700, exist_ok=True)
    named(folder).write_bytes(data)
    named(folder).chmod(mode)
    return named(folder)


def sparse(folder: Path, good: bytes) -> None:
    put(folder, poked(good, 80 - 8, "<Q", 1 << 30))
    os.truncate(named(folder), 1 << 30)


def linked_file(folder: Path, good: bytes) -> None:
    put(folder, good)
    (folder / "2-2-0.counters").symlink_to("/etc/shadow")


def hard_linked(folder: Path, good: bytes) -> None:
    os.link(put(folder, good), folder / "3-3-0.counters")


def pipe(folder: Path, good: bytes) -> None:
    folder.mkdir(mode=0o700)
    os.mkfifo(named(folder))


def directory(folder: Path, good: bytes) -> None:
    folder.mkdir(mode=0o700)
    named(folder).mkdir()


def many(folder: Path, good: bytes) -> None:
    folder.mkdir(mode=0o700)
    for number in range(6000):
        (folder / f"{number}-1-0.counters").touch()


def open_to_all(folder: Path, good: bytes) -> None:
    put(folder, good)
    folder.chmod(0o777)


def writable_file(folder: Path, good: bytes) -> None:
    put(folder, good, mode=0o666)


def escape_in_name(folder: Path, good: bytes) -> None:
    folder.mkdir(mode=0o700)
    (folder / "\x1b[2J.counters").write_bytes(good)


def header(offset: int, form: str, value: int) -> Attack:
    return lambda folder, good: put(folder, poked(good, offset, form, value))


ATTACKS: dict[str, Attack] = {
    "a copy of root's own file": lambda folder, good: put(folder, good) and None,
    "an empty file": lambda folder, good: put(folder, b"") and None,
    "half a header": lambda folder, good: put(folder, good[:100]) and None,
    "a header alone": lambda folder, good: put(folder, good[:4096]) and None,
    "a page short": lambda folder, good: put(folder, good[:-4096]) and None,
    "noise": lambda folder, good: put(folder, os.urandom(65536)) and None,
    "zeros": lambda folder, good: put(folder, bytes(1 << 20)) and None,
    "no magic": header(0, "<Q", 0),
    "another version": header(8, "<I", 99),
    "a capacity of four billion": header(16, "<I", 0xFFFFFFFF),
    "stages without end": header(20, "<I", 0xFFFFFFFF),
    "a stride of nothing": header(24, "<I", 0),
    "a stride that is odd": header(24, "<I", 513),
    "a stride of four billion": header(24, "<I", 0xFFFFFFFF),
    "descriptors behind the end": header(40, "<Q", 1 << 40),
    "counts at the end of the world": header(56, "<Q", (1 << 64) - 64),
    "descriptors over the header": header(40, "<Q", 0),
    "the process id of init": header(80, "<I", 1),
    "a process id of nobody": header(80, "<I", 0xFFFFFFFF),
    "another boot": header(96, "<Q", 7),
    "a phase that there is not": header(136, "<I", 77),
    "more queues than there is room for": header(140, "<I", 0xFFFFFFFF),
    "a sparse file of a gigabyte": sparse,
    "a link to another's file": linked_file,
    "a second name": hard_linked,
    "a pipe": pipe,
    "a folder in a file's place": directory,
    "six thousand files": many,
    "a folder that all may write": open_to_all,
    "a file that all may write": writable_file,
    "an escape in a name": escape_in_name,
}


@pytest.mark.parametrize("attack", ATTACKS, ids=list(ATTACKS))
def test_an_attacker_neither_stops_nor_fools_nor_fills_root(
    attack: str, good: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert as_user(EVE, lambda: ATTACKS[attack](folder_of(EVE), good)) == 0
    monkeypatch.delenv("LATLAB_ALL_USERS", raising=False)
    assert [one for one in paths() if str(EVE) in one] == []  # nobody's but our own, unless asked for
    monkeypatch.setenv("LATLAB_ALL_USERS", "1")
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    theirs = [one for one in applications() if str(EVE) in one.path]
    assert [one for one in theirs if one.live] == []
    assert all(one.path.isprintable() and one.application.isprintable() for one in theirs)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB
    assert time.process_time() - began < 1  # of work, whatever else runs here


def test_a_live_file_is_believed_and_its_truncation_survived(
    good: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATLAB_ALL_USERS", "1")
    code = (
        "import os, sys, time\n"
        "from latlab.queues import Queue; import queue as _\n"  # before: they may not read our installation
        f"os.setgroups([]); os.setgid({EVE}); os.setuid({EVE})\n"
        "queue = Queue(8, name='theirs\\x1b[31m')\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "folder = f'/dev/shm/latlab-{os.getuid()}'\n"
        "for name in os.listdir(folder): os.truncate(os.path.join(folder, name), 0)\n"
        "print('cut', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as eve:
        assert eve.stdin is not None
        assert eve.stdout is not None
        try:
            assert eve.stdout.readline() == "ready\n"
            seen = Attachment((eve.pid,))
            assert [queue.name for queue in seen.look().queues] == ["theirs?[31m"]
            eve.stdin.write("\n")
            eve.stdin.flush()
            assert eve.stdout.readline() == "cut\n"
            time.sleep(0.3)
            seen.look()  # it lives
            assert not seen.alive
        finally:
            eve.kill()


def test_a_squatted_folder_is_told_where_the_application_s_user_looks(good: bytes) -> None:
    def squat() -> None:
        folder_of(MALLORY).mkdir(mode=0o777)

    assert as_user(EVE, squat) == 0
    code = (
        "import os; from latlab.queues import Queue\n"
        f"os.setgroups([]); os.setgid({MALLORY}); os.setuid({MALLORY})\n"
        "Queue(8, name='q'); Queue(8, name='r')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == (
        f"latlab: this program's queues are not published: {folder_of(MALLORY)}: belongs to user {EVE};"
        " name another folder by LATLAB_COUNTERS\n"
    )


def test_a_lock_that_another_user_holds_does_not_stop_root(
    good: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATLAB_ALL_USERS", "1")
    assert as_user(EVE, lambda: put(folder_of(EVE), good)) == 0
    held = os.open(named(folder_of(EVE)), os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    began = time.monotonic()
    assert [one.state for one in applications() if str(EVE) in one.path] == ["dead"]  # it names our process
    os.close(held)
    assert time.monotonic() - began < 5


def test_what_another_user_leaves_is_not_cleaned_by_root(good: bytes) -> None:
    assert as_user(EVE, lambda: put(folder_of(EVE), good)) == 0
    assert [one for one in leftovers() if str(EVE) in str(one.path)] == []


def test_an_observer_killed_at_any_moment_leaves_nothing_that_the_next_start_keeps() -> None:
    code = (
        "from latlab.system.scratch import scratch\n"
        "import time\n"
        "while True:\n"
        "    with scratch('attack', shared=True) as folder:\n"
        "        (folder / 'data').write_bytes(bytes(100000))\n"
    )
    for number in range(20):
        process = subprocess.Popen([sys.executable, "-c", code])
        time.sleep(0.2 + 0.013 * number)
        process.send_signal(signal.SIGKILL)
        process.wait()
    from latlab.system.scratch import scratch

    with scratch("attack", shared=True):
        assert [one for one in leftovers() if one.purpose == "attack"] == []
    assert core.counter_folder() == "/dev/shm/latlab-0"
