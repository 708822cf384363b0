from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from latlab.formats.recording import open_recording

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("LATLAB_SHARED", ROOT.parent / "shared")) / "data"


def demo(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "latlab", "demo", "--seconds", "1", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    # 3: measured, and not trustworthy, which a loaded machine is bound to make it.
    assert not check or done.returncode in (0, 3), done.stderr
    return done


def feed(path: Path, messages: int = 2000) -> Path:
    command = ["market", "generate", "--messages", str(messages), "--symbols", "20", "-o", str(path)]
    subprocess.run([sys.executable, "-m", "latlab", *command], capture_output=True, check=True)
    return path


@pytest.mark.parametrize("stage", ["decoder", "market", "book", "strategy", "execution", "book-1"])
def test_a_stage_that_was_made_slow_is_named(stage: str, tmp_path: Path) -> None:
    # 100 µs an event, at a load that a slow stage can't carry on any machine, and the rest can.
    done = demo("--slow", f"{stage}=100000", "--json", "-o", str(tmp_path / "run"))
    diagnosis = json.loads(done.stdout)
    assert diagnosis["limiting_stage"] == stage, diagnosis["sentence"]


@pytest.mark.side_by_side
def test_the_json_has_the_keys_of_the_contract(tmp_path: Path) -> None:
    diagnosis = json.loads(demo("--json", "-o", str(tmp_path / "run")).stdout)
    assert diagnosis["schema"] == 1
    assert set(diagnosis) >= {
        "limiting_stage",
        "confidence",
        "queues",
        "stages",
        "end_to_end_ns",
        "sampler",
        "discrepancy",
    }
    assert set(diagnosis["queues"][0]) >= {"name", "source", "drain", "in", "out", "drops", "fill"}
    assert set(diagnosis["sampler"]) >= {"period_ns", "achieved_p99_ns", "queues"}


@pytest.mark.side_by_side
def test_every_event_that_went_into_a_queue_came_out_of_it(tmp_path: Path) -> None:
    queues = json.loads(demo("--json", "-o", str(tmp_path / "run")).stdout)["queues"]
    assert [q["name"] for q in queues if q["in"] != q["out"] and q["kind"] != "pool"] == []


@pytest.mark.smoke
def test_the_report_and_the_recording_stand_and_need_nothing_from_the_network(tmp_path: Path) -> None:
    done = demo("-o", str(tmp_path / "run"))
    assert done.stdout.splitlines()[-1] == f"report: {tmp_path / 'run/report.html'}"
    page = (tmp_path / "run/report.html").read_text()
    assert re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="?http', page) == []
    recording = open_recording(tmp_path / "run")
    assert recording.complete
    assert {"samples", "sweeps", "topology", "traces"} <= set(recording.names())


@pytest.mark.side_by_side
def test_an_output_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    done = demo("-o", str(tmp_path), check=False)
    assert (done.returncode, done.stdout, (tmp_path / "mine").read_text()) == (2, "", "precious")


@pytest.mark.side_by_side
def test_a_gzipped_feed_is_played(tmp_path: Path) -> None:
    path = feed(tmp_path / "day.itch")
    with gzip.open(tmp_path / "day.itch.gz", "wb") as packed:
        packed.write(path.read_bytes())
    diagnosis = json.loads(
        demo("--input", str(tmp_path / "day.itch.gz"), "--json", "-o", str(tmp_path / "run")).stdout
    )
    assert diagnosis["events"] > 2000


@pytest.mark.side_by_side
def test_a_feed_that_is_cut_short_is_refused_with_file_and_offset(tmp_path: Path) -> None:
    path = feed(tmp_path / "day.itch")
    path.write_bytes(path.read_bytes()[:-3])
    done = demo("--input", str(path), "-o", str(tmp_path / "run"), check=False)
    assert done.returncode == 1
    assert re.fullmatch(
        rf"latlab: {re.escape(str(path))}: offset \d+: the frame is cut short; give an ITCH-5.0 file .*\n",
        done.stderr.splitlines(keepends=True)[-1],
    )


@pytest.mark.side_by_side
@pytest.mark.parametrize("content", [b"", b"this is not market data, but a text", bytes(4096)])
def test_a_foreign_feed_is_refused_on_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "foreign.itch"
    path.write_bytes(content)
    done = demo("--input", str(path), "-o", str(tmp_path / "run"), check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"latlab: {path}: ")
    assert "Traceback" not in done.stderr


@pytest.mark.side_by_side
def test_a_layout_with_an_unknown_key_is_refused_with_its_place(tmp_path: Path) -> None:
    layout = tmp_path / "my.toml"
    layout.write_text("[stages.book]\ncuont = 3\n")
    done = demo("--layout", str(layout), check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"latlab: {layout}: stages.book.cuont: unknown key; known: ")


@pytest.mark.side_by_side
def test_a_planted_time_that_is_no_number_is_a_usage_error() -> None:
    done = demo("--slow", "book=slowly", check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "latlab: --slow takes STAGE=DURATION, not book=slowly; for example book=30us\n",
    )


WIDE = """[replay]
delay_ns = 100_000
[stages.book]
count = 3
workers = 2
[stages.strategy]
count = 4
per_book = 2
wait = "hybrid"
[threads.front]
runs = ["decoder", "market"]
[queues]
routed = { kind = "mpmc" }
updates = { kind = "unbounded" }
"""


@pytest.mark.side_by_side
def test_worker_pools_shared_threads_and_fan_out_lose_nothing(tmp_path: Path) -> None:
    layout = tmp_path / "wide.toml"
    layout.write_text(WIDE)
    diagnosis = json.loads(demo("--layout", str(layout), "--json", "-o", str(tmp_path / "run")).stdout)
    lost = [q["name"] for q in diagnosis["queues"] if q["in"] != q["out"] and q["kind"] != "pool"]
    assert (lost, sum(q["drops"] for q in diagnosis["queues"])) == ([], 0)


def signalled(seconds: int, sent: signal.Signals, run: Path) -> tuple[int, str, str]:
    """A demonstration whose trading process is sent a signal: how it ends, and what it says."""
    running = subprocess.Popen(
        [sys.executable, "-m", "latlab", "demo", "--seconds", str(seconds), "--json", "-o", str(run)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    try:
        while "observing" not in (line := running.stderr.readline()):
            assert line
        time.sleep(1.5)
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        of = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
        os.kill(next(int(pid) for pid in children if b"execution" not in of[pid]), sent)
        output, errors = running.communicate(timeout=100)
    finally:
        running.kill()
    return running.returncode, output, errors


@pytest.mark.side_by_side
def test_a_pipeline_process_that_is_killed_is_reported_as_dead_with_what_it_had_counted(
    tmp_path: Path,
) -> None:
    code, output, errors = signalled(20, signal.SIGKILL, tmp_path / "run")
    assert code == 3, errors
    diagnosis = json.loads(output)
    assert any("trading process died by SIGKILL" in reason for reason in diagnosis["distrust"])
    assert sum(queue["in"] for queue in diagnosis["queues"]) > 0


@pytest.mark.side_by_side
def test_a_pipeline_process_that_is_told_to_end_ends_and_what_it_did_is_told(tmp_path: Path) -> None:
    code, output, errors = signalled(3000, signal.SIGTERM, tmp_path / "run")
    assert code in (0, 3), errors
    diagnosis = json.loads(output)
    assert [reason for reason in diagnosis["distrust"] if "died" in reason] == []
    assert diagnosis["events"] > 0


@pytest.mark.side_by_side
def test_the_demonstration_runs_on_every_shared_itch_file(tmp_path: Path) -> None:
    files = sorted((SHARED / "itch").glob("*")) if (SHARED / "itch").is_dir() else []
    if not files:
        pytest.skip(f"there are no sample feeds in {SHARED / 'itch'}")
    for number, path in enumerate(files):
        done = demo("--input", str(path), "--json", "-o", str(tmp_path / str(number)))
        assert json.loads(done.stdout)["events"] > 0


@pytest.mark.side_by_side
def test_the_report_opens_in_a_browser_without_an_error(tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("chromium is not installed")
    demo("-o", str(tmp_path / "run"))
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--enable-logging=stderr",
    ]
    done = subprocess.run(
        [
            browser,
            *options,
            f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=60000",  # the figures' library is unpacked first
            "--dump-dom",
            f"file://{tmp_path / 'run/report.html'}",
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line and "rror" in line] == []
    assert done.stdout.count('class="main-svg"') > 0
