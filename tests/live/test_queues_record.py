import json
import os
import struct
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from latlab._core import clock as core_clock
from latlab.cli import main
from latlab.errors import InputError
from latlab.formats.event_traces.files import HEADER_BYTES, LANE_HEAD_BYTES, MAGIC, RECORD, VERSION
from latlab.formats.recording import open_recording
from latlab.queues import Memory, Recorder, applications, load

pytestmark = pytest.mark.side_by_side  # of folders of their own, what is recorded is read: no time is judged

APPLICATION = """
import sys, time
from latlab._core import counting
counting.set_application(sys.argv[1])
slot = counting.Slot(name="orders", capacity=16, source_name="feed", drain_name="book")
counting.set_phase(1)
print("ready", flush=True)
deadline = time.monotonic() + float(sys.argv[2])
while time.monotonic() < deadline:
    slot.put(5)
    time.sleep(0.002)
    slot.get(5)
    time.sleep(0.002)
counting.set_phase(2)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("LATLAB_COUNTERS", str(tmp_path / "counters"))


@pytest.fixture
def start() -> Any:
    running = []

    def begin(name: Any, seconds: Any = 30.0, program: Any = APPLICATION) -> Any:
        process = subprocess.Popen(
            [sys.executable, "-c", program, name, str(seconds)],
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def record_until(recorder: Any, condition: Any, seconds: Any = 20.0) -> Any:
    """Run a recorder until a condition holds; the deadline only ends a test that fails."""
    deadline = time.monotonic() + seconds
    with recorder:
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)
    return recorder.observation()


def test_a_recording_holds_the_fills_that_were_planted_and_no_others(start: Any) -> None:
    start("planted")
    recorder = Recorder("planted", period_ns=500_000)
    seen = record_until(recorder, lambda: recorder.statistics["samples"] > 40)
    fills = seen.samples["in"].astype("i8") - seen.samples["out_low"].astype("i8")
    assert set(np.unique(fills)) == {0, 5}
    assert (seen.samples["t_ns"] <= seen.samples["t_end_ns"]).all()
    assert (np.diff(seen.sweeps["t_ns"]) > 0).all()
    assert (seen.queues[0].name, seen.queues[0].source, seen.queues[0].drain) == ("orders", "feed", "book")


def test_a_killed_process_is_marked_dead_and_its_name_s_next_process_is_followed_apart(start: Any) -> None:
    first = start("again")
    events: list[Any] = []
    recorder = Recorder("again", period_ns=1_000_000)
    recorder.on_event = events.append
    deadline = time.monotonic() + 20
    with recorder:
        first.kill()
        first.wait()
        while not any(e.event == "died" for e in events) and time.monotonic() < deadline:
            time.sleep(0.02)
        start("again")
        while len(recorder.observation().queues) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
    seen = recorder.observation()
    assert [e.event for e in events if e.what == "process" and e.event != "phase"][:3] == [
        "appeared",
        "died",
        "appeared",
    ]
    assert [q.retired_ns is None for q in seen.queues] == [False, True]
    assert [q.processes for q in seen.queues] == [(0,), (1,)]


def test_two_applications_at_once_are_told_apart(start: Any) -> None:
    start("one")
    start("two")
    recorder = Recorder("one", period_ns=1_000_000)
    seen = record_until(recorder, lambda: recorder.statistics["samples"] > 5)
    assert [p.application for p in seen.processes] == ["one"]
    assert {a.application: a.live for a in applications()} == {"one": True, "two": True}


def test_a_target_that_nobody_publishes_is_an_error_that_says_what_there_is(start: Any) -> None:
    start("here")
    with pytest.raises(InputError, match="there are: here"):
        Recorder("elsewhere").look()


@pytest.mark.smoke
def test_the_command_writes_a_recording_that_loads_as_what_it_recorded(
    start: Any, tmp_path: Any, capsys: Any
) -> None:
    process = start("commanded")
    run = tmp_path / "run"
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "queues",
                "record",
                str(process.pid),
                "-o",
                str(run),
                "--period",
                "1ms",
                "--seconds",
                "0.5",
                "--json",
            ]
        )
    assert ended.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == 1
    seen = load(run)
    assert said["samples"] == len(seen.samples["t_ns"])
    assert said["sweeps"] == len(seen.sweeps["t_ns"])
    assert seen.processes[0].pid == process.pid
    assert seen.period_ns == 1_000_000
    assert len(seen.threads["tid"]) >= 2


def test_the_list_has_the_live_and_the_dead_and_removes_the_dead(start: Any, capsys: Any) -> None:
    live, dead = start("alive"), start("gone")
    dead.kill()
    dead.wait()
    with pytest.raises(SystemExit):
        main(["queues", "list", "--json", "--remove-dead"])
    found = {a["application"]: a for a in json.loads(capsys.readouterr().out)["applications"]}
    assert found["alive"]["live"]
    assert found["alive"]["pid"] == live.pid
    assert found["gone"]["state"] == "dead"
    assert [a.application for a in applications()] == ["alive"]


BETWEEN = """
import os, sys, time
from latlab._core import counting
counting.set_application(sys.argv[1])
side = int(float(sys.argv[2]))
slot = counting.Slot(name="wire", kind=4, capacity=100, identity=4711, sides=side + 4)
print("ready", flush=True)
for line in sys.stdin:
    (slot.put if side == 1 else slot.get)(int(line))
"""


def test_a_queue_between_processes_is_one_queue_whose_shares_are_added(start: Any) -> None:
    sides = [start("wire", side, program=BETWEEN) for side in (1, 1, 2)]
    for process, events in zip(sides, (7, 5, 4), strict=True):
        process.stdin.write(f"{events}\n")
        process.stdin.flush()
    recorder = Recorder("wire", period_ns=1_000_000)

    def rows() -> Any:
        assert isinstance(recorder.sink, Memory)
        return recorder.sink.columns("samples")

    seen = record_until(recorder, lambda: (rows()["out_high"] == 4).any() and (rows()["in"] == 12).any())
    assert [q.name for q in seen.queues] == ["wire"]
    assert len(seen.queues[0].processes) == 3
    assert int(seen.samples["in"][-1]) == 12
    assert int(seen.samples["out_high"][-1]) == 4


def test_a_process_that_only_observes_publishes_nothing(start: Any) -> None:
    start("watched")
    recorder = Recorder("watched", period_ns=1_000_000)
    record_until(recorder, lambda: recorder.statistics["samples"] > 5)
    assert [a.pid for a in applications() if a.pid == os.getpid()] == []


FILLS = """
import sys, time
from latlab._core import counting
counting.set_application(sys.argv[1])
slot = counting.Slot(name="orders", capacity=16, source_name="feed", drain_name="book")
print("ready", flush=True)
sys.stdin.readline()
for _ in range(200):
    slot.put(1)
    time.sleep(0.001)
    slot.get(1)
slot.put(16)
slot.drop(3)
sys.stdin.readline()
"""


def test_the_flight_recorder_writes_the_seconds_before_a_drop(start: Any, tmp_path: Any, capsys: Any) -> None:
    process = start("flies", program=FILLS)
    run = tmp_path / "run"
    timer = threading.Timer(0.3, lambda: (process.stdin.write("go\n"), process.stdin.flush()))
    timer.start()
    arguments = ["queues", "record", str(process.pid), "-o", str(run), "--period", "500us", "--seconds", "40"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--flight", "10s", "--on", "drop", "--after", "50ms", "--json"])
    timer.join()
    assert ended.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["cause"], said["queue"], said["value"]) == ("drop", "orders", 3)
    seen = load(run)
    assert int(seen.samples["dropped"].max()) == 3
    assert int(seen.samples["in"].min()) < 100  # what came before it is there
    assert seen.queues[0].name == "orders"


def trace_file(path: Any, pid: Any, seconds_from_now: Any) -> None:
    """A trace file of one lane: an event through the first queue at each of these times, 1 ms long."""
    ticks, ns = core_clock.reference()[:2]
    time.sleep(0.05)
    later = core_clock.reference()
    hz = (later[0] - ticks) * 1e9 / (later[1] - ns)
    records = np.zeros(len(seconds_from_now), RECORD)
    records["event"] = np.arange(len(records)) + 1
    records["pop_ticks"] = [ticks + round(hz * seconds) for seconds in seconds_from_now]
    records["push_ticks"] = records["pop_ticks"] - round(hz / 1000)
    head = struct.pack("<QIIQQIIQQ", MAGIC, VERSION, 1, LANE_HEAD_BYTES + records.nbytes, len(records), pid,
                       1, ticks, ns)  # fmt: skip
    lane = struct.pack("<Q", len(records))
    path.write_bytes(head.ljust(HEADER_BYTES, b"\0") + lane.ljust(LANE_HEAD_BYTES, b"\0") + records.tobytes())


@pytest.mark.smoke
def test_the_flight_recorder_takes_over_the_traces_of_its_seconds(
    start: Any, tmp_path: Any, capsys: Any
) -> None:
    process = start("traced", program=FILLS)
    run, traces = tmp_path / "run", tmp_path / "traces"
    trace_file(traces, process.pid, [-30.0, 1.0])
    timer = threading.Timer(0.3, lambda: (process.stdin.write("go\n"), process.stdin.flush()))
    timer.start()
    arguments = ["queues", "record", str(process.pid), "-o", str(run), "--period", "500us", "--seconds", "40"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--flight", "10s", "--on", "drop", "--after", "50ms", "--traces", str(traces)])
    timer.join()
    assert (ended.value.code, "latlab:" in capsys.readouterr().err) == (0, False)
    assert open_recording(run).series("traces")["event"].tolist() == [2]


def test_a_flight_in_which_nothing_happens_writes_nothing(start: Any, tmp_path: Any, capsys: Any) -> None:
    process = start("calm")
    run = tmp_path / "run"
    arguments = ["queues", "record", str(process.pid), "-o", str(run), "--seconds", "0.3"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--flight", "1s", "--on", "drop"])
    assert ended.value.code == 0
    assert "nothing happened" in capsys.readouterr().err
    assert not run.exists()


def test_a_latency_trigger_without_an_objective_is_a_usage_error(
    start: Any, tmp_path: Any, capsys: Any
) -> None:
    process = start("calm")
    arguments = ["queues", "record", str(process.pid), "-o", str(tmp_path / "run"), "--flight", "1s"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--on", "latency"])
    assert ended.value.code == 2
    assert "--objective" in capsys.readouterr().err


def test_a_target_that_matches_nothing_yet_is_told(start: Any, tmp_path: Any, capsys: Any) -> None:
    start("known")
    with pytest.raises(SystemExit) as ended:
        main(["queues", "record", "known", "later", "-o", str(tmp_path / "run"), "--seconds", "0.2"])
    assert ended.value.code == 0
    assert "nothing matches later yet" in capsys.readouterr().err


def test_a_cpu_that_the_machine_does_not_have_is_a_usage_error(
    start: Any, tmp_path: Any, capsys: Any
) -> None:
    start("known")
    with pytest.raises(SystemExit) as ended:
        main(["queues", "record", "known", "-o", str(tmp_path / "run"), "--cpus", "9999"])
    assert (ended.value.code, (tmp_path / "run").exists()) == (2, False)
    assert "runs no CPU 9999" in capsys.readouterr().err


def test_a_queue_that_is_left_out_and_was_never_there_is_told(start: Any, tmp_path: Any, capsys: Any) -> None:
    start("known")
    run = str(tmp_path / "run")
    with pytest.raises(SystemExit):
        main(["queues", "record", "known", "-o", run, "--seconds", "0.2"])
    with pytest.raises(SystemExit) as ended:
        main(["queues", "analyse", run, "--exclude", "orders", "--exclude", "oders"])
    assert ended.value.code == 0
    said = capsys.readouterr().err
    assert "--exclude oders: there is no such queue" in said
    assert "--exclude orders" not in said


def test_where_a_report_lies_is_told_to_machines(start: Any, tmp_path: Any, capsys: Any) -> None:
    start("known")
    run = tmp_path / "run"
    with pytest.raises(SystemExit):
        main(["queues", "record", "known", "-o", str(run), "--seconds", "0.5"])
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main(["queues", "report", str(run), "--json"])
    assert left.value.code == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"schema": 1, "report": str(run / "queues.html"), "queues": 1, "stages": 1}
    assert (run / "queues.html").exists()
