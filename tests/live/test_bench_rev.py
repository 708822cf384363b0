"""Revisions, interpreters and wheels beside each other."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

FIXTURE = """
import work
class Work:
    def run(self):
        work.work()
"""
WORK = "def work():\n    sum(range(SIZE))\n"
FEW = ("--pairs", "40", "--iterations", "20", "--seconds", "30", "--json", "--no-control")


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def environment(folder: Path) -> dict[str, str]:
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    return {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "TMPDIR": str(scratch)}


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "latlab", "bench", *arguments],
        cwd=folder / "repository",
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    out = Path(tempfile.mkdtemp(prefix="bench-rev-"))
    repository = out / "repository"
    (repository / "src").mkdir(parents=True)
    (repository / "benchmarks").mkdir()
    (repository / "benchmarks" / "speed.py").write_text(FIXTURE)
    git(repository, "init", "-q", "-b", "main")
    for size in ("100", "1000"):
        (repository / "src" / "work.py").write_text(WORK.replace("SIZE", size))
        (repository / "sleep.sh").write_text(f"sleep 0.0{size[:2]}\n")
        git(repository, "add", ".")
        git(repository, "commit", "-q", "-m", size)
    yield out
    shutil.rmtree(out)


def left(folder: Path) -> list[str]:
    """Worktrees and folders that remain."""
    worktrees = git(folder / "repository", "worktree", "list").splitlines()[1:]
    return [*worktrees, *(p.name for p in (folder / "scratch").glob("latlab-*"))]


def test_a_revision_that_does_ten_times_the_work_is_slower_and_nothing_remains(folder: Path) -> None:
    done = bench(folder, "rev", "HEAD~1", "--target", "benchmarks/speed.py", *FEW)
    found = json.loads(done.stdout)
    assert (found["name"], found["verdict"], done.returncode) == ("Work", "slower", 4), done.stderr
    assert found["effect"] > 2
    assert left(folder) == []


@pytest.mark.side_by_side
def test_a_build_runs_in_each_worktree_and_its_failure_shows_what_it_said(folder: Path) -> None:
    build = "echo LATLAB_SITE > built; cp built $LATLAB_SITE; test -f src/work.py"
    done = bench(
        folder, "rev", "HEAD", "HEAD", "--build", build, "--command", "cat built", *FEW[:2], *FEW[4:]
    )
    assert done.returncode in (0, 3), done.stderr
    done = bench(
        folder, "rev", "HEAD~1", "--build", "echo planned; exit 7", "--target", "benchmarks/speed.py"
    )
    assert (done.returncode, "HEAD~1: the build ended with 7:\n  | planned" in done.stderr) == (1, True)
    assert left(folder) == []


@pytest.mark.side_by_side
def test_an_unknown_revision_and_a_missing_file_are_errors_of_usage(folder: Path) -> None:
    for arguments, said in (
        (("rev", "nowhere", "--target", "benchmarks/speed.py"), "no revision 'nowhere'"),
        (("rev", "HEAD", "--target", "absent.py"), "HEAD: no fixtures in absent.py"),
        (("rev", "HEAD"), "nothing to measure"),
    ):
        done = bench(folder, *arguments)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert left(folder) == []


@pytest.mark.side_by_side
@pytest.mark.parametrize("step", ["build", "hook", "filter"])
@pytest.mark.parametrize("group", [True, False])
def test_an_ended_run_leaves_no_worktree(folder: Path, tmp_path: Path, step: str, group: bool) -> None:
    slow = f"touch {tmp_path / 'begun'}; exec sleep 60"
    repository = shutil.copytree(folder / "repository", tmp_path / "repository")
    if step == "hook":
        hook = repository / ".git" / "hooks" / "post-checkout"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{slow}\n")
        hook.chmod(0o755)
    elif step == "filter":  # git still has the worktree locked
        git(repository, "config", "filter.slow.smudge", slow)
        (repository / ".git" / "info").mkdir(exist_ok=True)
        (repository / ".git" / "info" / "attributes").write_text("* filter=slow\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "latlab", "bench", "rev", "HEAD", "--command", "true"]
        + (["--build", slow] if step == "build" else []),
        cwd=repository,
        env=environment(tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left(tmp_path)
        if group:
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.terminate()
        process.wait(30)
        assert left(tmp_path) == []
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_two_interpreters_are_compared_by_their_own_clock(folder: Path) -> None:
    here = ("--python", sys.executable, "--python", sys.executable)
    alone = folder / "repository" / "benchmarks" / "alone.py"
    alone.write_text("def fast():\n    sum(range(100))\ndef slow():\n    sum(range(1000))\n")
    done = bench(folder, "ab", f"{alone}:fast", f"{alone}:slow", *here, *FEW)
    found = json.loads(done.stdout)
    assert (found["verdict"], done.returncode) == ("slower", 4), done.stderr


def test_two_wheels_are_compared_by_one_file(folder: Path) -> None:
    wheels = []
    for version, size in (("1", "100"), ("2", "1000")):
        wheel = folder / f"work-{version}-py3-none-any.whl"
        about = f"work-{version}.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("work.py", WORK.replace("SIZE", size))
            archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: work\nVersion: {version}\n")
            archive.writestr(
                f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{about}/RECORD", "")
        wheels += ["--wheel", str(wheel)]
    done = bench(folder, "ab", "benchmarks/speed.py", *wheels, *FEW)
    found = json.loads(done.stdout)
    assert (found["verdict"], done.returncode) == ("slower", 4), done.stderr
    assert left(folder) == []
