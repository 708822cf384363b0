"""Recordings of queues in the formats of other tools: CSV, gnuplot, Perfetto, Graphviz, Mermaid, Grafana.

Each function takes a `Subject` and yields the text in pieces, so that a long recording is never in memory as
text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from latlab.formats.documents import dumps
from latlab.model.queues.analysis import Analysis
from latlab.model.queues.observation import Columns, Landmark, Observation
from latlab.words import number

__all__ = ["EXPORTS", "Subject", "csv", "gnuplot", "grafana", "graphviz", "mermaid", "perfetto"]


@dataclass(frozen=True)
class Subject:
    """What is exported.

    Attributes:
        analysis: for topologies.
        traces: columns event, push_ns, pop_ns, queue, or nothing.
    """

    observation: Observation
    analysis: Analysis | None = None
    traces: Columns = field(default_factory=dict)
    landmarks: tuple[Landmark, ...] = ()


def _bounds(samples: Columns) -> tuple[Columns, Columns]:
    came = samples["in"].astype(np.int64)
    low = np.maximum(came - samples["out_high"].astype(np.int64), 0)
    high = np.maximum(came - samples["out_low"].astype(np.int64), 0)
    return low, high  # type: ignore[return-value]


def csv(subject: Subject) -> Iterator[str]:
    """A line a stored sample: t_ns,queue,fill_low,fill_high,in,out,dropped,blocked."""
    observation = subject.observation
    yield "t_ns,queue,fill_low,fill_high,in,out,dropped,blocked\n"
    samples = observation.samples
    low, high = _bounds(samples)
    names = [_quoted(queue.name or str(queue.number)) for queue in observation.queues]
    columns = (samples["t_ns"], samples["queue"], low, high, samples["in"], samples["out_high"],
               samples["dropped"], samples["blocked"])  # fmt: skip
    for t, q, *rest in zip(*columns, strict=True):
        yield f"{t},{names[q]},{','.join(map(str, rest))}\n"


def gnuplot(subject: Subject) -> Iterator[str]:
    """A data block a queue (seconds, fill), two blank lines apart: plot it with ``index``, or by its name.

    Landmarks are commands in comments: ``set arrow`` lines for a script to take over.
    """
    observation = subject.observation
    samples = observation.samples
    _, high = _bounds(samples)
    start = int(samples["t_ns"].min()) if len(samples["t_ns"]) else 0
    for mark in subject.landmarks:
        at = (mark.t_ns - start) / 1e9
        yield f"# set arrow from first {at:.9f}, graph 0 to first {at:.9f}, graph 1 nohead  # {mark}\n"
    for queue in observation.queues:
        rows = samples["queue"] == queue.number
        yield f"# {queue.name or queue.number}: seconds, events\n"
        for t, fill in zip(samples["t_ns"][rows], high[rows], strict=True):
            yield f"{(int(t) - start) / 1e9:.9f} {fill}\n"
        yield "\n\n"


def perfetto(subject: Subject) -> Iterator[str]:
    """A trace that ui.perfetto.dev opens (trace event format), times in µs of CLOCK_MONOTONIC.

    A counter track a queue and a socket ("C"), a slice a traced event for its time in a queue (asynchronous,
    "b" and "e": waits overlap), and landmarks ("i").
    """
    yield '{"displayTimeUnit":"ns","traceEvents":[\n'
    separator = ""
    for event in _perfetto_events(subject):
        yield separator + dumps(event)
        separator = ",\n"
    yield "\n]}\n"


def _perfetto_events(subject: Subject) -> Iterator[dict[str, object]]:
    observation = subject.observation
    pids = {process.number: process.pid for process in observation.processes}
    for process in observation.processes:
        args = {"name": process.application}
        yield {"ph": "M", "name": "process_name", "pid": process.pid, "args": args}
    names = [queue.name or f"queue {queue.number}" for queue in observation.queues]
    owners = [pids.get(queue.processes[0], 0) if queue.processes else 0 for queue in observation.queues]
    samples = observation.samples
    _, high = _bounds(samples)
    for t_ns, q, fill in zip(samples["t_ns"].tolist(), samples["queue"].tolist(), high.tolist(), strict=True):  # type: ignore[attr-defined]
        yield {"ph": "C", "name": names[q], "pid": owners[q], "ts": t_ns / 1e3, "args": {"fill": fill}}
    sockets = observation.socket_samples
    if len(sockets.get("t_ns", ())):
        columns = (sockets[name].tolist() for name in ("t_ns", "socket", "fill_bytes", "dropped"))
        for t_ns, number, fill, dropped in zip(*columns, strict=True):
            socket = observation.sockets[number]
            args = {"fill_bytes": fill, "dropped": dropped}
            pid = pids.get(socket.process, 0)
            yield {"ph": "C", "name": socket.name, "pid": pid, "ts": t_ns / 1e3, "args": args}
    traces = subject.traces
    if len(traces.get("event", ())):
        columns = (traces[name].tolist() for name in ("event", "push_ns", "pop_ns", "queue"))
        for event, push, pop, q in zip(*columns, strict=True):
            if not 0 <= q < len(names):
                continue  # it ends an event's way, and is not a wait in a queue
            # An event that fans out waits in several queues at once: the id is of the two together.
            shared = {"cat": "wait", "name": f"wait in {names[q]}", "pid": owners[q], "id": f"{event}.{q}"}
            yield {"ph": "b", "ts": push / 1e3, "args": {"event": event}, **shared}
            yield {"ph": "e", "ts": pop / 1e3, **shared}
    for mark in subject.landmarks:
        yield {"ph": "i", "s": "g", "name": str(mark), "pid": 0, "ts": mark.t_ns / 1e3}


def graphviz(subject: Subject) -> Iterator[str]:
    """The topology: an edge a queue, as wide as its rate and as red as it is full; the limiting stage is
    filled. Sockets stand in front of the stage that reads them.
    """
    analysis = subject.analysis
    assert analysis is not None  # the caller analyses for this format
    yield "digraph queues {\n  rankdir=LR;\n  node [shape=box];\n"
    fastest = max((queue.rate_out_hz for queue in analysis.queues), default=0.0) or 1.0
    if analysis.limiting_stage is not None:
        yield f"  {_quoted(analysis.limiting_stage)} [style=filled, fillcolor=salmon];\n"
    for queue in analysis.queues:
        width = 1 + 4 * queue.rate_out_hz / fastest
        red = round(255 * min(1.0, max(queue.full, queue.above_80)))
        label = f"{queue.name}\\n{number(queue.rate_out_hz)}/s, mean {number(queue.mean_fill)}"
        ends = f"{_quoted(queue.source or '?')} -> {_quoted(queue.drain or '?')}"
        yield f'  {ends} [label={_quoted(label)}, penwidth={width:.1f}, color="#{red:02x}0000"];\n'
    for name, drain, dropped in _sockets(subject.observation):
        label = f"{name}\\n{dropped} dropped" if dropped else name
        color = "#ff0000" if dropped else "#808080"
        yield f'  "network" -> {_quoted(drain)} [label={_quoted(label)}, style=dashed, color="{color}"];\n'
    yield "}\n"


def mermaid(subject: Subject) -> Iterator[str]:
    """The topology as a Mermaid flowchart."""
    analysis = subject.analysis
    assert analysis is not None  # the caller analyses for this format
    stages = sorted({end or "?" for queue in analysis.queues for end in (queue.source, queue.drain)})
    nodes = {stage: f"s{i}" for i, stage in enumerate(stages)}
    yield "flowchart LR\n"
    for stage in stages:
        text = stage.replace('"', "'")
        yield f'  {nodes[stage]}["{text}"]\n'
    for queue in analysis.queues:
        text = (queue.name or str(queue.number)).replace('"', "'")
        mean = number(queue.mean_fill)
        yield f'  {nodes[queue.source or "?"]} -->|"{text}: {mean}"| {nodes[queue.drain or "?"]}\n'
    for i, (name, drain, dropped) in enumerate(_sockets(subject.observation)):
        text = name.replace('"', "'") + (f": {dropped} dropped" if dropped else "")
        yield f'  n((network)) -.->|"{text}"| {nodes.get(drain) or f"n{i}[{drain}]"}\n'
    if analysis.limiting_stage in nodes:
        yield f"  style {nodes[analysis.limiting_stage or '']} fill:#fa8072\n"


def grafana(_: object = None) -> Iterator[str]:
    """A dashboard of what `latlab queues serve` gives to Prometheus."""
    panels = (
        ("Fill", "latlab_queue_fill"),
        ("Fill, share of capacity", "latlab_queue_fill / (latlab_queue_capacity > 0)"),
        ("Events out a second", "rate(latlab_queue_out_total[1m])"),
        ("Dropped a second", "rate(latlab_queue_dropped_total[1m])"),
        ("Producers blocked a second", "rate(latlab_queue_blocked_total[1m])"),
        ("Sockets: bytes waiting in the kernel", "latlab_socket_fill_bytes"),
        ("Sockets: datagrams dropped a second", "rate(latlab_socket_dropped_total[1m])"),
    )
    yield dumps(
        {
            "title": "latlab queues",
            "schemaVersion": 39,
            "refresh": "5s",
            "time": {"from": "now-15m", "to": "now"},
            "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
            "panels": [
                {
                    "id": i + 1,
                    "type": "timeseries",
                    "title": title,
                    "datasource": {"type": "prometheus", "uid": "${source}"},
                    "gridPos": {"h": 9, "w": 12, "x": 12 * (i % 2), "y": 9 * (i // 2)},
                    "targets": [{"refId": "A", "expr": query, "legendFormat": "{{queue}}"}],
                }
                for i, (title, query) in enumerate(panels)
            ],
        },
        indent=2,
    )
    yield "\n"


# By format: what it draws ("observation", also its "traces", "analysis" or nothing), and how.
EXPORTS: Mapping[str, tuple[str, Callable[..., Iterator[str]]]] = {
    "csv": ("observation", csv),
    "gnuplot": ("observation", gnuplot),
    "perfetto": ("traces", perfetto),
    "graphviz": ("analysis", graphviz),
    "mermaid": ("analysis", mermaid),
    "grafana": ("", grafana),
}


def _sockets(observation: Observation) -> Iterator[tuple[str, str, int]]:
    """(name, stage or application that reads it, datagrams dropped while it was observed) of each."""
    samples = observation.socket_samples
    for socket in observation.sockets:
        dropped = samples["dropped"][samples["socket"] == socket.number]
        process = next((p.application for p in observation.processes if p.number == socket.process), "")
        yield socket.name, socket.drain or process, int(dropped[-1] - dropped[0]) if len(dropped) else 0


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "'") + '"'
