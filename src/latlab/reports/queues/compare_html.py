"""Two recordings of queues on one page: what limits in each, and the plots of both over one another."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latlab.model.machine.environment import Environment
from latlab.model.queues.analysis import Analysis, QueueResult, StageResult
from latlab.model.queues.observation import Observation, Queue, QueueKind
from latlab.reports.diagnosis.demo_html import fill_series
from latlab.reports.html import Page
from latlab.reports.queues.html import draw_topology
from latlab.reports.queues.text import answer
from latlab.reports.sections import figures
from latlab.words import duration, number, share

__all__ = ["ComparedSide", "write_comparison"]

_MOST_QUEUES = 8  # whose fills are drawn; the others are in the tables
_WAYS = ("before", "after")


@dataclass(frozen=True)
class ComparedSide:
    """One of the two recordings."""

    name: str
    observation: Observation
    analysis: Analysis


def write_comparison(
    path: str | os.PathLike[str],
    before: ComparedSide,
    after: ComparedSide,
    environment: Environment,
    unlike: Sequence[str] = (),
) -> None:
    """Write the page.

    Args:
        path: of the HTML file.
        environment: of the second run.
        unlike: what of the environments differs.
    """
    sides = (before, after)
    page = Page("What changed?", f"before: {before.name}; after: {after.name}")
    answers = [answer(side.analysis) for side in sides]
    page.verdict(f"Before: {answers[0]}.\n\nAfter: {answers[1]}.")
    if unlike:
        page.paragraph(f"The runs differ in {'; '.join(unlike)}.")
    for way, side in zip(_WAYS, sides, strict=True):
        page.svg(draw_topology(side.analysis), f"{way.capitalize()}: mean and largest fill of each queue.")
    _stages(page, sides)
    _queues(page, sides)
    _fills(page, sides)
    page.reproduce(f"latlab queues compare {before.name} {after.name} --html {path}", environment)
    page.write(path)


def _stages(page: Page, sides: Sequence[ComparedSide]) -> None:
    page.section("Stages", "Ready: a stage has an event and room for the result; the busiest limits.")
    named = [{stage.label: stage for stage in side.analysis.stages} for side in sides]
    labels = list(dict.fromkeys(label for stages in named for label in stages))
    values: tuple[tuple[str, Callable[[StageResult], float | None]], ...] = (
        ("ready, share of the time", lambda stage: stage.ready),
        ("service time, µs", lambda stage: None if stage.service_ns is None else stage.service_ns / 1e3),
        ("events/s", lambda stage: stage.rate_hz),
    )
    for title, value in values:
        groups = {
            way: {label: value(stages[label]) for label in labels if label in stages}
            for way, stages in zip(_WAYS, named, strict=True)
        }
        page.figure(figures.bars(groups, title), height=300)
    rows = [
        [label, *(cell for stages in named for cell in _stage_cells(stages.get(label)))] for label in labels
    ]
    heads = ("stage", *(f"{what} {way}" for way in _WAYS for what in ("ready", "service", "events/s")))
    page.table(heads, rows)


def _stage_cells(stage: StageResult | None) -> list[object]:
    if stage is None:
        return [None, None, None]
    return [share(stage.ready), duration(stage.service_ns), round(stage.rate_hz)]


def _queues(page: Page, sides: Sequence[ComparedSide]) -> None:
    page.section("Queues", "Mean wait by Little's law: mean fill over rate.")
    named = [{queue.name: queue for queue in side.analysis.queues} for side in sides]
    names = list(dict.fromkeys(name for queues in named for name in queues))
    drawn = {  # a pool's fill is of free objects, and dwarfs what waits
        name for queues in named for name, queue in queues.items() if queue.kind != QueueKind.POOL
    }
    waits = {
        way: {
            name: None if (wait := queues[name].residence_ns) is None else wait / 1e3
            for name in names
            if name in queues and name in drawn
        }
        for way, queues in zip(_WAYS, named, strict=True)
    }
    page.figure(figures.bars(waits, "mean wait, µs", log_y=True), "Mean wait in each queue.", height=360)
    tops = {
        way: {name: float(queues[name].fill_p99) for name in names if name in queues and name in drawn}
        for way, queues in zip(_WAYS, named, strict=True)
    }
    page.figure(figures.bars(tops, "fill, p99"), "The fill that is exceeded 1 % of the time.", height=360)
    rows = [[name, *(cell for queues in named for cell in _queue_cells(queues.get(name)))] for name in names]
    heads = ("queue", *(f"{what} {way}" for way in _WAYS for what in ("mean", "p99", "full", "dropped")))
    page.table(heads, rows)


def _queue_cells(queue: QueueResult | None) -> list[object]:
    if queue is None:
        return [None, None, None, None]
    return [number(queue.mean_fill), queue.fill_p99, share(queue.full), queue.dropped]


def _fills(page: Page, sides: Sequence[ComparedSide]) -> None:
    """Fills and cumulative fills of the queues that held most, of both runs from their own starts."""
    page.section("Fill over time", "Both runs from the first sweep of each; the queues that held most.")
    weight: dict[str, float] = {}
    for side in sides:
        for result in side.analysis.queues:
            if result.kind != QueueKind.POOL:
                weight[result.name] = max(weight.get(result.name, 0.0), result.mean_fill)
    over = "s since the observer began"
    for name in sorted(weight, key=lambda one: -weight[one])[:_MOST_QUEUES]:
        fills, sums = {}, {}
        for way, side in zip(_WAYS, sides, strict=True):
            queue = next((one for one in side.observation.queues if one.name == name), None)
            seconds, fill = _series(side.observation, queue)
            if not seconds.size:
                continue
            fills[way] = (seconds, fill)
            sums[way] = (seconds, np.concatenate([[0.0], np.cumsum(fill[:-1] * np.diff(seconds))]))
        page.figure(figures.steps(fills, over, "events in the queue"), f"{name}: fill.", height=260)
        page.figure(figures.steps(sums, over, "events × s"), f"{name}: cumulative fill.", height=220)


def _series(observation: Observation, queue: Queue | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if queue is None or not observation.sweeps["t_ns"].size:
        return np.empty(0), np.empty(0)
    t, fill = fill_series(observation, queue)
    return (t - int(observation.sweeps["t_ns"].min())) / 1e9, fill.astype(float)
