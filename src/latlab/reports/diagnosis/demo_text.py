"""The demonstration's diagnosis as one screen of text."""

from __future__ import annotations

import textwrap

from latlab.model.diagnosis.pipeline import Latency
from latlab.model.queues.analysis import Analysis
from latlab.words import duration, share, table

__all__ = ["text"]

_WIDTH = 100


def text(diagnosis: Analysis, *, styled: bool = False) -> str:
    """Sentence, evidence, stages, queues, latency, observer, and what to distrust.

    Args:
        styled: for a terminal (see `latlab.words.wants_style`).
    """
    parts = [textwrap.fill(diagnosis.sentence, _WIDTH), ""]
    parts += [_item("  - ", sentence) for sentence in diagnosis.evidence]
    parts += [
        "",
        _stages(diagnosis, styled),
        "",
        _queues(diagnosis, styled),
        "",
        _latency(diagnosis),
        _observer(diagnosis),
    ]
    if diagnosis.reasons:
        parts += ["", "Not trustworthy as it stands:"]
        parts += [_item("  ! ", reason) for reason in diagnosis.reasons]
    return "\n".join(parts)


def _item(mark: str, sentence: str) -> str:
    return textwrap.fill(sentence, _WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))


def _times(latency: Latency | None, *names: str) -> list[str]:
    return [duration(None if latency is None else getattr(latency, name)) for name in names]


def _stages(diagnosis: Analysis, styled: bool) -> str:
    rows = [
        [
            stage.name + ("  <<" if diagnosis.limiting_stage in (stage.name, stage.type) else ""),
            round(stage.rate_hz),
            *(share(v) for v in (stage.ready, stage.blocked, stage.utilisation, stage.run_queue)),
            *_times(stage.service_ns, "p50", "p99"),
            *_times(stage.waiting_ns, "p50", "p99"),
        ]
        for stage in diagnosis.of_run.stages
    ]
    columns = (
        *("stage", "events/s", "ready", "blocked", "on CPU", "no CPU"),
        *("service p50", "p99", "waiting p50", "p99"),
    )
    return table(columns, rows, styled=styled)


def _queues(diagnosis: Analysis, styled: bool) -> str:
    columns = (
        "queue",
        "kind",
        "capacity",
        "samples",
        "fill>=1",
        "sum",
        "p50",
        "p99",
        "max",
        "full",
        "in",
        "drops",
    )
    rows = [
        [
            *(q.name, q.kind, q.capacity or None, q.samples, q.nonempty, q.sum_of_fills),
            *(q.fill_p50, q.fill_p99, q.fill_max, q.full_blocks, q.events_in, q.drops),
        ]
        for q in diagnosis.of_run.queues
    ]
    return table(columns, rows, styled=styled)


def _latency(diagnosis: Analysis) -> str:
    if diagnosis.of_run.end_to_end is None:
        return "End to end: no traced event reached the end."
    names = ("p50", "p90", "p99", "p99_9", "max")
    shown = ", ".join(
        f"{name.replace('_', '.')} {value}"
        for name, value in zip(names, _times(diagnosis.of_run.end_to_end, *names), strict=True)
    )
    return f"End to end ({diagnosis.of_run.end_to_end.count:,} traced events): {shown}."


def _observer(diagnosis: Analysis) -> str:
    sampler, check = diagnosis.of_run.sampler, diagnosis.of_run.discrepancy
    cores = ""
    if diagnosis.of_run.cores_used is not None:
        cores = f" The pipeline used {diagnosis.of_run.cores_used:.2f} of {diagnosis.of_run.cores} CPUs."
    return (
        f"{sampler.queues} queues were sampled every {duration(sampler.period_ns)} "
        f"(achieved p99 {duration(sampler.achieved_p99_ns)}, {sampler.missed:,} missed); "
        f"of {check.samples:,} samples {check.discrepancies:,} contradict one of "
        f"{check.traces:,} traced events.{cores}"
    )
