"""The demonstration's report: one HTML page in the order of the argument."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.model.diagnosis.pipeline import Latency
from latlab.model.machine.environment import Environment
from latlab.model.queues.analysis import Analysis
from latlab.model.queues.observation import Landmark, Observation, Queue, QueueKind
from latlab.reports.html import Page
from latlab.reports.sections import figures, topology
from latlab.words import count, duration, share, sureness

__all__ = ["add_fills", "add_observation", "add_topology", "fill_series", "write_report"]

_MOST_TWINS = 4  # edges between the same two stages; more are drawn as one
_MOST_QUEUES = 500  # in the table
_MOST_FILLS = 40  # queues over time: a page of thousands shows nothing, and takes seconds to make


def write_report(
    path: str | os.PathLike[str],
    diagnosis: Analysis,
    observation: Observation,
    end_to_end_ns: NDArray[np.int64],
    waiting_ns: Mapping[str, NDArray[np.int64]],
    environment: Environment,
    command: str,
    seed: int,
    rate: Mapping[str, Any] | None = None,
) -> None:
    """Write the page.

    Args:
        path: of the HTML file.
        end_to_end_ns: of the traced events that reached the end.
        waiting_ns: of traced events, by queue.
        command: that made the run.
        rate: the result of the search for the rate without loss, if one was made.

    Raises:
        InputError: when the file can't be written.
    """
    page = Page(
        "What limits the trading pipeline?",
        f"{diagnosis.of_run.events:,} messages in {duration(1e9 * diagnosis.of_run.seconds)}, "
        "observed from outside",
    )
    page.verdict(diagnosis.sentence, "bad" if diagnosis.limiting_stage else "good")
    if diagnosis.reasons:
        page.verdict("Not trustworthy as it stands:\n\n" + "\n\n".join(diagnosis.reasons), "warn")
    add_topology(page, diagnosis)
    page.section("Evidence", f"Verdict: {diagnosis.verdict}, confidence {sureness(diagnosis.confidence)}.")
    page.paragraph("\n\n".join(diagnosis.evidence))
    add_observation(page, diagnosis, observation, end_to_end_ns, waiting_ns)
    if rate is not None:
        page.section("The rate that loses nothing", rate["sentence"])
        columns = (
            "delay, ns",
            "messages/s a venue",
            "drops",
            "first queue to rise",
            "its fill before the first drop",
        )
        keys = ("delay_ns", "rate_hz", "drops", "rose", "fill_before_drop")
        page.table(columns, [[trial[key] for key in keys] for trial in rate["trials"]])
    _observer(page, diagnosis)
    page.reproduce(command, environment, seed)
    page.write(path)


def add_topology(page: Page, diagnosis: Analysis) -> None:
    """The pipeline as a drawing."""
    page.svg(
        _topology(diagnosis),
        "Stages and queues. A bar is the share of the time that a stage has work and room for the result; an "
        "arrow carries the median and the largest fill of its queue, or what was lost in front of it.",
    )


def add_observation(
    page: Page,
    diagnosis: Analysis,
    observation: Observation,
    end_to_end_ns: NDArray[np.int64],
    waiting_ns: Mapping[str, NDArray[np.int64]],
) -> None:
    """The sections on what was observed: latency, stages, queues, fills, waiting.

    Their anchors are "latency", "stages", "queues", "fills" and "waiting".
    """
    _latency(page, diagnosis, end_to_end_ns)
    _stages(page, diagnosis)
    _queues(page, diagnosis)
    add_fills(page, observation, diagnosis.landmarks)
    if waiting_ns:
        page.section("Waiting", "Traced events in each queue, from put in to taken out.", anchor="waiting")
        times = {name: values / 1e3 for name, values in waiting_ns.items()}
        page.figure(figures.boxes(times, "waiting, µs", log_y=True), "Waiting times by queue.", height=420)


def _topology(diagnosis: Analysis) -> str:
    nodes = [
        topology.stage(
            stage.name,
            stage.rate_hz,
            stage.service_ns.p50 if stage.service_ns else None,
            stage.ready,
            limits=diagnosis.limiting_stage in (stage.name, stage.type),
        )
        for stage in diagnosis.of_run.stages
    ]
    names = {node.name for node in nodes}
    edges = []
    for queue in diagnosis.of_run.queues:
        if queue.kind == QueueKind.POOL:
            continue  # it goes against the flow, and its fill means the opposite
        # The source of a ring that several stages share is their type: an arrow from each of them. A source
        # that takes from no queue is no stage: it is drawn all the same, since its queue may be the full one.
        of_type = [stage.name for stage in diagnosis.of_run.stages if stage.type == queue.source]
        sources = of_type if of_type and queue.source not in names else [queue.source]
        fills = f"{queue.fill_p50:,} / {queue.fill_max:,}"
        label = f"{queue.drops:,} lost" if queue.drops else fills
        fill = queue.fill_p50 / queue.capacity if queue.capacity else None
        edges += [topology.DrawnQueue(source, queue.drain, label, fill) for source in sources if source]
    for socket in diagnosis.sockets:
        if socket.drain and (socket.dropped or socket.full):
            label = f"{count(socket.dropped)} lost" if socket.dropped else f"full {share(socket.full)}"
            fill = socket.mean_bytes / max(socket.capacity_bytes, 1)
            edges.append(topology.DrawnQueue(socket.name, socket.drain, label, min(1.0, fill)))
    return topology.draw(nodes, _joined(edges))


def _joined(edges: list[topology.DrawnQueue]) -> list[topology.DrawnQueue]:
    """The same with one edge in place of many between the same two stages, coloured by the fullest."""
    between: dict[tuple[str, str], list[topology.DrawnQueue]] = {}
    for edge in edges:
        between.setdefault((edge.source, edge.drain), []).append(edge)
    found = []
    for (source, drain), twins in between.items():
        if len(twins) <= _MOST_TWINS:
            found += twins
        else:
            fill = max((one.fill for one in twins if one.fill is not None), default=None)
            found.append(topology.DrawnQueue(source, drain, f"{count(len(twins))} queues", fill))
    return found


def _times(latency: Latency | None, *names: str) -> list[str]:
    return [duration(None if latency is None else getattr(latency, name)) for name in names]


def _latency(page: Page, diagnosis: Analysis, times: NDArray[np.int64]) -> None:
    page.section(
        "End-to-end latency",
        "Traced events, from the first queue to the end.",
        anchor="latency",
    )
    if times.size == 0:
        page.paragraph("No traced event reached the end.")
        return
    quantiles = ("p50", "p90", "p99", "p99_9", "max")
    page.table(
        ("events", "p50", "p90", "p99", "p99.9", "max"),
        [[times.size, *_times(diagnosis.of_run.end_to_end, *quantiles)]],
    )
    page.figure(_density(times), "How many events took how long; both axes are logarithmic.")
    page.figure(_percentiles(times), "The same by percentile.", height=320)


def _density(times: NDArray[np.int64]) -> figures.Figure:
    low, high = max(1, int(times.min())), int(times.max()) + 1
    edges = np.geomspace(low, max(high, 2 * low), 81)
    counts, _ = np.histogram(times, edges)
    bars = {
        "type": "bar",
        "x": np.sqrt(edges[1:] * edges[:-1]) / 1e3,
        "y": counts,
        "width": np.diff(edges) / 1e3,
    }
    axes = {
        "xaxis": {"type": "log", "title": {"text": "latency, µs"}},
        "yaxis": {"type": "log", "title": {"text": "events"}},
    }
    return {"data": [bars], "layout": axes}


def _percentiles(times: NDArray[np.int64]) -> figures.Figure:
    ordered = np.sort(times)
    # Dense where the tail is: ranks from the top, each decade alike.
    ranks = np.unique(np.geomspace(1, ordered.size, min(ordered.size, 1200)).astype(np.int64))
    curve = {
        "type": "scatter",
        "mode": "lines",
        "x": ordered.size / np.maximum(ranks[::-1] - 0.5, 0.5),
        "y": ordered[ordered.size - ranks[::-1]] / 1e3,
    }
    ticks = {"tickvals": [1, 2, 10, 100, 1000, 10_000], "ticktext": ["0", "50", "90", "99", "99.9", "99.99"]}
    axes = {
        "xaxis": {"type": "log", "title": {"text": "percentile"}, **ticks},
        "yaxis": {"type": "log", "title": {"text": "latency, µs"}},
    }
    return {"data": [curve], "layout": axes}


def _stages(page: Page, diagnosis: Analysis) -> None:
    page.section(
        "Stages",
        "Ready: it has an event to work on and room for the result. Utilisation: busy and on a CPU. No CPU: "
        "its thread could run and had none. Traced service and waiting are by the wall clock.",
        anchor="stages",
    )
    columns = (
        *("stage", "events/s", "ready", "starved", "blocked", "utilisation", "CPUs", "no CPU"),
        *("service, mean", "traced p50", "p99", "waiting p50", "p99"),
    )
    known = {stage.label: stage for stage in diagnosis.stages}
    rows = [
        [
            stage.name,
            round(stage.rate_hz),
            *(
                share(value)
                for value in (
                    *(stage.ready, known[stage.name].starved, stage.blocked),
                    *(stage.utilisation, stage.cpu_cores, stage.run_queue),
                )
            ),
            duration(known[stage.name].service_ns),
            *_times(stage.service_ns, "p50", "p99"),
            *_times(stage.waiting_ns, "p50", "p99"),
        ]
        for stage in diagnosis.of_run.stages
    ]
    page.table(columns, rows)


def _queues(page: Page, diagnosis: Analysis) -> None:
    page.section(
        "Queues",
        "By Little's law the mean fill over the rate is the mean time in a queue: it is computed from the "
        "samples alone, and the traces confirm it or don't. "
        "A pool is empty when all of its objects are in use.",
        anchor="queues",
    )
    shown = diagnosis.of_run.queues
    if len(shown) > _MOST_QUEUES:
        shown = tuple(sorted(shown, key=lambda queue: -queue.fill_mean)[:_MOST_QUEUES])
    columns = (
        *("queue", "source", "drain", "kind", "capacity", "samples", "fill ≥ 1", "sum of fills"),
        *("p50", "p99", "max", "full blocks", "in", "drops", "mean by Little", "mean traced"),
    )
    rows = [
        [
            *(q.name, q.source, q.drain, q.kind, q.capacity or None, q.samples, q.nonempty, q.sum_of_fills),
            *(q.fill_p50, q.fill_p99, q.fill_max, q.full_blocks, q.events_in, q.drops),
            duration(q.little_ns),
            duration(q.traced_mean_ns),
        ]
        for q in shown
    ]
    if len(shown) < len(diagnosis.of_run.queues):
        most = f"The {count(len(shown))} of {count(len(diagnosis.of_run.queues))} queues that held most"
        page.paragraph(f"{most}; diagnosis.json in the observation's folder has all.")
    page.table(columns, rows)


def fill_series(observation: Observation, queue: Queue) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A queue's samples as (t_ns, fill by the middle of its bounds); unchanged samples are not stored."""
    samples = observation.samples
    mine = samples["queue"] == queue.number
    low, high = (samples[name][mine].astype(np.int64) for name in ("out_low", "out_high"))
    return samples["t_ns"][mine], np.maximum(samples["in"][mine].astype(np.int64) - (low + high + 1) // 2, 0)


def add_fills(page: Page, observation: Observation, landmarks: Sequence[Landmark] = ()) -> None:
    """The section with every queue's fill over time; its anchor is "fills".

    Args:
        landmarks: to mark.
    """
    page.section(
        "Fill over time", "As it was sampled. Click a name to hide its queue, drag to zoom.", anchor="fills"
    )
    begin = int(observation.sweeps["t_ns"].min()) if observation.sweeps["t_ns"].size else 0
    fills, sums = {}, {}
    shown = _fullest(observation)
    if len(shown) < len(observation.queues):
        page.paragraph(f"The {count(len(shown))} of {count(len(observation.queues))} queues that held most.")
    for queue in shown:
        t, fill = fill_series(observation, queue)
        if t.size == 0 or queue.kind == QueueKind.POOL:
            continue
        seconds = (t - begin) / 1e9
        fills[queue.name] = (seconds, fill)
        sums[queue.name] = (seconds, np.concatenate([[0.0], np.cumsum(fill[:-1] * np.diff(seconds))]))
    marks = _marks(observation, landmarks)
    over = "s since the observer began"
    page.figure(
        figures.steps(fills, over, "events in the queue", landmarks=marks),
        "Fill per queue; dotted lines mark what happened in the run.",
        height=440,
    )
    page.figure(
        figures.steps(sums, over, "events × s", landmarks=marks),
        "Cumulative fill: where a curve is steep, events wait.",
        height=360,
    )


def _fullest(observation: Observation) -> list[Queue]:
    """The queues that are drawn over time: all, or those of many that held most at their samples."""
    if len(observation.queues) <= _MOST_FILLS:
        return list(observation.queues)
    samples = observation.samples
    fill = np.maximum(samples["in"].astype(np.int64) - samples["out_high"].astype(np.int64), 0)
    sums = np.bincount(samples["queue"], fill, len(observation.queues))
    times = np.bincount(samples["queue"], minlength=len(observation.queues))
    order = np.argsort(-sums / np.maximum(times, 1), kind="stable")[:_MOST_FILLS]
    chosen = set(order.tolist())
    return [queue for queue in observation.queues if queue.number in chosen]


def _marks(observation: Observation, landmarks: Sequence[Landmark]) -> dict[str, float]:
    """Seconds from the first sweep by label; what comes within 1 % of the run shares a line."""
    sweeps = observation.sweeps["t_ns"]
    if not sweeps.size:
        return {}
    begin, end = int(sweeps.min()), int(sweeps.max())
    joined: list[tuple[str, int]] = []
    for mark in landmarks:
        if joined and mark.t_ns - joined[-1][1] < 0.01 * (end - begin):
            if str(mark) not in joined[-1][0]:
                joined[-1] = (f"{joined[-1][0]}, {mark}", joined[-1][1])
        else:
            joined.append((str(mark), mark.t_ns))
    return {name: (at - begin) / 1e9 for name, at in joined}


def _observer(page: Page, diagnosis: Analysis) -> None:
    run = diagnosis.of_run
    sampler, check = run.sampler, run.discrepancy
    rows: list[tuple[str, Any]] = [
        ("queues sampled", sampler.queues),
        ("period asked for", duration(sampler.period_ns)),
        ("period achieved, p50", duration(sampler.achieved_p50_ns)),
        ("period achieved, p99", duration(sampler.achieved_p99_ns)),
        ("periods missed", f"{sampler.missed:,} of {sampler.sweeps + sampler.missed:,}"),
        ("events traced", check.traces),
        ("samples checked against traces", check.samples),
        ("samples that contradict a trace", check.discrepancies),
        (
            "CPUs used by the pipeline",
            f"{diagnosis.of_run.cores_used:.2f} of {diagnosis.of_run.cores}"
            if diagnosis.of_run.cores_used
            else None,
        ),
    ]
    if (pacing := run.facts.get("pacing_error_ns")) is not None:
        rows.append(("the exchange sent late by, p50", duration(pacing["p50"])))
        rows.append(("the exchange sent late by, p99", duration(pacing["p99"])))
    page.section("The observer", "How the numbers above were measured.")
    page.table(("what", "value"), rows)
