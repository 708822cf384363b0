"""Programs of others with a stub: what it changes is kept or told; where it changes nothing, nothing is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.files.stub_strangers import CHANGES, PURE

pytestmark = pytest.mark.side_by_side  # what calls change and tell is compared: no time is judged


def ran(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder, capture_output=True, text=True, check=False, timeout=100, input="a line\n" * 40,
    )  # fmt: skip


def write(folder: Path, work: str, app: str) -> None:
    (folder / "work.py").write_text(work + "\n")
    (folder / "app.py").write_text(app)


def recorded_and_replayed(folder: Path, name: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """The replay, and what the recording says besides its results."""
    stubs, named = ("-m", "latlab", "stubs"), ("--component", name)
    recorded = ran(folder, *stubs, "record", *named, "-o", "t.trace", "--", sys.executable, "app.py")
    assert recorded.returncode == 0, recorded.stderr
    done = ran(folder, *stubs, "replay", "t.trace", *named, "--", sys.executable, "app.py")
    assert "Traceback" not in recorded.stderr
    return done, " ".join(line for line in recorded.stderr.splitlines() if line.startswith("latlab:"))


def test_there_are_fifty_and_fifteen() -> None:
    assert len(CHANGES) >= 50
    assert len(PURE) >= 15


@pytest.mark.parametrize("what", list(CHANGES))
def test_what_a_stub_changes_is_kept_or_told(what: str, tmp_path: Path) -> None:
    name, work, app, kept = CHANGES[what]
    write(tmp_path, work, app)
    plain = ran(tmp_path, "app.py")
    done, told = recorded_and_replayed(tmp_path, name)
    assert (done.returncode == 0) == kept, done.stderr + told
    if kept:
        assert done.stdout == plain.stdout, told
    else:
        assert "changes more than its time" in done.stderr or "argument" in done.stderr, done.stderr


@pytest.mark.parametrize("what", list(PURE))
def test_a_stub_that_changes_nothing_is_not_said_to(what: str, tmp_path: Path) -> None:
    name, work, app = PURE[what]
    write(tmp_path, work, app)
    done, told = recorded_and_replayed(tmp_path, name)
    assert done.returncode == 0, done.stderr
    assert told == ""
    assert "latlab:" not in done.stderr


HIDDEN = "import zlib\npacked = zlib.compressobj()\ndef step(t, i): packed.compress(b'%d' % i * 500)"


@pytest.mark.parametrize("command", ["replay", "study"])
@pytest.mark.parametrize("begin", ["", "import sys\nout = open('../result.txt', 'w')\n"])
def test_a_file_elsewhere_that_the_program_writes_is_compared(
    begin: str, command: str, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    opened = "" if begin else "out = open('../result.txt', 'w')\n"
    write(
        tmp_path / "in", HIDDEN,
        f"{begin}import work\nfor i in range(20): work.step([], i)\n{opened}"
        "out.write(str(len(work.packed.flush())))\nout.close()\n",
    )  # fmt: skip
    if command == "replay":
        done, _ = recorded_and_replayed(tmp_path / "in", "work:step")
    else:
        (tmp_path / "in" / "s.toml").write_text('component = "work:step"\nseconds = 5\n')
        done = ran(
            tmp_path / "in", "-m", "latlab", "stubs", "study", "s.toml", "--", sys.executable, "app.py"
        )
    assert done.returncode == 1
    assert f"{tmp_path / 'result.txt'} holds something else" in done.stderr


MADE_LATE = """made = None
def step(i):
    global made
    if made is None: made = [lambda k: k + 1]
    return sum(made[0](k) for k in range(i * 100))
"""


def test_what_a_stub_cannot_keep_is_told_and_no_reason_to_refuse_it_where_the_program_says_the_same(
    tmp_path: Path,
) -> None:
    write(tmp_path, MADE_LATE, "import work\nprint(sum(work.step(i) for i in range(200)))\n")
    (tmp_path / "s.toml").write_text('component = "work:step"\nseconds = 8\nrounds = 4\n')
    command = ("-m", "latlab", "stubs", "study", "s.toml")
    done = ran(tmp_path, *command, "--dry-run", "--", sys.executable, "app.py")
    assert done.returncode == 0, done.stderr
    assert "a call changes work:made, and a stub can't" in done.stdout
    done = ran(tmp_path, *command, "--json", "--", sys.executable, "app.py")
    assert done.returncode in (0, 3), done.stderr
    assert any("work:made can't be kept" in one for one in json.loads(done.stdout)["warnings"])


POOL = """import multiprocessing, work
if __name__ == '__main__':
    with multiprocessing.Pool(2) as pool: print(pool.starmap(work.step, [(i, i) for i in range(200)]))
"""


def test_what_others_write_into_a_pools_pipes_is_not_said_to_be_the_components(tmp_path: Path) -> None:
    write(tmp_path, "def step(i, k): return sum(range(i * k * 10))", POOL)
    done, told = recorded_and_replayed(tmp_path, "work:step")
    assert done.returncode == 0, done.stderr
    assert "leaves out" not in told


def test_calls_that_chance_decides_on_are_told_as_such(tmp_path: Path) -> None:
    write(tmp_path, "def step(i): return i", POOL.replace("starmap", "map").replace("(i, i)", "i"))
    recorded_and_replayed(tmp_path, "work:step")
    (tmp_path / "app.py").write_text((tmp_path / "app.py").read_text().replace("200", "201"))
    named = ("--component", "work:step", "--", sys.executable, "app.py")
    done = ran(tmp_path, "-m", "latlab", "stubs", "replay", "t.trace", *named)
    assert done.returncode == 1
    assert "these arguments were not recorded: (200,) {}; record it again; where" in done.stderr


WAITED_FOR = """import socket, threading, work
a, b = socket.socketpair()
for i in range(10):
    thread = threading.Thread(target=work.step, args=(a,))
    thread.start()
    b.recv(1)
    thread.join()
"""


def test_a_dry_run_says_that_others_wait_for_what_the_stub_leaves_out(tmp_path: Path) -> None:
    write(tmp_path, "def step(to): to.send(b'x')", WAITED_FOR)
    (tmp_path / "s.toml").write_text('component = "work:step"\n')
    named = ("s.toml", "--dry-run", "--", sys.executable, "app.py")
    done = ran(tmp_path, "-m", "latlab", "stubs", "study", *named)
    assert done.returncode == 0, done.stderr
    # The limit is 3 s, or more where the original took long, as on a busy machine.
    assert re.search(r"the stub changes more than its time: it does not end within [\d.]+ s", done.stdout)
    assert "a study is refused" in done.stdout


def test_a_dry_run_says_what_a_component_that_is_never_called_may_lack(tmp_path: Path) -> None:
    write(tmp_path, "def step(): pass", "import work\n")
    (tmp_path / "s.toml").write_text('component = "work:step"\n')
    named = ("s.toml", "--dry-run", "--", sys.executable, "app.py")
    done = ran(tmp_path, "-m", "latlab", "stubs", "study", *named)
    assert done.returncode == 2
    assert "write module:function as the program imports it" in done.stderr
