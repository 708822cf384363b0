"""An analysis of queues as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from latlab.model.queues import Analysis, Verdict

__all__ = ["analysis_lines"]

_SENTENCES = {
    Verdict.STAGE: "{stage} limits the pipeline",
    Verdict.SCHEDULER: "{stage} limits the pipeline, since the scheduler keeps it from running",
    Verdict.CPU: "no stage limits, but the machine: its CPUs are full",
    Verdict.BURST: "no stage limits; bursts are larger than a queue",
    Verdict.NONE: "nothing limits the pipeline",
    Verdict.UNKNOWN: "what limits the pipeline can't be told from these data",
}


def analysis_lines(analysis: Analysis) -> list[str]:
    """The answer, its evidence, and a table of stages and of queues."""
    sentence = _SENTENCES[analysis.verdict].format(stage=analysis.limiting_stage)
    lines = [f"{sentence} (confidence {analysis.confidence:.0%})", ""]
    lines += [f"  - {text}" for text in analysis.evidence]
    if len(analysis.timeline) > 1:
        lines += ["", "timeline"]
        lines += [
            f"  {(p.from_ns - analysis.from_ns) / 1e9:8.3f} s  {p.stage or p.verdict}"
            for p in analysis.timeline
        ]
    stages = [
        (s.label, _percent(s.utilisation), _percent(s.ready), _percent(s.starved), _percent(s.blocked),
         f"{s.rate_hz:.0f}", "" if s.service_ns is None else f"{s.service_ns / 1e3:.2f}")
        for s in analysis.stages
    ]  # fmt: skip
    lines += ["", *_table(("stage", "busy", "ready", "starved", "blocked", "events/s", "service µs"), stages)]
    queues = [
        (q.name, q.source, q.drain, str(q.capacity or "-"), f"{q.mean_fill:.2f}", str(q.fill_p99),
         str(q.fill_max), _percent(q.full), str(q.dropped),
         "" if q.residence_ns is None else f"{q.residence_ns / 1e3:.1f}")
        for q in analysis.queues
    ]  # fmt: skip
    heads = ("queue", "from", "to", "capacity", "mean", "p99", "max", "full", "dropped", "wait µs")
    return [*lines, "", *_table(heads, queues)]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
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
