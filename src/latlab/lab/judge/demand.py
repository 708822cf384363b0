"""Which stage does the most work, where threads wait for CPUs: what the queues in front of them can't tell.

On a machine that is full, a stage has work all the time when it is slow, and also when others take its CPU.
Two things are not blurred by that: the median service of traced events (most services are not interrupted),
and the CPU time of threads. A type of stages that needs far more than any other is what fills the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from latlab.model.diagnosis.pipeline import StageRow
from latlab.model.evidence.pipeline import RunEvidence
from latlab.model.evidence.said import said
from latlab.model.queues.analysis import Analysis, StageResult, Verdict
from latlab.schedule.interpreter_lock import takes_one_cpu

__all__ = ["Demand", "all_of_type", "held_up", "most_work"]

_WAITS = 0.25  # of the time that its thread would run, without a CPU
_LOADED = 0.8
_LEAST = 0.3  # CPUs
_LEADS = 1.25  # times what the next type needs
_ALIKE = 0.5
_OWN = 0.5  # of its busy time, a stage that works wants a CPU


@dataclass(frozen=True, slots=True)
class Demand:
    """The stage that does the most work, and why it is believed.

    Attributes:
        name: a type, or an instance where its siblings do far less.
        evidence: a sentence with the numbers.
    """

    name: str
    evidence: str


def most_work(
    found: Analysis, views: Sequence[StageRow], stages: Mapping[str, Sequence[str]]
) -> Demand | None:
    """The type of stages that needs most CPUs for its events, by traces; None where that decides nothing.

    It decides where threads waited for CPUs, or where the queues name no stage although some have work all
    the time.
    """
    if not _blurred(found):
        return None
    needs = {
        view.name: view.service_ns.p50 * view.rate_hz / 1e9 for view in views if view.service_ns is not None
    }
    totals = {kind: sum(needs.get(name, 0.0) for name in names) for kind, names in stages.items()}
    order = sorted(totals, key=lambda kind: -totals[kind])
    if len(order) < 2 or totals[order[0]] < max(_LEAST, _LEADS * totals[order[1]]):
        return None
    first, second = order[:2]
    own = [needs.get(name, 0.0) for name in stages[first]]
    alike = min(own) >= _ALIKE * max(own)
    name = first if alike or len(own) == 1 else max(stages[first], key=lambda one: needs.get(one, 0.0))
    needed = {"first": first, "needs": totals[first], "second": second, "other": totals[second]}
    return Demand(name, said(RunEvidence.OVERSUBSCRIBED, **needed))


def all_of_type(label: str, views: Sequence[StageRow], stages: Mapping[str, Sequence[str]]) -> Demand | None:
    """The type of an instance whose siblings need about as long for an event, by traces; else None.

    Making that one faster would only move the place. Where several instances share a pool of threads the
    queues' counts blur what each needs, and the median of traced services doesn't.
    """
    kind = next((kind for kind, names in stages.items() if label in names and len(names) > 1), None)
    if kind is None:
        return None
    known = [view.service_ns for view in views if view.name in stages[kind]]
    times = [service.p50 for service in known if service is not None]
    if len(times) < len(stages[kind]) or min(times) < _ALIKE * max(times):
        return None
    bounds = {"least_ns": min(times), "most_ns": max(times)}
    return Demand(kind, said(RunEvidence.TYPE_ALIKE, number=len(times), type=kind, **bounds))


def _blurred(found: Analysis) -> bool:
    if found.verdict in (Verdict.CPU, Verdict.SCHEDULER):
        return True
    named = next((one for one in found.stages if one.label == found.limiting_stage), None)
    if named is not None:
        return _waits(named)
    loaded = any((one.ready or 0.0) >= _LOADED for one in found.stages)
    return loaded and (found.limiting_stage is not None or found.verdict == Verdict.UNKNOWN)


def _waits(stage: StageResult) -> bool:
    if stage.cpu is None or stage.run_queue is None:
        return False
    return stage.run_queue > _WAITS * (stage.cpu + stage.run_queue)


def held_up(found: Analysis) -> Demand | None:
    """The stage that works, where the one that the queues name only waits for a lock that all threads share.

    A thread that waits for the interpreter's lock neither runs nor wants a CPU, and its stage has work all
    the while, as a slow one has. But a slow stage that computes takes the CPU itself, and one that waits for
    something else leaves the lock to others, who need not take a whole CPU together then.

    Returns:
        The stage that took most CPU time; None where the one that is named does, or no lock is in between.
    """
    named = next((one for one in found.stages if one.label == found.limiting_stage), None)
    known = [one for one in found.stages if one.cpu is not None and one.run_queue is not None]
    if named is None or named not in known or not named.utilisation:
        return None
    assert named.cpu is not None
    assert named.run_queue is not None
    total = sum(one.cpu or 0.0 for one in known)
    busiest = max(known, key=lambda one: one.cpu or 0.0)
    if not takes_one_cpu(total) or named.cpu + named.run_queue >= _OWN * named.utilisation:
        return None
    assert busiest.cpu is not None
    if busiest.cpu < 2 * named.cpu or (busiest.ready or 0.0) < _OWN:
        return None
    text = said(
        RunEvidence.HELD_UP,
        stage=named.label,
        cpu=named.cpu,
        busiest=busiest.label,
        busiest_cpu=busiest.cpu,
        total=total,
    )
    return Demand(busiest.label, text)
