"""The report on a recording of queues: one HTML page with the plots of such a study."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.model.machine.environment import Environment
from latlab.model.queues.analysis import Analysis
from latlab.model.queues.observation import SEVERAL, Observation, Queue, QueueKind
from latlab.reports.diagnosis.demo_html import add_fills
from latlab.reports.html import Page
from latlab.reports.queues.text import answer
from latlab.reports.sections import figures, topology
from latlab.words import duration, number, share

__all__ = ["draw_topology", "write_queues_report"]

_MOST_TRACED = 6  # queues whose traces are drawn against their samples
_MOST_BURSTS = 10
_RATE_BINS = 100


def write_queues_report(
    path: str | os.PathLike[str],
    observation: Observation,
    analysis: Analysis,
    environment: Environment,
    command: str | None,
    traces: Mapping[str, NDArray[Any]] | None = None,
) -> None:
    """Write the page.

    Args:
        path: of the HTML file.
        traces: columns queue, push_ns, pop_ns, where events were traced.
        command: that made the recording.

    Raises:
    """
    seconds = (analysis.to_ns - analysis.from_ns) / 1e9
    page = Page(
        "What limits this pipeline?",
        f"{len(analysis.queues)} queues, observed from outside for {duration(1e9 * seconds)}",
    )
    text = answer(analysis)
    page.verdict(
        text[0].upper() + text[1:] if analysis.limiting_stage is None else text,
        "bad" if analysis.limiting_stage else "good",
    )
    page.svg(
        draw_topology(analysis),
        "Stages and queues. A bar is the share of the time that a stage was busy; an arrow carries the mean "
        "and the largest fill of its queue, the warmer the fuller.",
    )
    page.section("Evidence")
    page.paragraph("\n\n".join(analysis.evidence))
    _timeline(page, analysis)
    _stages(page, analysis)
    _queues(page, analysis)
    add_fills(page, observation, analysis.landmarks)
    _rates(page, observation)
    _durations(page, observation)
    if traces is not None:
        _traced(page, observation, analysis, traces)
    page.reproduce(command, environment)
    page.write(path)


def draw_topology(analysis: Analysis) -> str:
    """Stages and queues as a drawing: widths and colours by fill."""
    nodes = [
        topology.stage(
            s.label, s.rate_hz, s.service_ns, s.utilisation, limits=analysis.limiting_stage == s.label
        )
        for s in analysis.stages
    ]
    edges = []
    for queue in analysis.queues:
        if queue.kind == QueueKind.POOL:
            continue
        label = f"{queue.dropped:,} lost" if queue.dropped else f"{queue.mean_fill:,.1f} / {queue.fill_max:,}"
        fill = queue.mean_fill / queue.capacity if queue.capacity else None
        for source in queue.source.split(SEVERAL):
            edges.append(topology.DrawnQueue(source or "outside", queue.drain or "outside", label, fill))
    return topology.draw(nodes, edges)


def _timeline(page: Page, analysis: Analysis) -> None:
    if len(analysis.timeline) < 2:
        return
    page.section("What limited when")
    rows = [
        [
            f"{(period.from_ns - analysis.from_ns) / 1e9:.2f}",
            f"{(period.to_ns - analysis.from_ns) / 1e9:.2f}",
            period.stage or period.verdict,
        ]
        for period in analysis.timeline
    ]
    page.table(("from, s", "to, s", "stage"), rows)


def _stages(page: Page, analysis: Analysis) -> None:
    page.section(
        "Stages",
        "Busy: it works on an event. Ready: it has one and room for the result. Blocked: it has no room.",
    )
    columns = (
        "stage",
        "events/s",
        "busy",
        "ready",
        "starved",
        "blocked",
        "service",
        "CPUs",
        "no CPU",
        "preempted/s",
    )
    rows = [
        [
            stage.label,
            round(stage.rate_hz),
            *(share(value) for value in (stage.utilisation, stage.ready, stage.starved, stage.blocked)),
            duration(stage.service_ns),
            share(stage.cpu),
            share(stage.run_queue),
            None if stage.involuntary_hz is None else round(stage.involuntary_hz, 1),
        ]
        for stage in analysis.stages
    ]
    page.table(columns, rows)


def _queues(page: Page, analysis: Analysis) -> None:
    page.section("Queues", "Two numbers are bounds: a sample is an interval.")
    page.table(
        (
            "queue",
            "kind",
            "capacity",
            "samples",
            "fill ≥ 1",
            "sum of fills",
            "mean",
            "if any",
            "p50",
            "p99",
            "max",
        ),
        [
            [
                *(q.name, q.kind, q.capacity or None, q.samples),
                *(_bounds(q.nonempty_samples), _bounds(q.sum_of_fills)),
                *(number(q.mean_fill), number(q.mean_nonzero_fill), q.fill_p50, q.fill_p99, q.fill_max),
            ]
            for q in analysis.queues
        ],
        "If any: the mean of the samples that found an event.",
    )
    page.table(
        (
            "queue",
            "≥ 50 %",
            "≥ 80 %",
            "full",
            "bursts",
            "growth/s",
            "in/s",
            "dropped",
            "blocked",
            "mean wait",
        ),
        [
            [
                *(q.name, share(q.above_50), share(q.above_80), share(q.full), len(q.bursts)),
                *(number(q.growth_hz), round(q.rate_in_hz), q.dropped, q.blocked, duration(q.residence_ns)),
            ]
            for q in analysis.queues
        ],
        "Shares of the time above a share of the capacity; mean wait: mean fill over rate (Little's law).",
    )
    names = {q.number: q.name for q in analysis.queues}
    bursts = sorted((b for q in analysis.queues for b in q.bursts), key=lambda b: -b.height)[:_MOST_BURSTS]
    if bursts:
        rows = [
            [
                names[b.queue],
                f"{(b.from_ns - analysis.from_ns) / 1e9:.4f}",
                duration(b.to_ns - b.from_ns),
                b.height,
                None if b.next_queue is None else names[b.next_queue],
            ]
            for b in bursts
        ]
        columns = ("queue", "at, s", "length", "height", "went on into")
        page.table(columns, rows, f"The {len(rows)} highest bursts, and the queue in which each showed next.")


def _bounds(pair: tuple[int, int]) -> str:
    return f"{pair[0]:,}" if pair[0] == pair[1] else f"{pair[0]:,} – {pair[1]:,}"


def _rates(page: Page, observation: Observation) -> None:
    """Arrivals at and departures from each stage's queues over time."""
    sweeps, samples = observation.sweeps["t_ns"], observation.samples
    if sweeps.size < 2 or sweeps.max() <= sweeps.min():
        return
    edges = np.linspace(float(sweeps.min()), float(sweeps.max()), _RATE_BINS + 1)
    seconds = np.diff(edges) / 1e9
    at = (edges[:-1] - edges[0]) / 1e9
    arrivals: dict[str, NDArray[np.float64]] = {}
    services: dict[str, NDArray[np.float64]] = {}
    for queue in observation.queues:
        mine = np.flatnonzero(samples["queue"] == queue.number)
        if queue.kind is QueueKind.POOL or not queue.drain or not mine.size:
            continue
        for sums, column in ((arrivals, "in"), (services, "out_high")):
            counts = np.interp(
                edges, samples["t_ns"][mine].astype(float), samples[column][mine].astype(float)
            )
            sums[queue.drain] = sums.get(queue.drain, np.zeros(_RATE_BINS)) + np.diff(counts) / seconds
    page.section("Rates over time", "Events a second into the queues of each stage, and out of them.")
    for title, rates in (("arrivals/s", arrivals), ("served/s", services)):
        series = {name: (at, values) for name, values in rates.items()}
        page.figure(figures.steps(series, "s since the observer began", title), height=320)


def _durations(page: Page, observation: Observation) -> None:
    samples = observation.samples
    took = (samples["t_end_ns"].astype(np.int64) - samples["t_ns"].astype(np.int64)).astype(float)
    groups = {q.name: took[samples["queue"] == q.number] for q in observation.queues}
    groups = {name: values for name, values in groups.items() if values.size}
    if not groups:
        return
    page.section(
        "How long a sample took",
        "The time in which a queue's counts were read: the fill is that of some instant within it.",
    )
    page.figure(figures.boxes(groups, "sample, ns"), "Sample duration by queue.", height=420)


def _traced(
    page: Page, observation: Observation, analysis: Analysis, traces: Mapping[str, NDArray[Any]]
) -> None:
    """The number of traced events inside against the number sampled, for the queues with most traces."""
    numbers, counts = np.unique(traces["queue"][traces["queue"] >= 0], return_counts=True)
    chosen = numbers[np.argsort(-counts)][:_MOST_TRACED]
    if not chosen.size:
        return
    page.section(
        "Traced events against samples",
        "How many traced events were in a queue when it was sampled, and how many events the sample saw. "
        "Where one event in many is traced, the traced ones are a lower bound.",
    )
    stays = (traces["pop_ns"] - traces["push_ns"]).astype(float)
    little = {queue.number: queue.residence_ns for queue in analysis.queues}
    page.table(
        ("queue", "traced events", "mean traced", "mean by Little"),
        [
            [
                observation.queues[number].name,
                int((traces["queue"] == number).sum()),
                duration(float(stays[traces["queue"] == number].mean())),
                duration(little.get(number)),
            ]
            for number in numbers.tolist()
        ],
        "The mean time in a queue, of the traced events and by Little's law from the samples alone.",
    )
    begin = int(observation.sweeps["t_ns"].min())
    for which in chosen.tolist():
        queue = observation.queues[which]
        t, fill, inside = _against(observation, queue, traces)
        series = {"sampled": ((t - begin) / 1e9, fill), "traced": ((t - begin) / 1e9, inside)}
        page.figure(
            figures.steps(series, "s since the observer began", "events in the queue"), queue.name, height=260
        )


def _against(
    observation: Observation, queue: Queue, traces: Mapping[str, NDArray[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    samples = observation.samples
    mine = samples["queue"] == queue.number
    t = samples["t_ns"][mine].astype(np.int64)
    fill = samples["in"][mine].astype(np.int64) - samples["out_low"][mine].astype(np.int64)
    hops = traces["queue"] == queue.number
    push, pop = (np.sort(traces[name][hops].astype(np.int64)) for name in ("push_ns", "pop_ns"))
    inside = np.searchsorted(push, t, side="right") - np.searchsorted(pop, t, side="left")
    return t, fill, np.maximum(inside, 0).astype(np.int64)
