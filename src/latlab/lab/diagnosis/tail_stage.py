"""Which stage the tail waits for, where none limits the throughput."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from latlab.model.diagnosis.answer import Budget
from latlab.model.evidence.pipeline import RunFinding
from latlab.model.evidence.said import said
from latlab.model.queues.analysis import Analysis, Verdict
from latlab.stats.quantiles import quantile_name
from latlab.words import share

__all__ = ["TailStage", "most_of", "waits_for"]

_MOST = 0.5  # of the quantile: below it no one stage makes the tail
_NAMED = 2


@dataclass(frozen=True, slots=True)
class TailStage:
    """The type of stage that the tail waits for, with the queues in front of it in a sentence."""

    stage: str
    sentence: str


def waits_for(found: Analysis, budget: Budget | None) -> TailStage | None:
    """The stage whose queues and service make the most of a traced tail; None where no one does.

    Args:
        budget: of a quantile of traced events.
    """
    if found.verdict not in (Verdict.NONE, Verdict.BURST) or budget is None or budget.quantile is None:
        return None
    spent, waits = _spent(found, budget)
    stage = max(spent, key=lambda name: spent[name], default=None)
    if stage is None or spent[stage] < _MOST * budget.total_ns or stage not in waits:
        return None
    queues = sorted(waits[stage].items(), key=lambda item: -item[1])[:_NAMED]
    where = " and ".join(f"{name} ({share(ns / budget.total_ns, digits=0)})" for name, ns in queues)
    quantile = quantile_name(budget.quantile)
    of_it = {"part": spent[stage] / budget.total_ns, "quantile": quantile, "total_ns": budget.total_ns}
    return TailStage(stage, said(RunFinding.TAIL, stage=stage, queues=where, **of_it))


def most_of(found: Analysis, budget: Budget | None, among: Set[str]) -> str | None:
    """The one of these types of stages that makes the largest part of a tail, whatever the verdict.

    Args:
        budget: of a quantile of traced events.
        among: what can be made faster.
    """
    if budget is None:
        return None
    spent, _ = _spent(found, budget)
    return max(among & spent.keys(), key=lambda name: spent[name], default=None)


def _spent(found: Analysis, budget: Budget) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """The time of each type of stage, with the queues in front of it, and that of each of these queues."""
    types = {stage.name: stage.type for stage in found.of_run.stages}
    drains = {queue.name: types.get(queue.drain, queue.drain) for queue in found.queues}
    spent: dict[str, float] = {}
    waits: dict[str, dict[str, float]] = {}
    for part in budget.parts:
        stage = drains.get(part.where) if part.kind == "waiting" else types.get(part.where)
        if stage is None:
            continue
        spent[stage] = spent.get(stage, 0.0) + part.ns
        if part.kind == "waiting":
            waits.setdefault(stage, {})[part.where] = part.ns
    return spent, waits
