"""The part of a diagnosis's page on threads: what limits, the roles, who waits for whom, the timeline."""

from __future__ import annotations

from latlab.model.threads import ThreadFindings
from latlab.reports.diagnosis.threads_text import EDGE_COLUMNS, ROLE_COLUMNS, edge_rows, role_rows
from latlab.reports.html import Page
from latlab.reports.sections.topology import DrawnQueue, Node, draw
from latlab.words import count, duration, share

__all__ = ["add_threads"]

_MOST_NODES = 14


def add_threads(page: Page, found: ThreadFindings) -> None:
    """Add the sections."""
    page.section(
        "Threads",
        f"{len(found.threads)} threads, observed for {duration(1e9 * found.seconds)} from outside "
        f"({found.method}); {share(found.unseen)} of their time was not seen. 'Limits' is a share of "
        "the program's progress; the other shares are of the role's own time.",
        anchor="threads",
    )
    page.table(ROLE_COLUMNS, role_rows(found.roles))
    if found.limit.code:
        page.table(
            ("function", "file", "line", "samples"),
            [[one.told, one.file, one.line or None, share(one.share)] for one in found.limit.code],
            "Where in the code that which limits runs.",
        )
    _progress(page, found)
    _waits(page, found)
    _timeline(page, found)


def _progress(page: Page, found: ThreadFindings) -> None:
    if not found.progress:
        return
    shown = list(found.progress.items())[:12]
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": [name for name, _ in reversed(shown)],
        "x": [100 * part for _, part in reversed(shown)],
    }
    axes = {"xaxis": {"title": {"text": "% of the time"}}, "margin": {"l": 260}}
    page.figure(
        {"data": [bars], "layout": axes},
        "What the program's progress waited for, each wait handed on to what ended it.",
        height=120 + 24 * len(shown),
    )


def _waits(page: Page, found: ThreadFindings) -> None:
    rows = edge_rows(found.edges)
    if not rows:
        return
    page.section("Who waits for whom", "Whose waits each role ends, and by what.", anchor="waits")
    shown = sorted(found.roles, key=lambda role: -role.limits)[:_MOST_NODES]
    names = {role.name for role in shown}
    edges = [
        DrawnQueue(
            edge.source, edge.to, f"{edge.kind} {share(edge.waiting, digits=0)}", min(1.0, edge.waiting)
        )
        for edge in found.edges
        if edge.source in names and edge.to in names and edge.source != edge.to and edge.waiting >= 0.01
    ]
    nodes = [
        Node(
            role.name,
            f"{role.count} threads" if role.count > 1 else "",
            min(1.0, role.running),
            role.name == found.limit.name,
        )
        for role in shown
    ]
    page.svg(draw(nodes, edges), "An arrow leads from a role to those whose waits it ends; bars: running.")
    page.table(EDGE_COLUMNS, rows)
    if found.locks:
        page.table(
            ("lock", "waits", "mean wait", "longest", "held by", "waited for by", "limits"),
            [
                [
                    one.name,
                    count(one.waits),
                    duration(one.wait_ns / max(1, one.waits)),
                    duration(one.longest_ns),
                    ", ".join(one.holders),
                    ", ".join(one.waiters),
                    share(one.share),
                ]
                for one in found.locks
            ],
            "Locks that threads contended for.",
        )


def _timeline(page: Page, found: ThreadFindings) -> None:
    if not found.slices:
        return
    page.section("Timeline", "How much of each moment every thread ran.", anchor="timeline")
    bins = len(found.slices[0].running)
    width = found.seconds / bins
    heat = {
        "type": "heatmap",
        "x": [round(width * (i + 0.5), 4) for i in range(bins)],
        "y": [found.threads[one.thread] for one in found.slices],
        "z": [[round(100 * value) for value in one.running] for one in found.slices],
        "zmin": 0,
        "zmax": 100,
        "colorbar": {"title": {"text": "% running"}},
    }
    layout = {"xaxis": {"title": {"text": "s"}}, "margin": {"l": 260}}
    page.figure(
        {"data": [heat], "layout": layout},
        "Share of each moment that a thread ran; white: it waited.",
        height=140 + 22 * len(found.slices),
    )
