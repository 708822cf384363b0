from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.files.messaging_runs import child_of, latlab, settled, signalled

from latlab.messaging import analyse, load_run, measure
from latlab.model.messaging.results import Settings

pytestmark = pytest.mark.side_by_side  # what failed is told: no time is judged


def children() -> set[int]:
    found = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return {int(line.split()[0]) for line in found.splitlines() if "latlab-broker" in line}


@pytest.mark.parametrize("name", ["unix", "shm", "udp"])
def test_a_broker_that_is_killed_ends_the_run_as_partial_and_leaves_nothing(name: str) -> None:
    run_of = ("--transport", name, "--rate", "5000", "--timeout", "3")
    broker, done = signalled("latlab-broker", signal.SIGKILL, *run_of, after_s=0.7)
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert document["partial"]
    assert 0 < document["received"] < 100_000
    assert "the broker was killed by SIGKILL" in done.stderr
    assert "Traceback" not in done.stderr
    assert broker not in children()


def test_a_broker_that_is_stopped_is_named_after_the_timeout() -> None:
    run_of = ("--transport", "tcp", "--rate", "5000", "--timeout", "1")
    broker, done = signalled("latlab-broker", signal.SIGSTOP, *run_of, after_s=0.5)
    assert json.loads(done.stdout)["received"] > 0
    assert "the broker is stopped" in done.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(broker, 0)


@pytest.mark.parametrize("role", ["broker", "receiver"])
def test_who_is_stopped_in_a_run_of_the_python_loop_is_named_after_the_timeout(role: str) -> None:
    run_of = ("--transport", "mp-queue", "--rate", "1000", "--timeout", "1")
    # It imports Python's modules first.
    child, done = signalled(f"role={role}", signal.SIGSTOP, *run_of, after_s=2)
    assert (done.returncode, json.loads(done.stdout)["partial"]) == (1, True)
    assert f"latlab: the {role} is stopped for 1 s; " in done.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


@pytest.mark.peer
@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server: apt install redis-server")
def test_a_sender_that_waits_for_a_stopped_server_does_not_keep_the_run_from_ending() -> None:
    pytest.importorskip("redis", reason="pip install 'latlab[brokers]'")
    command = [sys.executable, "-m", "latlab", "messaging", "run", "--transport", "redis-stream"]
    command += ["--messages", "100k", "--rate", "500", "--json", "--timeout", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        child = child_of(process.pid, "redis-server")
        settled(child, 4)  # both ends connect first
        os.kill(child, signal.SIGSTOP)  # each message is answered: none is under way
        out, err = process.communicate(timeout=60)  # by its own rate it would take 200 s
    finally:
        process.kill()
    assert (process.returncode, json.loads(out)["partial"]) == (1, True)
    assert "latlab: the broker is stopped for " in err
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_keeps_what_it_measured_as_partial(
    number: signal.Signals, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "latlab", "messaging", "run", "--transport", "tcp", "--messages", "100k"]
    command += ["--rate", "5000", "--json", "-o", str(tmp_path / "kept")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        child_of(process.pid, "latlab-broker")
        time.sleep(0.7)
        process.send_signal(number)
        out, err = process.communicate(timeout=40)
    finally:
        process.kill()
    document = json.loads(out)
    assert (process.returncode, document["partial"], document["partial_reason"]) == (1, True, "interrupted")
    assert 0 < document["received"] < 100_000
    assert "kept as partial" in err
    assert load_run(tmp_path / "kept").partial == "interrupted"


@pytest.mark.parametrize("more", [["--sweep", "size=1,2"], ["--wait", "both"]])
def test_an_interrupt_ends_the_whole_series_of_runs(more: list[str]) -> None:
    command = [sys.executable, "-m", "latlab", "messaging", "run", "--transport", "tcp", "--messages", "20k"]
    process = subprocess.Popen(
        [*command, "--rate", "1000", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        child_of(process.pid, "latlab-broker")
        time.sleep(0.7)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=15)  # one of its runs takes 20 s
    finally:
        process.kill()
    assert process.returncode == 1
    assert "latlab: interrupted; " in err


def test_killing_the_command_itself_leaves_no_broker_behind() -> None:
    command = [sys.executable, "-m", "latlab", "messaging", "run", "--transport", "tcp", "--messages", "100k"]
    process = subprocess.Popen(
        [*command, "--rate", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    broker = child_of(process.pid, "latlab-broker")
    process.kill()
    process.wait()
    for _ in range(200):
        if broker not in children():
            break
        time.sleep(0.02)
    assert broker not in children()


def test_a_receiver_slower_than_its_sender_loses_nothing_over_a_lossless_transport() -> None:
    settings = Settings(
        "shm", messages=5000, receiver_delay_ns=50_000, buffer_bytes=1024, load="rate", rate_hz=100_000.0
    )
    result = analyse(measure(settings))
    assert (result.received, result.lost) == (5000, 0)
    assert result.stability == "rising"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--transport", "udp", "--size", "70000"], 2, "65,507"),
        (["--transport", "tcp", "--messages", "0"], 2, "at least 1 message"),
        (["--transport", "nothing"], 2, "latlab messaging transports"),
        (["--transport", "tcp", "--size", "x"], 2, "isn't a size"),
        (["--transport", "shm", "--priority", "5"], 2, "--wait block"),
        (["--transport", "mp-queue", "--priority", "5"], 2, "no real-time priority"),
        (["--transport", "tcp", "--every", "1ms", "--rate", "1000"], 2, "leave --rate or --every out"),
        (["--transport", "tcp", "--wait", "both", "--sweep", "size=1,2"], 2, "wait=block,poll"),
        (["--transport", "tcp", "--sweep", "size=1", "--sweep", "size=2"], 2, "given twice"),
    ],
)
def test_bad_input_is_one_line_without_a_traceback(arguments: list[str], code: int, said: str) -> None:
    done = latlab("run", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_harness_has_no_cost_for_a_message_of_no_bytes() -> None:
    done = latlab("calibrate", "--size", "0")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize("more", [[], ["--wait", "both"], ["--sweep", "size=1,2"]])
def test_a_folder_that_holds_something_is_refused_before_the_measurement(
    more: list[str], tmp_path: Path
) -> None:
    for taken in ("kept", "kept-block", "kept/size=2"):
        (tmp_path / taken).mkdir()
        (tmp_path / taken / "something").touch()
    arguments = ["--transport", "pipe", "--messages", "100", "--rate", "1", "-o", str(tmp_path / "kept")]
    done = latlab("run", *arguments, *more)  # 100 s, if it ran
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not empty" in done.stderr
    assert not (tmp_path / "kept-poll").exists()  # nor is anything left behind


def test_an_export_to_where_nothing_can_be_written_is_one_line(tmp_path: Path) -> None:
    latlab("run", "--transport", "pipe", "--messages", "10", "-o", str(tmp_path / "kept"))
    (tmp_path / "file").touch()
    done = latlab("export", str(tmp_path / "kept"), "-o", str(tmp_path / "file"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
