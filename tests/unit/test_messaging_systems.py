from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from latlab.formats.recording import open_recording
from latlab.messaging import analyse, load_run, save_run
from latlab.model.machine.environment import Environment, Fact
from latlab.model.messaging.results import Doubt, Facts, Measurement, Settings, Side
from latlab.reports.json import dumps
from latlab.reports.messaging.html import axis_unit, write_html
from latlab.reports.messaging.json import result_json
from latlab.reports.messaging.systems import Kept, curves, nines, systems_json, write_systems
from latlab.reports.messaging.verdict import doubts
from latlab.words import duration


def measured(**changes: Any) -> Measurement:
    settings = Settings("tcp", messages=2000, **changes)
    due = np.arange(2000) * 1000
    return Measurement(
        settings=settings, facts=Facts("tcp", "TCP", True, True, 1 << 20, "here", "native"),
        sent_ns=due + 100, received_ns=due + 50_000 + due % 7000,
        intended_ns=due if settings.load == "rate" else None, kernel_ns=None,
        sender=Side(count=2000), receiver=Side(count=2000), sender_samples=np.zeros((0, 3), dtype=np.int64),
        receiver_samples=np.zeros((0, 5), dtype=np.int64), broker_cpu_ns=None, process_cpu_ns=5000,
        foreign_cpu_ns=None, elapsed_ns=1, network_bytes=None, ticks_hz=1e9, harness_ns=(1.0, 1.0, 1.0),
        bytes_per_message=16.0, locked=True, wait="block",
    )  # fmt: skip


def kept(name: str, cpu: str = "a", **changes: Any) -> Kept:
    m = measured(**changes)
    recording: Any = SimpleNamespace(
        environment=Environment({"cpu.model": Fact(cpu)}),
        command=f"latlab messaging run -o {name}",
        seed=None,
    )
    return Kept.of(name, recording, m, analyse(m))


def test_only_recordings_that_differ_in_one_setting_are_joined() -> None:
    runs = [kept("a", size=128), kept("b", size=64), kept("c", size=256, batch=2), kept("d", "b", size=512)]
    assert [[one.name for one in group] for group in curves(runs, "size")] == [["b", "a"]]
    assert curves(runs, "rate_hz") == []


def test_the_report_as_json_has_every_recording_and_which_are_joined() -> None:
    runs = [kept("a", load="rate", rate_hz=10.0), kept("b", load="rate", rate_hz=20.0), kept("c", "b")]
    document = json.loads(dumps(systems_json(runs)))
    assert document["curves"] == {"rate_hz": [["a", "b"]], "size": []}
    first = document["recordings"][0]
    assert (first["name"], first["environment"]["facts"]["cpu.model"]["value"]) == ("a", "a")
    assert (first["result"]["sent"], first["nines"][0]["out_of"]) == (2000, 2.0)


def test_nines_end_where_fewer_than_ten_messages_lie_above() -> None:
    points = nines(np.arange(1, 1001))
    assert points[0] == (2.0, 500)
    assert points[-1] == (100.0, 990)
    assert nines(np.arange(5)) == []


def test_latencies_are_from_the_intended_time() -> None:
    assert kept("a", load="rate", rate_hz=1e6).latency.min() == 50_000
    assert kept("a").latency.min() == 49_900


def test_a_report_names_every_recording_and_draws_what_belongs_together(tmp_path: Path) -> None:
    all_kept = []
    for rate in (1000.0, 2000.0):
        m = measured(load="rate", rate_hz=rate)
        folder = tmp_path / f"rate-{rate:.0f}"
        save_run(folder, m, result=result_json(analyse(m)))
        again = load_run(folder)
        all_kept.append(Kept.of(folder.name, open_recording(folder), again, analyse(again)))
    written = write_systems(tmp_path / "report", all_kept)
    assert {path.name for path in written} >= {
        "systems.html",
        "systems.gp",
        "nines.dat",
        "p99-against-load.dat",
    }
    page = (tmp_path / "report" / "systems.html").read_text()
    assert "rate-1000" in page
    assert "rate-2000" in page
    assert "p99 from " in page
    assert ("<h2" in page, "How to reproduce" in page) == (True, True)
    assert "(rate-1000) to " in page
    assert "µ" not in (tmp_path / "report" / "systems.gp").read_text()
    rows = (tmp_path / "report" / "p50-against-load.dat").read_text().splitlines()
    assert [row.split()[0] for row in rows[1:]] == ["1000", "2000"]


def test_curves_of_one_transport_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    runs = [
        kept(f"{size}-{acks}-{cpu}", cpu, size=size, driver={"acks": acks})
        for size in (64, 128)
        for acks, cpu in (("0", "a"), ("1", "a"), ("1", "b"))
    ]
    write_systems(tmp_path, runs)
    lines = (tmp_path / "throughput-against-size.dat").read_text().splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        "# tcp, broker, block, acks 0, cpu.model a",
        "# tcp, broker, block, acks 1, cpu.model a",
        "# tcp, broker, block, acks 1, cpu.model b",
    ]


def test_a_page_says_why_a_recording_is_not_trustworthy(tmp_path: Path) -> None:
    doubted = kept("doubted", size=64)
    verdict = replace(doubted.result.verdict, doubts=(Doubt("nothing"),))
    doubted = replace(doubted, result=replace(doubted.result, verdict=verdict))
    (sentence,) = doubts(doubted.result)
    write_systems(tmp_path, [doubted])
    assert sentence in (tmp_path / "systems.html").read_text()


def test_a_runs_page_says_the_median_of_its_table_and_draws_in_its_unit(tmp_path: Path) -> None:
    m = measured(load="rate", rate_hz=1e6)
    m = replace(m, sent_ns=m.sent_ns + 40_000)  # a sender that is held up hides the wait from its own stamps
    r = analyse(m)
    recording: Any = SimpleNamespace(environment=Environment({}), command=None, seed=None, parameters={})
    assert r.intended_latency is not None
    assert r.latency is not None

    page = write_html(tmp_path / "report.html", m, r, recording).read_text()

    assert axis_unit(r.intended_latency) == (1e3, "µs")
    assert f"take {duration(r.intended_latency.median)} or less from the intended sending" in page
    assert duration(r.latency.median) != duration(r.intended_latency.median)
