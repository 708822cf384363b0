from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.files.started import called
from tests.files.stub_spends import require_as_asked

from latlab.stubs import StudyPlan
from latlab.stubs.studies import runner as _lab
from latlab.stubs.studies import takes_over as _next

WORK = """
def cus(n):
    total = 0
    for i in range(n):
        total += i * i
    return total
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return called(capsys, "stubs", *arguments)


def of_work(capsys: pytest.CaptureFixture[str], command: str, *options: str) -> tuple[int, str, str]:
    """A subcommand on the component of the system's program."""
    return run(capsys, command, "--component", "work:cus", *options, "--", sys.executable, "app.py")


# As many rounds as say anything, in whatever time a busy machine takes for them.
FEW = "seconds = 60\nrounds = 4\n"


def require_trusted(code: int, result: dict[str, Any]) -> None:
    """Skip what rests on the figures where latlab says itself that they can't be trusted, and why."""
    if code == 3:
        pytest.skip(next(one for one in result["warnings"] if "not steady" in one))
    assert code == 0


@pytest.mark.side_by_side
def test_a_first_run_that_is_held_up_is_no_reason_to_refuse(
    system: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Runs that were all as long would be too long for any study in the time that is given.
    slow = "import os, time\nif not os.path.exists('warm'): open('warm', 'w').close(); time.sleep(2)\n"
    (system / "app.py").write_text(slow + (system / "app.py").read_text())
    (system / "study.toml").write_text('component = "work:cus"\n' + FEW)
    code, _, err = run(capsys, "study", "study.toml", "--json", "--", sys.executable, "app.py")
    assert code in (0, 3), err


@pytest.mark.side_by_side
def test_a_page_that_cannot_be_written_is_refused_before_the_study(
    system: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = "open('ran', 'w').close()\n" + (system / "app.py").read_text()
    (system / "app.py").write_text(app)
    code, _, err = run(
        capsys, "study", "study.toml", "--html", "no/such/page.html", "--", sys.executable, "app.py"
    )
    assert code == 1
    assert "no/such/page.html: can't be written (there is no such folder)" in err
    assert not (system / "ran").exists()


@pytest.mark.side_by_side
def test_a_program_that_fails_now_and_then_is_studied(
    system: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Two runs in a row of each eight: one that is repeated may fail again, also while it is recorded.
    failing = (
        "import os, sys\nwith open('runs', 'a') as file: file.write('x')\n"
        "number = os.path.getsize('runs')\nfail = number > 2 and number % 8 in (3, 4)\n"
    )
    (system / "app.py").write_text(failing + (system / "app.py").read_text() + "sys.exit(fail)\n")
    (system / "study.toml").write_text('component = "work:cus"\n' + FEW)
    code, out, err = run(capsys, "study", "study.toml", "--json", "--", sys.executable, "app.py")
    assert code in (0, 3), err
    assert any("fail" in one for one in json.loads(out)["warnings"])


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "app.py").write_text("import work\nfor i in range(5):\n    assert work.cus(200000) > 0\n")
    (tmp_path / "study.toml").write_text('component = "work:cus"\nseconds = 3\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.smoke
def test_a_system_that_is_nothing_but_its_component_is_a_total_bottleneck(
    system: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(
        capsys, "study", "study.toml", "--json", "-o", str(system / "kept"), "--", sys.executable, "app.py"
    )
    result = json.loads(out)
    assert [point["speedup"] for point in result["curve"]] == [round(i / 10, 1) for i in range(11)]
    assert result["t_cus_ns"] > 0
    assert (system / "kept").is_dir()
    require_trusted(code, result)
    assert result["curve"][-1]["gain"] > 0.2
    assert result["class"] in ("total", "limited")


@pytest.mark.side_by_side
def test_a_component_that_is_never_called_is_one_line(
    system: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (system / "study.toml").write_text('component = "json:dumps"\n' + FEW)
    code, _, err = run(capsys, "study", "study.toml", "--", sys.executable, "app.py")
    assert code == 2
    assert "never called" in err.splitlines()[-1]


@pytest.mark.side_by_side
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("component = 3", "component: is 3"),
        ('component = "a:b"\nspeed = 1', "unknown key 'speed'"),
        ("seconds = 1", "has no component"),
        ("component = [", "can't be read as TOML"),
        ('component = "a"\nkind = "java"', "one of python, c\\+\\+, command"),
    ],
)
def test_a_bad_study_file_is_refused_with_its_place(
    system: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    (system / "study.toml").write_text(text)
    code, _, err = run(capsys, "study", "study.toml", "--", sys.executable, "app.py")
    assert code == 1
    assert says.replace("\\", "") in err


@pytest.fixture
def burn(system: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command that counts to its argument."""
    path = system / "burn"
    path.write_text("#!/bin/sh\ni=0\nwhile [ $i -lt $1 ]; do i=$((i + 1)); done\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{system}{os.pathsep}{os.environ['PATH']}")
    (system / "study.toml").write_text('component = "burn"\nkind = "command"\nseconds = 8\n')
    return path


@pytest.mark.usefixtures("burn")
def test_a_component_beside_a_shorter_wait_pays_until_the_wait_takes_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(
        capsys, "study", "study.toml", "--json", "--", "sh", "-c", "burn 100000 & sleep 0.05; wait"
    )
    result = json.loads(out)
    require_trusted(code, result)
    gains = [point["gain"] for point in result["curve"]]
    assert result["class"] == "limited"
    assert gains[-1] > 0.1
    assert gains[-1] < 0.95  # the wait stays


@pytest.mark.usefixtures("burn")
def test_a_component_beside_a_longer_wait_buys_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "study", "study.toml", "--json", "--", "sh", "-c", "burn 10000 & sleep 0.25; wait"
    )
    result = json.loads(out)
    assert result["calls"] == 1
    require_trusted(code, result)
    assert result["class"] == "none"
    assert max(point["gain"] for point in result["curve"]) < 0.1


@pytest.mark.side_by_side
def test_recording_from_outside_and_decoding_shows_every_call(
    system: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = of_work(capsys, "record", "-o", "t.trace")
    assert code == 0
    assert "5 results" in err
    _, out, _ = run(capsys, "decode", "t.trace")
    value = sum(i * i for i in range(200000))
    lines = [line for line in out.splitlines() if ";work:cus;" in line]
    assert len(lines) == 5
    assert lines[4].startswith("4;9;work:cus;7;python;0;")
    assert lines[4].endswith(f";{value}")


@pytest.mark.side_by_side
def test_a_component_that_is_not_deterministic_is_named(
    system: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (system / "work.py").write_text("import os\ndef cus(n):\n    return os.urandom(8)[0] + 1\n")
    code, out, _ = of_work(capsys, "validate")
    # One chance in 256 ** 5 that two recordings are the same.
    assert code == 1
    assert "work:cus is not deterministic" in out


@pytest.mark.side_by_side
def test_a_deterministic_component_passes_and_its_study_says_validated(
    system: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = of_work(capsys, "validate", "-o", "valid.json")
    assert (code, "passes with the stub" in out) == (0, True)
    (system / "study.toml").write_text('component = "work:cus"\nvalidation = "valid.json"\n' + FEW)
    arguments = ("study", "study.toml", "--json", "--html", "page.html", "--", sys.executable, "app.py")
    _, out, _ = run(capsys, *arguments)
    assert json.loads(out)["validated"] is True
    assert "work:cus" in (system / "page.html").read_text()


@pytest.mark.side_by_side
def test_a_validation_of_code_that_has_changed_counts_no_more(
    system: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_work(capsys, "validate", "-o", "valid.json")
    (system / "work.py").write_text(WORK + "\n# changed\n")
    (system / "study.toml").write_text('component = "work:cus"\nvalidation = "valid.json"\n' + FEW)
    _, out, _ = run(capsys, "study", "study.toml", "--json", "--", sys.executable, "app.py")
    result = json.loads(out)
    assert result["validated"] is False
    assert any("has changed" in warning for warning in result["warnings"])


POOL = """
import queue, threading, work
tasks = queue.Queue()
for i in range(12):
    tasks.put(i)
def worker():
    while True:
        try:
            tasks.get_nowait()
        except queue.Empty:
            return
        assert work.cus(20000) > 0
threads = [threading.Thread(target=worker) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
WORKERS = """
import multiprocessing, subprocess, sys, work
def child():
    assert work.cus(50000) > 0
if __name__ == "__main__":
    one = multiprocessing.get_context("fork").Process(target=child)
    one.start()
    work.cus(50000)
    one.join()
    subprocess.run([sys.executable, "-c", "import work; work.cus(30000)"], check=True)
    sys.exit(one.exitcode)
"""


@pytest.mark.side_by_side
@pytest.mark.parametrize(("text", "calls"), [(POOL, 12), (WORKERS, 3)], ids=["pool", "processes"])
def test_threads_and_processes_are_followed(
    system: Path, capsys: pytest.CaptureFixture[str], text: str, calls: int
) -> None:
    (system / "app.py").write_text(text)
    (system / "study.toml").write_text('component = "work:cus"\n' + FEW)
    code, out, err = run(capsys, "study", "study.toml", "--json", "--", sys.executable, "app.py")
    assert code in (0, 3), err
    assert json.loads(out)["calls"] == calls


@pytest.mark.side_by_side
def test_a_system_that_does_not_do_the_same_each_time_is_one_line(
    system: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (system / "app.py").write_text(
        "import os, work\nfor _ in range(os.getpid() % 97 + 1):\n    work.cus(10)\n"
    )
    code, _, err = run(capsys, "study", "study.toml", "--", sys.executable, "app.py")
    assert code == 1
    assert "the system has to do the same in each run" in err


def test_a_stubs_calls_are_measured_as_the_components_are(system: Path) -> None:
    (system / "scratch").mkdir()
    require_as_asked(_lab.Lab([sys.executable, "app.py"], StudyPlan("work:cus"), system / "scratch"))


def test_what_takes_over_is_named(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (system / "app.py").write_text(
        "import time, work\ndef device():\n    time.sleep(0.4)\nwork.cus(20000)\ndevice()\n"
    )
    (system / "scratch").mkdir()
    lab = _lab.Lab([sys.executable, "app.py"], StudyPlan("work:cus"), system / "scratch")
    units = lab.measure()
    lab.run("record")
    lab.keep(units)
    assert _next.takes_over(lab) == "waiting in device"
