import json
import re
import shutil
import subprocess
import urllib.request
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from latlab.cli import main
from latlab.formats.recording import RecordingWriter
from latlab.live.prometheus import SERIES_PER_QUEUE, exposition, serve
from latlab.model.machine.environment import Environment
from latlab.model.queues.live import QueueNow, Snapshot
from latlab.model.queues.observation import Landmark, Observation, Process, QueueKind, SocketBuffer
from latlab.model.queues.observation import Queue as Queue_
from latlab.queues import Queue, analyse, attach, instrument, landmarks
from latlab.queues.model.tandem import Line, observe, simulate
from latlab.queues.sample.recorder import COLUMNS
from latlab.reports.queues.export import EXPORTS, Subject

pytestmark = pytest.mark.side_by_side  # what is written and served is read: no time is judged


def now(number: Any, name: Any = "orders") -> Any:
    return QueueNow(number, name, "bounded", "feed", "book", 8, 10, 8, 1, 0, 100.0, 90.0, 2, 3, 5)


def test_a_scrape_has_every_queue_and_at_most_the_series_that_are_allowed() -> None:
    text = exposition(Snapshot(1, (now(0), now(1, 'odd "name"'), now(2))), most_series=2 * SERIES_PER_QUEUE)
    assert 'latlab_queue_fill{drain="book",number="0",queue="orders",source="feed"} 3.0' in text
    assert 'queue="odd \\"name\\""' in text
    assert len(re.findall(r'number="', text)) == 2 * SERIES_PER_QUEUE
    assert "latlab_queues_left_out 1" in text


def test_the_endpoint_serves_what_an_attachment_sees() -> None:
    q = Queue(3, name="served")
    q.put(1)
    import os

    server = serve(attach(os.getpid()), "127.0.0.1", 0, 10_000)
    server.start()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=20) as answer:
            text = answer.read().decode()
    finally:
        server.stop()
    assert re.search(r'latlab_queue_fill\{[^}]*queue="served"[^}]*\} 1.0\n', text)


class Ended:
    """An application that has ended."""

    alive = False

    def look(self) -> None:
        raise AssertionError("it is not looked at")


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/metrics?token=t", "127.0.0.1", 200),
        ("/metrics", "127.0.0.1", 403),
        ("/metrics?token=t", "evil.example", 421),
        ("/?token=t", "127.0.0.1", 404),
    ],
)
def test_a_scrape_needs_the_token_and_this_host_s_name(path: Any, host: Any, status: Any) -> None:
    import http.client

    ended: Any = Ended()
    server = serve(ended, "127.0.0.1", 0, 100, "t")
    server.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        assert answer.status == status
        assert b"latlab_queue_fill{" not in answer.read()  # the values of an application that ended end
        connection.close()
    finally:
        server.stop()


def test_watch_streams_a_document_a_line(capsys: Any) -> None:
    import os
    import queue

    watched: queue.Queue[int] = queue.Queue()
    q = instrument(watched, name="watched", source="a", drain="b")
    q.put(1)
    with pytest.raises(SystemExit) as ended:
        main(["queues", "watch", str(os.getpid()), "--json", "--count", "2", "--period", "10ms"])
    assert ended.value.code == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 2
    mine = next(item for item in lines[1]["queues"] if item["name"] == "watched")
    assert (mine["fill_low"], mine["fill_high"], mine["source"]) == (1, 1, "a")
    assert lines[0]["schema"] == 1


@pytest.fixture(scope="module")
def recording(tmp_path_factory: Any) -> Any:
    line = Line(slower=0.3)
    observation = observe(line, simulate(line, np.array([2]), 4000, 1), 0, 100_000.0)
    path = tmp_path_factory.mktemp("export") / "run"
    events = [
        {
            "kind": str(q.kind), "number": q.number, "name": q.name, "capacity": q.capacity,
            "source_name": q.source_name, "drain_name": q.drain_name, "processes": [], "slots": [],
        }
        for q in observation.queues
    ]  # fmt: skip
    with RecordingWriter(
        path, "queues", parameters={"period_ns": 100_000}, environment=Environment({})
    ) as writer:
        writer.append(
            "topology",
            {
                "t_ns": np.zeros(len(events), np.int64),
                "event": ["added"] * len(events),
                "what": ["queue"] * len(events),
                "number": np.arange(len(events), dtype=np.uint32),
                "description": [json.dumps(event) for event in events],
            },
        )
        writer.append("samples", observation.samples)
        writer.append("sweeps", observation.sweeps)
    return path, observation


def exported(capsys: Any, *arguments: Any) -> Any:
    with pytest.raises(SystemExit) as ended:
        main(["queues", "export", *arguments])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_csv_has_a_line_for_every_sample(recording: Any, capsys: Any) -> None:
    path, observation = recording
    lines = exported(capsys, str(path), "--to", "csv").splitlines()
    assert len(lines) == 1 + len(observation.samples["t_ns"])
    assert lines[1].split(",")[1] == '"queue-0"'


def test_a_perfetto_trace_is_json_with_a_counter_for_every_sample(recording: Any, capsys: Any) -> None:
    path, observation = recording
    events = json.loads(exported(capsys, str(path), "--to", "perfetto"))["traceEvents"]
    assert sum(event["ph"] == "C" for event in events) == len(observation.samples["t_ns"])


def test_a_perfetto_trace_has_a_slice_for_every_wait_of_a_traced_event_and_the_landmarks() -> None:
    queues = (Queue_(0, "orders", QueueKind.BOUNDED, 4, processes=(0,)),)
    samples = {name: np.zeros(0, kind) for name, kind in COLUMNS["samples"].items()}
    seen = Observation(queues, (), (Process(0, 77, 1, "app"),), samples, {})
    traces = {
        "event": np.array([5, 6, 5], np.uint64),
        "push_ns": np.array([1000, 1500, 9000]),
        "pop_ns": np.array([2000, 4000, 9000]),
        "queue": np.array([0, 0, -1], np.int32),
    }
    subject = Subject(seen, None, traces, (Landmark(1200, "first drop", "orders"),))
    events = json.loads("".join(EXPORTS["perfetto"][1](subject)))["traceEvents"]
    slices = [(e["ph"], e["ts"], e["id"], e["name"], e["pid"]) for e in events if e["ph"] in "be"]
    assert slices == [
        ("b", 1.0, "5.0", "wait in orders", 77),
        ("e", 2.0, "5.0", "wait in orders", 77),
        ("b", 1.5, "6.0", "wait in orders", 77),
        ("e", 4.0, "6.0", "wait in orders", 77),
    ]
    assert [(e["ts"], e["name"]) for e in events if e["ph"] == "i"] == [(1.2, "first drop: orders")]


def test_topologies_show_every_queue_and_the_limiting_stage(recording: Any, capsys: Any) -> None:
    path, observation = recording
    assert analyse(observation).limiting_stage == "stage-2"
    dot = exported(capsys, str(path), "--to", "graphviz")
    assert dot.count("->") == 5
    assert '"stage-2" [style=filled' in dot
    assert exported(capsys, str(path), "--to", "mermaid").count("-->") == 5


def test_gnuplot_blocks_and_the_dashboard_are_what_their_readers_expect(recording: Any, capsys: Any) -> None:
    path, _ = recording
    assert exported(capsys, str(path), "--to", "gnuplot").count("# queue-") == 5
    assert len(json.loads(exported(capsys, "--to", "grafana"))["panels"]) == 7
    assert set(EXPORTS) == {"csv", "gnuplot", "perfetto", "graphviz", "mermaid", "grafana"}


def test_the_analysis_of_a_recording_is_the_contract_s_json(recording: Any, capsys: Any) -> None:
    path, _ = recording
    with pytest.raises(SystemExit) as ended:
        main(["queues", "analyse", str(path), "--json"])
    assert ended.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["schema"], said["limiting_stage"]) == (1, "stage-2")
    assert {"confidence", "evidence", "timeline", "queues", "stages"} <= set(said)
    assert set(said["timeline"][0]) >= {"from_ns", "to_ns", "stage"}


def test_a_snapshot_has_the_sockets_in_front_of_the_application() -> None:
    import os
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as feed:
        feed.bind(("127.0.0.1", 0))
        port = feed.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as exchange:
            exchange.sendto(bytes(100), ("127.0.0.1", port))
        q = Queue(3, name="behind a socket")
        snapshot = attach(os.getpid()).look()
        del q
    mine = next(queue for queue in snapshot.queues if queue.name == f"udp 127.0.0.1:{port}")
    assert (mine.kind, mine.source) == ("socket", "network")
    assert mine.fill_high >= 100
    text = exposition(snapshot, most_series=1000)
    assert f'queue="udp 127.0.0.1:{port}",source="network"}}' in text


def test_an_excluded_queue_is_in_no_export(recording: Any, capsys: Any) -> None:
    path, observation = recording
    lines = exported(capsys, str(path), "--to", "csv", "--exclude", "queue-0").splitlines()
    kept = int((observation.samples["queue"] != 0).sum())
    assert len(lines) == 1 + kept
    assert exported(capsys, str(path), "--to", "graphviz", "--exclude", "queue-1").count("->") == 4


def test_gnuplot_reads_a_block_by_the_queue_s_name(recording: Any, tmp_path: Any, capsys: Any) -> None:
    path, observation = recording
    program = shutil.which("gnuplot")
    if program is None:
        pytest.skip("gnuplot is not installed")
    data = tmp_path / "run.dat"
    data.write_text(exported(capsys, str(path), "--to", "gnuplot"))
    script = f"stats '{data}' index 'queue-2' using 2 nooutput; print STATS_records, STATS_max"
    done = subprocess.run([program, "-e", script], capture_output=True, text=True, check=True)
    mine = observation.samples["queue"] == 2
    fills = (observation.samples["in"] - observation.samples["out_low"])[mine]
    assert [float(value) for value in done.stderr.split()] == [mine.sum(), fills.max()]


def test_sockets_stand_in_front_of_the_feed_in_a_topology(recording: Any) -> None:
    _, observation = recording
    sockets = (SocketBuffer(0, "udp", "127.0.0.1:9000", "0.0.0.0:0", 5, 0, drain="stage-0"),)
    rows = {"socket": np.array([0, 0]), "dropped": np.array([3, 10])}
    seen = replace(observation, sockets=sockets, socket_samples=rows)
    subject = Subject(seen, analyse(observation))
    assert '"network" -> "stage-0" [label="udp 127.0.0.1:9000\\n7 dropped"' in "".join(
        EXPORTS["graphviz"][1](subject)
    )
    assert 'n((network)) -.->|"udp 127.0.0.1:9000: 7 dropped"| s1' in "".join(EXPORTS["mermaid"][1](subject))


def samples_of(*rows: Any) -> Any:
    columns = {name: np.zeros(len(rows), kind) for name, kind in COLUMNS["samples"].items()}
    for i, (t_ns, queue, came, dropped) in enumerate(rows):
        columns["t_ns"][i], columns["queue"][i] = t_ns, queue
        columns["in"][i], columns["dropped"][i] = came, dropped
    return columns


def test_landmarks_are_the_first_drop_the_start_of_trading_the_phases_and_the_end() -> None:
    queues = (
        Queue_(0, "feed", QueueKind.BOUNDED, 64, drain_name="decoder"),
        Queue_(1, "orders", QueueKind.BOUNDED, 64, drain_type="order book"),
    )
    rows = samples_of((10, 0, 50, 0), (20, 1, 10, 0), (30, 1, 11, 0), (40, 0, 60, 2), (50, 1, 12, 1))
    processes = (Process(0, 1, 1, "app", ended_ns=60, died=True),)
    phases = ((0, 0, "starting"), (5, 0, "running"))
    seen = Observation(queues, (), processes, rows, {}, phases=phases)
    assert [(mark.t_ns, str(mark)) for mark in landmarks(seen)] == [
        (5, "start-up ends"),
        (30, "trading starts: orders"),
        (40, "first drop: feed"),
        (60, "died: app"),
    ]
    assert [str(mark) for mark in landmarks(seen, exclude=("feed",))][2] == "first drop: orders"


def test_trading_that_had_started_before_the_recording_is_no_landmark() -> None:
    queues = (Queue_(0, "orders", QueueKind.BOUNDED, 64, drain_name="book-1"),)
    seen = Observation(queues, (), (), samples_of((10, 0, 50, 7), (20, 0, 60, 7)), {})
    assert landmarks(seen) == ()


def test_opentelemetry_collects_every_queue_from_one_look() -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.metrics", reason="needs the extra 'export'")
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from latlab.live.opentelemetry import instruments

    looks = []

    class Source:
        def look(self) -> Any:
            looks.append(1)
            socket = replace(now(-1, "udp 127.0.0.1:9000"), kind="socket", fill_high=512)
            return Snapshot(1, (now(0), now(1, "acks"), socket))

    reader = InMemoryMetricReader()
    provider = sdk.MeterProvider([reader])
    source: Any = Source()
    instruments(provider.get_meter("test"), source, fresh_seconds=3600.0)
    metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    provider.shutdown()
    values = {m.name: [(p.attributes["queue"], p.value) for p in m.data.data_points] for m in metrics}
    assert values["latlab.queue.fill"] == [("orders", 3), ("acks", 3)]
    assert values["latlab.queue.in"] == [("orders", 10), ("acks", 10)]
    assert values["latlab.socket.fill"] == [("udp 127.0.0.1:9000", 512)]
    assert len(values) == 10
    assert looks == [1]
