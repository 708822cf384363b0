"""What observing costs, as plain text."""

from __future__ import annotations

from latlab.model.queues.overhead import Overhead, QueueCost, WatchedRuns
from latlab.reports.queues.text import table
from latlab.words import count, duration, share

__all__ = ["overhead_lines"]


def overhead_lines(found: Overhead) -> list[str]:
    """One sentence a period, the latency of each queue, the cache, and the time to sample each queue."""
    lines = [_sentence(one, found) for one in found.watched if one.period_ns]
    lines += ["", "time in each queue, µs (traced events)"]
    heads = (
        "queue",
        "period",
        "events",
        "mean",
        "deviation",
        "p1",
        "p50",
        "p99",
        "slowdown",
        "95 % interval",
    )
    rows = []
    for name in dict.fromkeys(cost.queue for one in found.watched for cost in one.queues):
        for one in found.watched:
            cost = next((cost for cost in one.queues if cost.queue == name), None)
            if cost is not None:
                rows.append(_row(one, cost))
    lines += table(heads, rows)
    lines += ["", "last-level cache, loads and misses of the pipeline a run"]
    if found.counters:
        lines.append(f"unavailable: {found.counters}")
    else:
        lines += table(
            ("period", "loads", "misses"),
            [(_period(one), count(one.llc_loads or 0), count(one.llc_misses or 0)) for one in found.watched],
        )
    lines += ["", "time to sample each queue, by its place in memory"]
    lines += table(
        ("queue", "process", "slot", "offset", "parts", "looks", "p50", "p99"),
        [
            (s.queue, str(s.pid), str(s.slot), f"0x{s.offset_bytes:x}", str(s.parts), str(s.looks),
             duration(s.p50_ns), duration(s.p99_ns))
            for s in found.sample_times
        ],
    )  # fmt: skip
    return lines


def _period(one: WatchedRuns) -> str:
    return duration(one.period_ns) if one.period_ns else "unobserved"


def _sentence(one: WatchedRuns, found: Overhead) -> str:
    head = f"sampled every {_period(one)}"
    cost = one.whole
    if cost is None or cost.slowdown is None:
        return f"{head}: no event came through both this and an unobserved run"
    text = f"{head}, the pipeline's mean latency changes by {share(cost.slowdown, signed=True)}"
    if cost.slowdown_low is None or cost.slowdown_high is None:
        return f"{text} (too few rounds for an interval: {found.rounds} of 6)"
    return f"{text} [{share(cost.slowdown_low, signed=True)}, {share(cost.slowdown_high, signed=True)}]"


def _row(one: WatchedRuns, cost: QueueCost) -> tuple[str, ...]:
    interval = (
        ""
        if cost.slowdown_low is None or cost.slowdown_high is None
        else f"{share(cost.slowdown_low, signed=True)} to {share(cost.slowdown_high, signed=True)}"
    )
    return (
        cost.queue or "end to end",
        _period(one),
        str(cost.events),
        *(duration(ns) for ns in (cost.mean_ns, cost.deviation_ns, cost.p1_ns, cost.p50_ns, cost.p99_ns)),
        "" if cost.slowdown is None else f"{share(cost.slowdown, signed=True)}",
        interval,
    )
