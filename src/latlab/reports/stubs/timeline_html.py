"""Timelines as a page: one row a thread, running, ready and blocked over time, and the error of each."""

from __future__ import annotations

import html

from latlab.model.stubs import Timeline, TimelineComparison, TimelineThread
from latlab.reports.html import Page
from latlab.words import duration, plural, share

__all__ = ["comparison", "draw"]

# The page's own colours, so that it follows light and dark.
_COLOURS = {"running": "var(--c0)", "ready": "var(--c1)", "blocked": "var(--line)"}
_MARKS = {"page fault": "var(--c3)", "preempted": "var(--bad)", "to CPU": "var(--c2)", "exec": "var(--ink)"}
_LABELS, _WIDTH, _ROW, _HEAD, _FOOT = 250.0, 1150.0, 24.0, 26.0, 26.0
# A slice narrower than this is drawn with its neighbours: thousands of them would be one colour anyway.
_NARROWEST = 0.4


def comparison(a: Timeline, b: Timeline, result: TimelineComparison, names: tuple[str, str]) -> Page:
    """Both timelines on one time axis, then the error of each thread.

    Args:
        a: the one that B is held against.
        b: usually the played one.
        result: of `latlab.stubs.compare`.
        names: where both come from.
    """
    page = Page("How similar are the two timelines?", f"{names[1]} against {names[0]}")
    worst = max((max(abs(t.start_error), abs(t.end_error)) for t in result.threads), default=0.0)
    order = "the same order" if result.order_same else "ANOTHER order"
    close = abs(result.total_error) <= 0.005 and worst <= 0.005 and result.order_same
    page.verdict(
        f"The total differs by {share(result.total_error, digits=3, signed=True)}, the start and "
        f"end of every thread by at most "
        f"{share(worst, digits=3)} of the total; threads are created and joined in {order}.",
        "good" if close else "warn",
    )
    span_ns = max(a.total_ns, b.total_ns, 1)
    for letter, timeline, name in (("A", a, names[0]), ("B", b, names[1])):
        threads = f"{len(timeline.threads)} threads, {duration(timeline.total_ns)}, {timeline.kind}"
        page.section(f"{letter}: {name}", threads)
        page.svg(draw(timeline, span_ns), _legend())
        for note in timeline.notes:
            page.paragraph(f"Note: {note}.")
    page.section("Errors of B against A")
    rows = [
        [
            thread.id, a.thread(thread.id).name, duration(a.thread(thread.id).run_ns),
            duration(b.thread(thread.id).run_ns), _signed(thread.run_error),
            _signed(thread.blocked_error), _signed(thread.start_error), _signed(thread.end_error),
        ]
        for thread in result.threads
    ]  # fmt: skip
    page.table(
        ["thread", "name", "A runs, ms", "B runs, ms", "run", "not running", "start", "end"],
        rows,
        "Run and not running relative to the thread's own time in A, start and end to A's total.",
    )
    if result.missing:
        page.paragraph(f"In one of them only: threads {', '.join(map(str, result.missing))}.")
    return page


def _legend() -> str:
    return (
        "Blue: running; orange: ready, without a CPU; grey: blocked. Marks: page faults (purple), preemption "
        "(red), a switch to another CPU (green), exec (dark). The pointer over a slice tells its times."
    )


def draw(timeline: Timeline, span_ns: int | None = None) -> str:
    """The timeline as SVG, one row a thread with its number, parent, process and name.

    Args:
        timeline: what to draw.
        span_ns: what the width stands for; the timeline's total when None.
    """
    span = span_ns or max(timeline.total_ns, 1)
    scale = (_WIDTH - _LABELS - 10) / span
    height = _HEAD + _ROW * len(timeline.threads) + _FOOT
    parts = [_axis(span, scale, height)]
    for index, thread in enumerate(timeline.threads):
        parts.append(_row(thread, _HEAD + index * _ROW, scale))
    return (
        f'<svg class="drawing" viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img" '
        f'aria-label="what {plural(len(timeline.threads), "thread")} did over {duration(span)}" '
        f'style="width:100%;font:12px system-ui;fill:var(--ink)">{"".join(parts)}</svg>'
    )


def _axis(span_ns: int, scale: float, height: float) -> str:
    step = 10 ** (len(str(span_ns)) - 1)
    step = next(s for s in (step // 5, step // 2, step, 2 * step) if s and span_ns / s <= 10)
    lines = []
    for at in range(0, span_ns + 1, step):
        x = _LABELS + at * scale
        lines.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_HEAD - 6:.0f}" y2="{height - _FOOT:.0f}" '
            f'stroke="var(--line)"/>'
            f'<text x="{x:.1f}" y="{height - 8:.0f}" text-anchor="middle">{duration(at)}</text>'
        )
    return "".join(lines)


def _row(thread: TimelineThread, y: float, scale: float) -> str:
    parent = "" if thread.parent is None else f" of {thread.parent}"
    pid = f" pid {thread.pid}" if thread.pid else ""
    label = html.escape(f"{thread.id}{parent}{pid} {thread.name}".strip())
    parts = [f'<text x="4" y="{y + 15:.1f}">{label}</text>']
    drawn_to = dict.fromkeys(_COLOURS, -1.0)
    # Runs last: a short one must stay visible beside a long wait.
    for begin, end, state in sorted(thread.slices, key=lambda each: (each[2] == "running", each[0])):
        x0, x1 = _LABELS + begin * scale, _LABELS + end * scale
        if x1 - drawn_to[state] < _NARROWEST:
            continue
        thick = 14.0 if state == "running" else 8.0 if state == "ready" else 3.0
        told = f"{state} {duration(end - begin)}, {duration(begin)} to {duration(end)}"
        parts.append(
            f'<rect x="{x0:.2f}" y="{y + 11 - thick / 2:.1f}" width="{max(x1 - x0, _NARROWEST):.2f}" '
            f'height="{thick:.0f}" fill="{_COLOURS[state]}"><title>{told}</title></rect>'
        )
        drawn_to[state] = max(x0 + _NARROWEST, x1)
    marked = dict.fromkeys(_MARKS, -1.0)
    for at, what in thread.marks:
        kind = next((name for name in _MARKS if what.startswith(name)), None)
        x = _LABELS + at * scale
        if kind is None or x - marked[kind] < 1.0:
            continue
        marked[kind] = x
        # Page faults come by the thousand: below the row, so that it stays visible.
        top = 19.0 if kind == "page fault" else 1.0
        parts.append(
            f'<line x1="{x:.2f}" x2="{x:.2f}" y1="{y + top:.1f}" y2="{y + 23:.1f}" stroke="{_MARKS[kind]}">'
            f"<title>{html.escape(what)} at {duration(at)}</title></line>"
        )
    return "".join(parts)


def _signed(error: float) -> str:
    return share(error, digits=3, signed=True)
