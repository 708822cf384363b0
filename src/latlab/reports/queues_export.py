"""Recordings of queues in the formats of other tools: CSV, gnuplot, Perfetto, Graphviz, Mermaid, Grafana.

Each function yields the text in pieces, so that a long recording is never in memory as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from latlab.model.queues import Analysis, Columns, Observation

__all__ = ["EXPORTS", "csv", "gnuplot", "grafana", "graphviz", "mermaid", "perfetto"]


def _bounds(samples: Columns) -> tuple[Columns, Columns]:
    came = samples["in"].astype(np.int64)
    low = np.maximum(came - samples["out_high"].astype(np.int64), 0)
    high = np.maximum(came - samples["out_low"].astype(np.int64), 0)
    return low, high  # type: ignore[return-value]


def csv(observation: Observation) -> Iterator[str]:
    """A line a stored sample: t_ns,queue,fill_low,fill_high,in,out,dropped,blocked."""
    yield "t_ns,queue,fill_low,fill_high,in,out,dropped,blocked\n"
    samples = observation.samples
    low, high = _bounds(samples)
    names = [_quoted(queue.name or str(queue.number)) for queue in observation.queues]
    columns = (samples["t_ns"], samples["queue"], low, high, samples["in"], samples["out_high"],
               samples["dropped"], samples["blocked"])  # fmt: skip
    for t, q, *rest in zip(*columns, strict=True):
        yield f"{t},{names[q]},{','.join(map(str, rest))}\n"


def gnuplot(observation: Observation) -> Iterator[str]:
    """A data block a queue (seconds, fill), two blank lines apart: plot it with ``index``."""
    samples = observation.samples
    _, high = _bounds(samples)
    start = int(samples["t_ns"].min()) if len(samples["t_ns"]) else 0
    for queue in observation.queues:
        rows = samples["queue"] == queue.number
        yield f"# {queue.name or queue.number}: seconds, events\n"
        for t, fill in zip(samples["t_ns"][rows], high[rows], strict=True):
            yield f"{(int(t) - start) / 1e9:.9f} {fill}\n"
        yield "\n\n"


def perfetto(observation: Observation) -> Iterator[str]:
    """A trace that ui.perfetto.dev opens: a counter track a queue (trace event format, "C" events)."""
    yield '{"displayTimeUnit":"ns","traceEvents":[\n'
    pids = {process.number: process.pid for process in observation.processes}
    first = True
    for process in observation.processes:
        event = {"ph": "M", "name": "process_name", "pid": process.pid, "args": {"name": process.application}}
        yield ("" if first else ",\n") + json.dumps(event)
        first = False
    samples = observation.samples
    _, high = _bounds(samples)
    for i in range(len(samples["t_ns"])):
        queue = observation.queues[int(samples["queue"][i])]
        event = {
            "ph": "C",
            "name": queue.name or f"queue {queue.number}",
            "pid": pids.get(queue.processes[0], 0) if queue.processes else 0,
            "ts": int(samples["t_ns"][i]) / 1e3,
            "args": {"fill": int(high[i])},  # type: ignore[index]
        }
        yield ("" if first else ",\n") + json.dumps(event)
        first = False
    yield "\n]}\n"


def graphviz(analysis: Analysis) -> Iterator[str]:
    """The topology: an edge a queue, as wide as its rate and as red as it is full; the limiting stage is
    filled.
    """
    yield "digraph queues {\n  rankdir=LR;\n  node [shape=box];\n"
    fastest = max((queue.rate_out_hz for queue in analysis.queues), default=0.0) or 1.0
    if analysis.limiting_stage is not None:
        yield f"  {_quoted(analysis.limiting_stage)} [style=filled, fillcolor=salmon];\n"
    for queue in analysis.queues:
        width = 1 + 4 * queue.rate_out_hz / fastest
        red = round(255 * min(1.0, max(queue.full, queue.above_80)))
        label = f"{queue.name}\\n{queue.rate_out_hz:.0f}/s, mean {queue.mean_fill:.1f}"
        ends = f"{_quoted(queue.source or '?')} -> {_quoted(queue.drain or '?')}"
        yield f'  {ends} [label={_quoted(label)}, penwidth={width:.1f}, color="#{red:02x}0000"];\n'
    yield "}\n"


def mermaid(analysis: Analysis) -> Iterator[str]:
    """The topology as a Mermaid flowchart."""
    stages = sorted({end or "?" for queue in analysis.queues for end in (queue.source, queue.drain)})
    number = {stage: f"s{i}" for i, stage in enumerate(stages)}
    yield "flowchart LR\n"
    for stage in stages:
        text = stage.replace('"', "'")
        yield f'  {number[stage]}["{text}"]\n'
    for queue in analysis.queues:
        text = (queue.name or str(queue.number)).replace('"', "'")
        mean = f"{queue.mean_fill:.1f}"
        yield f'  {number[queue.source or "?"]} -->|"{text}: {mean}"| {number[queue.drain or "?"]}\n'
    if analysis.limiting_stage in number:
        yield f"  style {number[analysis.limiting_stage or '']} fill:#fa8072\n"


def grafana(_: object = None) -> Iterator[str]:
    """A dashboard of what `latlab queues serve` gives to Prometheus."""
    panels = (
        ("Fill", "latlab_queue_fill"),
        ("Fill, share of capacity", "latlab_queue_fill / (latlab_queue_capacity > 0)"),
        ("Events out a second", "rate(latlab_queue_out_total[1m])"),
        ("Dropped a second", "rate(latlab_queue_dropped_total[1m])"),
    )
    yield json.dumps(
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


# By format: what it draws ("observation", "analysis" or nothing), and how.
EXPORTS: Mapping[str, tuple[str, Callable[..., Iterator[str]]]] = {
    "csv": ("observation", csv),
    "gnuplot": ("observation", gnuplot),
    "perfetto": ("observation", perfetto),
    "graphviz": ("analysis", graphviz),
    "mermaid": ("analysis", mermaid),
    "grafana": ("", grafana),
}


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "'") + '"'
