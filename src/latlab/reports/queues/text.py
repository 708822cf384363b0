"""An analysis of queues as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from latlab.model.queues.analysis import Analysis, LineResult, Verdict
from latlab.model.queues.queueing import ModelForecast
from latlab.model.queues.tail import SchedulerShare, Tail
from latlab.reports.queues.doubts import doubt_in_words
from latlab.stats.quantiles import quantile_name
from latlab.words import count, duration, number, share

__all__ = [
    "analysis_lines",
    "answer",
    "beyond_limit",
    "compare_lines",
    "forecast_lines",
    "table",
    "tail_lines",
]

_SENTENCES = {
    Verdict.STAGE: "Bottleneck: {stage}",
    Verdict.SCHEDULER: "Bottleneck: {stage}, which the scheduler keeps from running",
    Verdict.CPU: "no stage limits, but the machine: its CPUs are full",
    Verdict.BURST: "no stage limits; bursts are larger than a queue",
    Verdict.POOL: "Bottleneck: {stage}, a pool that is empty while its users have work",
    Verdict.STOPPED: "{stage} has stopped, though events wait for it",
    Verdict.NONE: "nothing limits the pipeline",
    Verdict.UNKNOWN: "cannot tell from these data what limits the pipeline",
}


def answer(analysis: Analysis) -> str:
    """What limits, in one clause, with the confidence."""
    sentence = _SENTENCES[analysis.verdict].format(stage=analysis.limiting_stage)
    if analysis.verdict is Verdict.SCHEDULER and analysis.limiting_stage is None:
        sentence = "no stage limits, but the scheduler: runnable threads waited for a CPU"
    return f"{sentence} (confidence {share(analysis.confidence, digits=0)})"


def _of_line(line: LineResult) -> str:
    return (
        f"{_SENTENCES[line.verdict].format(stage=line.limiting_stage)} (confidence "
        f"{share(line.confidence, digits=0)})"
    )


def compare_lines(before: Analysis, after: Analysis) -> list[str]:
    """Two runs of an application side by side: the answers, and how each stage and queue changed."""
    lines = [f"before  {answer(before)}", f"after   {answer(after)}", ""]
    old_stages = {stage.label: stage for stage in before.stages}
    stages: list[tuple[str, ...]] = [
        (s.label, number(o.rate_hz), number(s.rate_hz), _change(o.rate_hz, s.rate_hz),
         _percent(o.utilisation), _percent(s.utilisation), _percent(o.ready), _percent(s.ready),
         "" if o.service_ns is None or s.service_ns is None else _change(o.service_ns, s.service_ns))
        for s in after.stages if (o := old_stages.get(s.label)) is not None
    ]  # fmt: skip
    changes = ("stage", "events/s", "then", "Δ", "busy", "then", "ready", "then", "Δ service")
    lines += table(changes, stages)
    old_queues = {queue.name: queue for queue in before.queues}
    queues: list[tuple[str, ...]] = [
        (q.name, number(p.mean_fill), number(q.mean_fill), str(p.fill_p99), str(q.fill_p99),
         _percent(p.full), _percent(q.full), str(p.dropped), str(q.dropped),
         *("" if ns is None else duration(ns) for ns in (p.residence_ns, q.residence_ns)))
        for q in after.queues if (p := old_queues.get(q.name)) is not None
    ]  # fmt: skip
    heads = ("queue", "mean", "then", "p99", "then", "full", "then", "dropped", "then", "wait", "then")
    lines += ["", *table(heads, queues)]
    for what, old, new in (
        ("stage", old_stages.keys(), {stage.label for stage in after.stages}),
        ("queue", old_queues.keys(), {queue.name for queue in after.queues}),
    ):
        lines += [f"{what} {name}: in the first run only" for name in sorted(old - new)]
        lines += [f"{what} {name}: in the second run only" for name in sorted(new - old)]
    return lines


def analysis_lines(analysis: Analysis) -> list[str]:
    """The answer, its evidence, and a table of stages and of queues."""
    lines = [answer(analysis), ""]
    lines += [f"  ! withheld: {doubt_in_words(doubt)}" for doubt in analysis.doubts]
    if analysis.lines:
        # No queue connects them: a verdict each.
        lines += [f"  {', '.join(line.stages)}: {_of_line(line)}" for line in analysis.lines]
    lines += [f"  - {text}" for text in analysis.evidence]
    if len(analysis.timeline) > 1:
        lines += ["", "timeline"]
        lines += [
            f"  {duration(p.from_ns - analysis.from_ns):>9}  {p.stage or p.verdict}"
            for p in analysis.timeline
        ]
    if analysis.landmarks:
        lines += ["", "landmarks"]
        lines += [f"  {duration(mark.t_ns - analysis.from_ns):>9}  {mark}" for mark in analysis.landmarks]
    stages = [
        (s.label, _percent(s.utilisation), _percent(s.ready), _percent(s.starved), _percent(s.blocked),
         number(s.rate_hz), "" if s.service_ns is None else duration(s.service_ns))
        for s in analysis.stages
    ]  # fmt: skip
    lines += ["", *table(("stage", "busy", "ready", "starved", "blocked", "events/s", "service"), stages)]
    queues = [
        (q.name, q.source, q.drain, str(q.capacity or "-"), number(q.mean_fill), str(q.fill_p99),
         str(q.fill_max), _percent(q.full), str(q.dropped),
         "" if q.residence_ns is None else duration(q.residence_ns))
        for q in analysis.queues
    ]  # fmt: skip
    heads = ("queue", "from", "to", "capacity", "mean", "p99", "max", "full", "dropped", "wait")
    return [*lines, "", *table(heads, queues)]


def forecast_lines(found: ModelForecast, before: ModelForecast | None = None) -> list[str]:
    """The forecast of a model; beside that of the unchanged one if there is one."""
    head = f"{number(found.throughput_hz)} events/s pass through"
    if before is not None:
        head += (
            f" ({_change(before.throughput_hz, found.throughput_hz)} against {number(before.throughput_hz)})"
        )
    lost = f"; {share(found.lost, digits=2)} of what arrives is lost" if found.lost else ""
    lines = [
        f"{head}{lost}",
        f"simulated: {count(found.events)} events, {duration(1e9 * found.simulated_s)} of the pipeline, "
        f"seed {found.seed}",
    ]
    stages = [(s.name, number(s.rate_hz), _percent(s.utilisation), _percent(s.blocked)) for s in found.stages]
    lines += ["", *table(("stage", "events/s", "busy", "blocked"), stages)]
    earlier = {queue.name: queue.waiting for queue in before.queues} if before else {}
    rows = []
    waits = [(queue.name, number(queue.rate_hz), queue.waiting) for queue in found.queues]
    for name, rate, wait in [*waits, ("end to end", number(found.throughput_hz), found.end_to_end)]:
        times = [duration(ns) for ns in (wait.mean_ns, wait.p50_ns, wait.p99_ns, wait.p99_9_ns)]
        if before is not None:
            old = earlier.get(name, before.end_to_end)
            times += [_change(old.p50_ns, wait.p50_ns), _change(old.p99_ns, wait.p99_ns)]
        rows.append((name, rate, *times))
    heads = ["waiting in", "events/s", "mean", "p50", "p99", "p99.9"]
    heads += ["Δ p50", "Δ p99"] if before is not None else []
    return [*lines, "", *table(heads, rows)]


def beyond_limit(found: Tail) -> str:
    """How many events are in the tail, and where it begins."""
    limit = f"{duration(found.limit_ns)} ({quantile_name(found.share)})"
    return f"{count(found.beyond)} of {count(found.traced)} traced events took longer than {limit}"


def tail_lines(found: Tail) -> list[str]:
    """The slowest traced events, one paragraph each."""
    lines = [f"{beyond_limit(found)}; the slowest {len(found.events)}:"]
    if found.scheduler:
        lines.append(f"what the scheduler did isn't known: {found.scheduler}")
    where: dict[str, int] = {}
    for event in found.events:
        lines += ["", f"event {event.event}: {duration(event.total_ns)}"]
        longest = event.longest
        for hop in event.hops:
            text = f"  {'>' if hop is longest else ' '} {duration(hop.waited_ns):>11} in {hop.queue or '-'}"
            text += f", {duration(hop.served_ns)} at {hop.stage}"
            if hop.fill is not None and hop.filling_ns is not None:
                text += f"; {hop.fill} in front"
                text += f", filling for {duration(hop.filling_ns)} ({hop.came} came)" if hop.fill else ""
            lines.append(text)
            if hop is not longest:
                continue
            if hop.waiting is None and hop.serving is None:
                if hop.no_cpu is not None and hop.on_cpu is not None:
                    ran = (
                        f"ran {share(hop.on_cpu, digits=0)} and waited for a CPU "
                        f"{share(hop.no_cpu, digits=0)} of the time"
                    )
                    lines.append(f"      {hop.stage} {ran}")
                continue
            for when, kernel in (("meanwhile", hop.waiting), ("while it had the event", hop.serving)):
                if kernel is not None:
                    lines.append(f"      {when} {hop.stage} {_scheduled(kernel)}")
        if longest is not None:
            place = longest.queue if longest.waited_ns >= longest.served_ns else f"the stage {longest.stage}"
            where[place] = where.get(place, 0) + 1
    if where:
        counts = ", ".join(f"{place} {count}" for place, count in sorted(where.items(), key=lambda p: -p[1]))
        lines += ["", f"most of the time was spent in: {counts}"]
    return lines


def _scheduled(kernel: SchedulerShare) -> str:
    """What the scheduler did, without what it did not."""
    parts = [f"ran {duration(kernel.ran_ns)}"]
    if kernel.run_queue_ns:
        text = f"was runnable without a CPU for {duration(kernel.run_queue_ns)}"
        if kernel.wake_up_ns:
            text += f" ({duration(kernel.wake_up_ns)} of it from being woken to running)"
        parts.append(f"{text}, which {kernel.cpu_held_by} had" if kernel.cpu_held_by else text)
    if kernel.futex_ns:
        by = f", woken by {kernel.woken_by}" if kernel.woken_by and not kernel.asleep_ns else ""
        parts.append(f"slept in a futex for {duration(kernel.futex_ns)}{by}")
    if kernel.asleep_ns:
        by = f", woken by {kernel.woken_by}" if kernel.woken_by else ""
        parts.append(f"slept elsewhere for {duration(kernel.asleep_ns)}{by}")
    return "; ".join(parts)


def _change(before: float, after: float) -> str:
    return "-" if before <= 0 else f"{share(after / before - 1, signed=True)}"


def _percent(value: float | None) -> str:
    return "" if value is None else share(value)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns, the first left and the others right aligned where they hold numbers."""
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    numeric = [all(not row[i] or row[i][0] in "-0123456789" for row in rows) for i in range(len(heads))]

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, numeric, strict=True)
        )
        return "  ".join(cells).rstrip()

    return [line(heads), *(line(row) for row in rows)]
