from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.files.started import took_emitted

from latlab import stubs
from latlab.cli import main
from latlab.errors import UsageError
from latlab.system.kernel import tracing


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    reason = tracing.unavailable()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("captured")
    with pytest.raises(SystemExit) as left:
        main(["stubs", "capture", "-o", str(folder), "--", "sh", "-c", "sleep 0.05; sleep 0.02 & wait; true"])
    assert not left.value.code
    return folder


@pytest.mark.rights
def test_a_captured_shell_has_its_children_its_joins_and_its_sleeps(captured: Path) -> None:
    program = stubs.load_actions(captured)
    timeline = stubs.load_timeline(captured)
    assert len(program.threads) == 3
    assert [thread.parent for thread in timeline.threads] == [None, 0, 0]
    verbs = [[action.verb for action in program.threads[number]] for number in range(3)]
    assert verbs[0].count("create") == 2
    assert verbs[0].count("join") == 2
    assert max(action.amount for action in program.threads[1] if action.verb == "sleep") > 40_000_000


@pytest.mark.rights
def test_what_was_captured_is_told_to_machines_apart_from_what_the_command_says(
    captured: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["stubs", "capture", "--json", "-o", str(tmp_path), "--", "sh", "-c", "echo said; exit 3"])
    out, err = capfd.readouterr()
    told = json.loads(out)
    assert (told["schema"], told["output"], told["threads"], told["exit_code"]) == (1, str(tmp_path), 1, 3)
    assert "said\n" in err


@pytest.mark.rights
def test_a_played_capture_keeps_the_budgets_and_the_order(captured: Path) -> None:
    program, timeline = stubs.load_actions(captured), stubs.load_timeline(captured)
    played = stubs.play(program)
    assert [thread.budget_ns for thread in played.threads] == [
        program.budgets_ns()[n] for n in sorted(program.threads)
    ]
    assert played.total_ns >= 70_000_000
    assert stubs.compare(timeline, played).missing == ()


@pytest.mark.side_by_side
@pytest.mark.rights
def test_an_emitted_c_program_compiles_and_ends(captured: Path, tmp_path: Path) -> None:
    source = tmp_path / "emitted.cpp"
    source.write_text(stubs.emit(stubs.load_actions(captured), "c++"))
    program = tmp_path / "emitted"
    built = subprocess.run(
        ["g++", "-O1", "-std=c++20", "-Wall", "-Werror", "-pthread", str(source), "-o", str(program)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=60)
    assert float(done.stdout.split()[0]) > 70


@pytest.mark.rights
def test_an_emitted_python_program_runs(captured: Path, tmp_path: Path) -> None:
    assert took_emitted(captured, tmp_path) > 70


@pytest.mark.rights
def test_a_process_that_runs_already_is_followed_and_left_as_it_is(tmp_path: Path) -> None:
    if (reason := tracing.unavailable()) is not None:
        pytest.skip(reason)
    script = "import threading, time\nthreading.Timer(60, print).start()\nwhile True: time.sleep(.01)"
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        time.sleep(0.3)
        with pytest.raises(SystemExit) as left:
            main(["stubs", "capture", "--pid", str(process.pid), "--seconds", "0.4", "-o", str(tmp_path)])
        alive = process.poll() is None
        process.kill()
    timeline, program = stubs.load_timeline(tmp_path), stubs.load_actions(tmp_path)

    assert (left.value.code or 0, alive) == (0, True)
    assert [thread.parent for thread in timeline.threads] == [None, None]
    assert timeline.total_ns > 300_000_000
    assert sum(action.verb == "sleep" for action in program.threads[0]) > 5


@pytest.mark.rights
def test_a_process_that_ends_while_it_is_followed_is_kept(tmp_path: Path) -> None:
    if (reason := tracing.unavailable()) is not None:
        pytest.skip(reason)
    script = "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: time.sleep(.01)"
    process = subprocess.Popen([sys.executable, "-c", script])
    waits = threading.Thread(target=process.wait)  # so that nothing is left of it
    waits.start()
    time.sleep(0.2)
    stubs.capture_pid(process.pid, tmp_path, seconds=20)
    waits.join()
    (thread,) = stubs.load_timeline(tmp_path).threads
    assert thread.end_ns > 500_000_000


@pytest.mark.rights
@pytest.mark.peer
def test_what_perf_sched_records_is_read(tmp_path: Path) -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    file, number = tmp_path / "perf.data", tmp_path / "number"
    shell = f"echo $$ > {number}; sleep 0.05; seq 20000 | sort -r > {tmp_path / 'sorted'}"
    recorded = subprocess.run(
        ["perf", "sched", "record", "-o", str(file), "--", "sh", "-c", shell],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if recorded.returncode:
        pytest.skip(f"perf can't record here: {recorded.stderr.strip().splitlines()[-1]}")
    chosen = ("--perf", str(file), "--pid", number.read_text().strip(), "-o", str(tmp_path / "read"))
    with pytest.raises(SystemExit) as left:
        main(["stubs", "capture", *chosen])
    timeline = stubs.load_timeline(tmp_path / "read")

    assert not left.value.code
    assert {"sleep", "seq", "sort"} <= {thread.name for thread in timeline.threads}
    assert timeline.thread(0).end_ns > 50_000_000


def test_a_command_that_does_not_exist_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["stubs", "capture", "-o", str(tmp_path / "x"), "--", "no-such-command-here"])
    assert left.value.code == 2
    assert "no-such-command-here" in capsys.readouterr().err


@pytest.mark.rights
def test_a_process_that_outlives_the_program_is_named_or_followed(tmp_path: Path) -> None:
    if (reason := tracing.unavailable()) is not None:
        pytest.skip(reason)
    command = ["sh", "-c", "(sleep 0.3; true) & exit 0"]
    cut, _ = stubs.capture(command, tmp_path / "cut")
    assert any("outlived the recording" in note for note in cut.notes)
    whole, _ = stubs.capture(command, tmp_path / "whole", linger_s=10)
    assert not any("outlived" in note for note in whole.notes)
    assert whole.total_ns > 300_000_000


@pytest.mark.side_by_side
def test_without_tracing_rights_capture_says_so_in_one_line(tmp_path: Path) -> None:
    # Root without its capabilities: a user who may not trace, and can read every file that this needs.
    script = (
        "import ctypes\nfrom latlab.cli import main\n"
        "ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())\n"
        f"main(['stubs', 'capture', '-o', {str(tmp_path / 'd')!r}, '--', 'true'])\n"
    )
    if Path("/proc/sys/kernel/perf_event_paranoid").read_text() == "-1\n":
        pytest.skip("everybody may trace on this machine")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"latlab: .*; .*run as root.*\n", done.stderr), done.stderr
    assert not (tmp_path / "d").exists()


def test_a_command_runs_under_a_load_that_is_stated(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    chosen = [
        "--cores",
        "1",
        "--duty",
        "0.3",
        "--memory-rate",
        "0.05",
        "--disk",
        "1",
        "--disk-folder",
        str(tmp_path),
    ]
    with pytest.raises(SystemExit) as left:
        main(["stubs", "load", *chosen, "--", "sh", "-c", "sleep 0.3; exit 3"])
    _, err = capfd.readouterr()
    assert left.value.code == 1
    found = re.search(r"([\d.]+) CPUs busy, ([\d.]+) [kMG]?B/s of memory, ([\d.]+) [kMG]?B/s of disk", err)
    assert found is not None, err
    assert all(float(number) > 0 for number in found.groups())
    assert float(found[1]) < 0.5
    assert list(tmp_path.iterdir()) == []


def test_performance_stubs_take_what_they_were_told(tmp_path: Path) -> None:
    assert stubs.busy(2e6).cpu_ns >= 1_990_000
    assert stubs.idle(2e6).wall_ns >= 1_900_000
    moved = stubs.io(tmp_path / "f", write_bytes=8192, fsync_every=1, delay_ns=3e6)
    assert (moved.writes, moved.fsyncs, moved.wall_ns >= 2_900_000) == (2, 2, True)
    assert stubs.network(100_000, bytes_per_s=1e7).wall_ns >= 8_000_000
    assert stubs.memory([(0, 1 << 20, 0), (1e6, 0, 1 << 18)]).peak_heap_bytes == 1 << 20
    assert stubs.cache(1 << 15).run(1000).accesses == 1000


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: stubs.busy(-1),
        lambda: stubs.busy(1, clock="moon"),
        lambda: stubs.idle(float("nan")),
        lambda: stubs.cache(8),
        lambda: stubs.io("f", block_bytes=0),
        lambda: stubs.memory([(0, -1, 0)]),
        lambda: stubs.network(-1),
        lambda: stubs.load(cpus=100_000).__enter__(),
        lambda: stubs.load(duty=2).__enter__(),
    ],
)
def test_a_stub_of_an_impossible_size_is_a_usage_error(wrong: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        wrong()
