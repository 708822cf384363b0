import json
import re
import threading
import urllib.request

import numpy as np
import pytest

from latlab.cli import main
from latlab.formats.recording import RecordingWriter
from latlab.model.environment import Environment
from latlab.model.queues import QueueNow, Snapshot
from latlab.queues import Queue, analyse, attach, instrument
from latlab.queues._tandem import Line, observe, simulate
from latlab.reports.queues_export import EXPORTS
from latlab.reports.queues_prometheus import SERIES_PER_QUEUE, exposition, serve


def now(number, name="orders"):
    return QueueNow(number, name, "bounded", "feed", "book", 8, 2, 3, 5, 10, 8, 1, 0, 100.0, 90.0)


def test_a_scrape_has_every_queue_and_at_most_the_series_that_are_allowed():
    text = exposition(Snapshot(1, (now(0), now(1, 'odd "name"'), now(2))), most_series=2 * SERIES_PER_QUEUE)
    assert 'latlab_queue_fill{queue="orders",number="0",source="feed",drain="book"} 3' in text
    assert 'queue="odd \\"name\\""' in text
    assert len(re.findall(r'number="', text)) == 2 * SERIES_PER_QUEUE
    assert "latlab_queues_left_out 1" in text


def test_the_endpoint_serves_what_an_attachment_sees():
    q = Queue(3, name="served")
    q.put(1)
    import os

    server = serve(attach(os.getpid()), "127.0.0.1", 0, 10_000)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{server.server_address[1]}/metrics", timeout=20
        ) as answer:
            text = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert re.search(r'latlab_queue_fill\{queue="served"[^}]*\} 1\n', text)


def test_watch_streams_a_document_a_line(capsys):
    import os
    import queue

    q = instrument(queue.Queue(), name="watched", source="a", drain="b")
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
def recording(tmp_path_factory):
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


def exported(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["queues", "export", *arguments])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_csv_has_a_line_for_every_sample(recording, capsys):
    path, observation = recording
    lines = exported(capsys, str(path), "--to", "csv").splitlines()
    assert len(lines) == 1 + len(observation.samples["t_ns"])
    assert lines[1].split(",")[1] == '"queue-0"'


def test_a_perfetto_trace_is_json_with_a_counter_for_every_sample(recording, capsys):
    path, observation = recording
    events = json.loads(exported(capsys, str(path), "--to", "perfetto"))["traceEvents"]
    assert sum(event["ph"] == "C" for event in events) == len(observation.samples["t_ns"])


def test_topologies_show_every_queue_and_the_limiting_stage(recording, capsys):
    path, observation = recording
    assert analyse(observation).limiting_stage == "stage-2"
    dot = exported(capsys, str(path), "--to", "graphviz")
    assert dot.count("->") == 5
    assert '"stage-2" [style=filled' in dot
    assert exported(capsys, str(path), "--to", "mermaid").count("-->") == 5


def test_gnuplot_blocks_and_the_dashboard_are_what_their_readers_expect(recording, capsys):
    path, _ = recording
    assert exported(capsys, str(path), "--to", "gnuplot").count("# queue-") == 5
    assert len(json.loads(exported(capsys, "--to", "grafana"))["panels"]) == 4
    assert set(EXPORTS) == {"csv", "gnuplot", "perfetto", "graphviz", "mermaid", "grafana"}


def test_the_analysis_of_a_recording_is_the_contract_s_json(recording, capsys):
    path, _ = recording
    with pytest.raises(SystemExit) as ended:
        main(["queues", "analyse", str(path), "--json"])
    assert ended.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["schema"], said["limiting_stage"]) == (1, "stage-2")
    assert {"confidence", "evidence", "timeline", "queues", "stages"} <= set(said)
    assert set(said["timeline"][0]) >= {"from_ns", "to_ns", "stage"}


def test_a_snapshot_has_the_sockets_in_front_of_the_application():
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
    assert f'latlab_socket_fill_bytes{{queue="udp 127.0.0.1:{port}"' in text
