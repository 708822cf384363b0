from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.files.messaging_runs import latlab, run

from latlab.messaging import analyse, load_run, measure, overheads
from latlab.messaging.running.ways.links import NATIVE
from latlab.model.messaging.results import Settings
from latlab.reports.messaging.gnuplot import write_gnuplot

KEYS = {
    "schema", "transport", "size", "sent", "received", "lost", "duplicated", "reordered", "latency_ns",
    "intended_latency_ns", "sending_throughput", "receiving_throughput", "cpu", "humps", "harness_ns",
    "partial",
}  # fmt: skip


@pytest.mark.side_by_side
@pytest.mark.parametrize("topology", ["broker", "direct", "pingpong"])
@pytest.mark.parametrize("name", NATIVE)
def test_every_message_of_a_paced_run_arrives(name: str, topology: str) -> None:
    settings = Settings(name, messages=400, warmup=50, topology=topology, load="rate", rate_hz=4000.0)
    result = analyse(measure(settings))
    if NATIVE[name].lossless:
        assert (result.sent, result.received, result.lost) == (400, 400, 0)
    assert (result.duplicated, result.corrupted, result.partial) == (0, 0, None)
    assert result.identity_violations == 0
    assert result.latency is not None
    assert result.latency.minimum > 0


@pytest.mark.side_by_side
@pytest.mark.parametrize("name", ["shm", "unix", "udp"])
@pytest.mark.parametrize("wait", ["block", "poll"])
def test_both_ways_of_waiting_bring_every_message(name: str, wait: str) -> None:
    settings = Settings(name, messages=300, wait=wait, load="rate", rate_hz=3000.0)
    result = analyse(measure(settings))
    assert (result.received + result.lost, result.wait) == (300, wait)


@pytest.mark.side_by_side
@pytest.mark.parametrize("size", [1, 2, 5, 9, 16, 100, 70_000, 3_000_000])
def test_sizes_from_a_byte_to_megabytes_come_through_a_stream(size: int) -> None:
    result = analyse(measure(Settings("unix", messages=20, size=size)))
    assert (result.received, result.corrupted, result.reordered) == (20, 0, 0)


@pytest.mark.smoke
def test_the_contract_for_machines_holds() -> None:
    document = run("--transport", "tcp", "--size", "64", "--messages", "2000", "--rate", "20000")
    assert document.keys() >= KEYS
    assert (document["schema"], document["sent"], document["received"], document["partial"]) == (
        1,
        2000,
        2000,
        False,
    )
    keys = {"average", "median", "robust_deviation", "p50", "p90", "p99", "p99.9", "max"}
    assert document["latency_ns"].keys() >= keys
    assert document["intended_latency_ns"].keys() >= keys
    assert document["latency_ns"]["median"] == document["latency_ns"]["p50"]
    assert document["cpu"].keys() >= {"sender", "broker", "receiver"}
    assert document["harness_ns"].keys() >= {"sender", "receiver"}
    assert sum(hump["weight"] for hump in document["humps"]) == pytest.approx(1.0)


@pytest.mark.side_by_side
def test_without_a_rate_there_is_no_intended_latency() -> None:
    assert run("--transport", "shm", "--messages", "1000")["intended_latency_ns"] is None


@pytest.mark.side_by_side
def test_planted_faults_are_counted_as_what_they_are() -> None:
    faults = ["--fault", "drop=100", "--fault", "repeat=250", "--fault", "swap=70", "--fault", "damage=333"]
    document = run("--transport", "unix", "--messages", "1000", "--warmup", "0", *faults)
    dropped, swapped = {*range(99, 1000, 100)}, {*range(69, 1000, 70)}
    damaged = [n for n in range(332, 1000, 333) if n not in dropped and n not in swapped]
    repeated = [n for n in range(249, 1000, 250) if n not in dropped and n not in swapped]
    assert document["lost"] == len(dropped)
    assert document["corrupted"] == len(damaged)
    assert document["duplicated"] == len(repeated)
    assert document["reordered"] == len(swapped - dropped)


@pytest.mark.side_by_side
def test_a_recording_keeps_every_message_and_reads_back_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    document = run("--transport", "pipe", "--messages", "3000", "-o", str(folder))
    again = load_run(folder)
    result = analyse(again)
    assert result.latency is not None
    assert result.latency.median == document["latency_ns"]["median"]
    ro, so = overheads(again.received_ns, 1), overheads(again.sent_ns, 1)
    assert np.array_equal(ro - so, np.diff(again.received_ns - again.sent_ns))


def test_a_stall_in_the_broker_reaches_the_intended_latency_and_not_the_number_of_messages() -> None:
    stall = 60_000_000
    settings = Settings("unix", messages=2000, load="rate", rate_hz=10_000.0, stalls=((1000, stall),))
    m = measure(settings)
    assert m.intended_ns is not None
    latency = m.received_ns - m.intended_ns
    assert latency[1000] >= stall
    result = analyse(m)
    assert (result.received, result.stalls_ns[0][0]) == (2000, 1000)
    assert result.stalls_ns[0][1] >= stall


@pytest.mark.parametrize("slow", ["receiver", "broker"])
def test_the_part_that_is_slowed_down_is_what_limits(slow: str) -> None:
    delay = {f"{slow}_delay_ns": 100_000}
    topology = "direct" if slow == "receiver" else "broker"
    verdict = analyse(measure(Settings("unix", messages=3000, topology=topology, **delay))).verdict  # type: ignore[arg-type]
    # Beside others that take the CPU it may be the core or the machine that limits, which is said, too.
    assert slow in verdict.parts or {d.kind for d in verdict.doubts} & {"others", "hypervisor"}


def test_a_run_beside_programs_that_take_every_cpu_is_not_trustworthy() -> None:
    hog = [sys.executable, "-c", "while True: pass"]
    hogs = [subprocess.Popen(hog) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        done = latlab("run", "--json", "--transport", "tcp", "--messages", "1000", "--rate", "1000")
    finally:
        for one in hogs:
            one.kill()
            one.wait()
    doubts = [doubt["kind"] for doubt in json.loads(done.stdout)["verdict"]["doubts"]]
    assert (done.returncode, doubts[:1]) == (3, ["others"])
    assert "other processes used" in done.stderr


@pytest.mark.side_by_side
def test_a_window_as_long_as_the_run_is_a_note_and_not_an_error() -> None:
    document = run("--transport", "pipe", "--messages", "50", "--window", "50")
    assert document["sending_throughput"]["windows_messages_per_s"] is None
    assert any("overheads are undefined" in note for note in document["notes"])


@pytest.mark.side_by_side
def test_the_list_of_transports_says_what_each_one_needs() -> None:
    done = latlab("transports", "--json")
    found = {t["name"]: t for t in json.loads(done.stdout)["transports"]}
    assert found["shm"]["available"]
    assert all((t["needs"] is None) == t["available"] for t in found.values())


@pytest.mark.side_by_side
def test_the_text_names_what_was_measured() -> None:
    done = latlab("run", "--transport", "unix", "--messages", "500", "--rate", "5000")
    assert done.returncode in (0, 3)
    for part in (
        "latency (from the intended sending)",
        "receiving throughput",
        "CPU per message",
        "humps",
        "harness",
    ):
        assert part in done.stdout


@pytest.mark.side_by_side
def test_a_sweep_gives_one_point_for_each_combination(tmp_path: Path) -> None:
    done = latlab(
        "run", "--transport", "unix", "--messages", "300", "--sweep", "size=1,100,1k", "--sweep", "batch=1,8",
        "--json", "-o", str(tmp_path / "sweep"),
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert [p["point"] for p in document["points"]] == [
        {"size": s, "batch": b} for s in (1, 100, 1000) for b in (1, 8)
    ]
    assert len(list((tmp_path / "sweep").iterdir())) == 6


@pytest.mark.side_by_side
def test_any_setting_of_the_load_is_an_axis() -> None:
    done = latlab(
        "run", "--transport", "unix", "--messages", "200", "--json",
        "--sweep", "every=1ms,2ms", "--sweep", "broker-delay=10us,20us",
    )  # fmt: skip
    points = json.loads(done.stdout)["points"]
    assert [p["point"] for p in points] == [
        {"every": e * 1_000_000, "broker-delay": d * 1000} for e in (1, 2) for d in (10, 20)
    ]
    assert {p["settings"]["load"] for p in points} == {"bursts"}


@pytest.mark.side_by_side
def test_a_recording_is_exported_and_compared_with_itself(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run("--transport", "unix", "--messages", "2000", "--rate", "10000", "-o", str(folder))
    done = latlab("export", str(folder), "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    names = {Path(line).name for line in done.stdout.splitlines()}
    assert names >= {"plot.gp", "messages.csv", "latency.hlog", "result.json", "report.html"}
    assert len((tmp_path / "out" / "messages.csv").read_text().splitlines()) == 2201
    same = latlab("compare", str(folder), str(folder), "--json")
    assert same.returncode == 0
    assert {c["verdict"] for c in json.loads(same.stdout)["changes"]} == {"the same recording"}


def test_a_run_with_a_slower_broker_compares_as_a_regression(tmp_path: Path) -> None:
    run("--transport", "unix", "--messages", "200", "--rate", "200", "-o", str(tmp_path / "a"))
    run(
        "--transport",
        "unix",
        "--messages",
        "400",
        "--rate",
        "200",
        "--broker-delay",
        "3ms",
        "-o",
        str(tmp_path / "b"),
    )
    done = latlab("compare", str(tmp_path / "a"), str(tmp_path / "b"))
    if "not trustworthy" in done.stderr:  # something else ran beside them
        assert (done.returncode, "slower" in done.stdout) == (3, False)
    else:
        assert (done.returncode, "slower" in done.stdout) == (4, True)


@pytest.mark.side_by_side
def test_the_harness_states_its_own_cost() -> None:
    done = latlab("calibrate", "--json")
    found = json.loads(done.stdout)
    assert found["schema"] == 1
    assert found["clock_ns"] > 0
    assert found["floor_ns"] > 0


@pytest.mark.side_by_side
@pytest.mark.peer
@pytest.mark.parametrize("count", [0, 1, 2, 5000])
def test_gnuplot_draws_all_seven_graphs(tmp_path: Path, count: int) -> None:
    if shutil.which("gnuplot") is None:
        pytest.skip("gnuplot did not run: apt install gnuplot-nox")
    sent = np.arange(count) * 1000
    sizes = [(64.0, 500.0, 1e6, 6.4e7), (128.0, 600.0, 9e5, 1.1e8)] if count == 5000 else []
    received = sent + 500 + np.arange(count) % 300
    write_gnuplot(tmp_path, sent=sent, received=received, sizes=sizes)
    done = subprocess.run(["gnuplot", "plot.gp"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert count < 5000 or done.stderr == ""
    assert len(list(tmp_path.glob("*.png"))) == 7
