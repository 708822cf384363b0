"""A server's requests as a page: the finding, percentiles over time, the tail's parts, the slowest ones."""

from __future__ import annotations

from latlab.model.machine.environment import Environment
from latlab.model.requests import Requests
from latlab.reports.html import Page
from latlab.reports.requests.sentence import SAYS, finding
from latlab.reports.requests.text import (
    FORECAST_COLUMNS,
    KIND_COLUMNS,
    PART_COLUMNS,
    SLOW_COLUMNS,
    common_lines,
    counted,
    forecast_notes,
    forecast_rows,
    kind_rows,
    part_rows,
    simulated,
    slow_parts,
    slow_rows,
    spent_title,
)
from latlab.reports.requests.timeline import timelines
from latlab.reports.sections import figures

__all__ = ["add_requests", "report"]


def report(found: Requests, environment: Environment, command: str | None = None) -> Page:
    """The page of one recording."""
    page = Page("Where did the slow requests spend their time?", environment.summary())
    page.verdict(finding(found), "warn" if found.distrust or found.answer.withheld else "plain")
    for reason in found.distrust:
        page.paragraph(f"Not trustworthy: {reason}.")
    if found.requests + found.still_open:
        page.paragraph("\n\n".join(counted(found)))
        _sections(page, found)
    page.reproduce(command, environment)
    return page


def add_requests(page: Page, found: Requests) -> None:
    """The requests of a diagnosis: a section of its page."""
    page.section("Requests", finding(found), anchor="requests")
    page.paragraph("\n\n".join(counted(found)))
    _sections(page, found)


def _sections(page: Page, found: Requests) -> None:
    page.section("Percentiles", "From the arrival in the receive queue to the last byte of the answer.")
    page.table(KIND_COLUMNS, kind_rows(found, len(found.kinds)))
    times = [one.began_s for one in found.over_time]
    page.figure(
        figures.steps(
            {
                name: (times, [getattr(one, field) / 1e6 for one in found.over_time])
                for name, field in (("p50", "p50_ns"), ("p99", "p99_ns"), ("max", "max_ns"))
            },
            "s",
            "ms",
            log_y=True,
        ),
        "Latency of the requests that arrived in each stretch of time.",
    )
    page.section(
        "What the slow ones do differently",
        f"{spent_title(found)}: the mean. Parts sum to the whole.",
    )
    page.figure(
        figures.bars(
            {
                name: {SAYS[kind]: sum(one.ns for one in parts if one.kind == kind) / 1e6 for kind in SAYS
                       if any(one.kind == kind for one in (*slow_parts(found), *found.median_parts))}
                for name, parts in (("slow", slow_parts(found)), ("median", found.median_parts))
            },
            "ms",
            across=True,
        ),
        "Where the time goes.",
    )  # fmt: skip
    page.table(PART_COLUMNS, part_rows(slow_parts(found), found.median_parts))
    common = common_lines(found)
    if common:
        page.section("What the slow ones have in common", "Fisher's exact test against the median ones.")
        page.paragraph("\n\n".join(common))
    rows, notes = forecast_rows(found), forecast_notes(found)
    if rows or notes:
        page.section("What a change would buy", f"Simulated with it, at the same arrivals{simulated(found)}.")
    if rows:
        page.table(FORECAST_COLUMNS, rows)
    if notes:
        page.paragraph("\n\n".join(notes))
    page.section("The slowest")
    page.table(SLOW_COLUMNS, slow_rows(found))
    drawn = timelines(found.slowest)
    if drawn:
        page.svg(drawn, "What the threads did that were to serve each; arrows: who woke them.")
