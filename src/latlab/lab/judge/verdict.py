"""Names what limits an application that publishes its queues, and says whether the run can be trusted.

Over 400 lines: one judgement, whose sentence, evidence and doubts are of the same numbers.

The queues' samples and the stages' own times give the stage (`latlab.queues.analyse`). What applications may
add: event traces, which say how long an event waited and was served, and the processes' own accounts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.errors import InputError
from latlab.lab.judge.demand import all_of_type, held_up, most_work
from latlab.lab.judge.disturbances import losses_in_words, unanswered
from latlab.lab.judge.foreign_load import Others
from latlab.lab.judge.outcome import Outcome
from latlab.lab.judge.residence import Residence, TraceTable
from latlab.model.diagnosis.pipeline import Discrepancy, Latency, QueueRow, SamplerFacts, StageRow, Whole
from latlab.model.evidence.pipeline import Disturbance, RunDoubt, RunEvidence, RunFinding
from latlab.model.evidence.queues import QueueEvidence
from latlab.model.evidence.said import kind_of, said, values_of
from latlab.model.queues.analysis import Analysis, DoubtKind, LineResult, StageResult, Verdict
from latlab.model.queues.observation import Observation
from latlab.queues import verify_recording
from latlab.stats.quantiles import quantiles

__all__ = ["diagnose", "discrepancy", "latency", "overloaded", "sentence_of_line"]

_STARVED_PERIODS = 5  # the sampler is starved when its 99th percentile exceeds so many periods …
_STARVED_SHARE = 0.2  # … or when it missed this share of them
_KEPT_WAITING = 0.2  # of the time, a thread without a CPU: then its events wait for the scheduler
_WORTH_NS = 2_000  # a service that is worth a word where nothing limits …
_MOST_OF_IT = 3  # … if it takes so many times as long as any other
_READY = 0.5  # of the time: below, that a stage had input waiting is not why it limits
_LOADED, _NEAR = 0.6, 0.9  # busy for so long, and the second for so much of the first
_FOREIGN = 0.15  # share of the machine that others may have used


def latency(times: NDArray[np.int64] | None) -> Latency | None:
    """The quantiles of times in ns; None without any."""
    if times is None or times.size == 0:
        return None
    p50, p90, p99, p999 = (int(value) for value in quantiles(times, (0.5, 0.9, 0.99, 0.999)))
    return Latency(int(times.size), p50, p90, p99, p999, int(times.max()))


def diagnose(
    observation: Observation,
    analysis: Analysis,
    times: Residence,
    traces: TraceTable,
    stages: Mapping[str, Sequence[str]],
    outcomes: Sequence[Outcome],
    sampler: Mapping[str, Any],
    cores: int,
    others: Others | None,
    every: int,
    distrust: Sequence[str] = (),
) -> Analysis:
    """From everything that was seen to one answer.

    Args:
        observation: the recording in memory.
        analysis: of its queues and stages.
        times: from the event traces.
        traces: the traces themselves.
        stages: the instances of each type of stage.
        outcomes: how the processes ended.
        sampler: the recording's document on the sampler.
        cores: CPUs that the pipeline could run on.
        others: who else used the machine during the run; None where that was not looked at, nor the sampler's
            own starvation: then `distrust` speaks of that.
        every: one event in this many was traced.
        distrust: what else makes the observation doubtful.
    """
    queue_views = _queue_views(analysis, times, observation)
    stage_views = _stage_views(analysis, times, traces, stages, observation)
    limiting = _named(analysis.limiting_stage, stages)
    verdict, confidence = analysis.verdict, analysis.confidence
    evidence = list(analysis.evidence)
    # What contradicts itself is not made true by traces of the same queues.
    demand = None if analysis.doubts else most_work(analysis, stage_views, stages)
    if traces.event.size == 0 and not analysis.lines and (holder := held_up(analysis)) is not None:
        evidence.append(holder.evidence)
        limiting = holder.name
    elif demand is not None:
        evidence.append(demand.evidence)
        if limiting is None:
            verdict = Verdict.STAGE
        if limiting is None or _kind(demand.name, stages) != _kind(limiting, stages):
            limiting = demand.name
    # (Where one instance is kept from its CPU, its siblings have nothing to do with it.)
    if limiting is not None and verdict == Verdict.STAGE:
        alike = all_of_type(limiting, stage_views, stages)
        if alike is not None:
            limiting = alike.name
            evidence.append(alike.evidence)
    seconds = (analysis.to_ns - analysis.from_ns) / 1e9
    used = _cores_used(observation)
    disturbed = None
    if limiting is None and others is not None:
        disturbed = _disturbed(stage_views, cores, others)
    if disturbed is not None and verdict in (Verdict.NONE, Verdict.BURST):
        verdict = Verdict.SCHEDULER
    end_to_end = latency(times.end_to_end)
    facts: dict[str, Any] = {
        "foreign_cores": None if others is None else others.cpus,
        "stolen_cores": None if others is None else others.stolen,
        "processes": [
            {"role": o.role, "pid": o.pid, "died": o.died, "signal": o.signal, "status": o.status}
            for o in outcomes
        ],
    }
    for outcome in outcomes:
        if outcome.summary is not None and outcome.role == "trading":
            facts["feeds"] = outcome.summary["feeds"]
            facts["pacing_error_ns"] = outcome.summary["lateness_ns"]
    found = SamplerFacts(
        period_ns=observation.period_ns,
        achieved_p50_ns=round(sampler.get("period_p50_ns", 0)),
        achieved_p99_ns=round(sampler.get("period_p99_ns", 0)),
        sweeps=int(observation.sweeps["t_ns"].size),
        missed=int(observation.gaps["periods"].sum()) if observation.gaps else 0,
        queues=sum(1 for queue in observation.queues if queue.complete),
    )
    check = discrepancy(observation, traces, every=every)
    whole = Whole(
        queues=queue_views, stages=stage_views, end_to_end=end_to_end, sampler=found, discrepancy=check,
        cores_used=used, cores=cores, seconds=seconds, events=_entered(queue_views), facts=facts,
    )  # fmt: skip
    return replace(
        analysis,
        limiting_stage=limiting,
        verdict=verdict,
        confidence=confidence,
        sentence=_sentence(
            analysis, limiting, verdict, disturbed, stage_views, end_to_end, used, cores, analysis.stages
        ),
        evidence=(*evidence, *_trace_evidence(limiting, stage_views, queue_views)),
        losses=losses_in_words(queue_views, limiting, analysis.sockets),
        distrust=(
            *unanswered(verdict, analysis),
            *_uncounted(queue_views, outcomes),
            *(() if others is None else _distrust(found, outcomes, cores, others)),
            *distrust,
        ),
        run=whole,
    )


def discrepancy(observation: Observation, traces: TraceTable, *, every: int = 0) -> Discrepancy:
    """Hold samples against traces, as `latlab queues verify` does.

    Args:
        every: one event in this many was traced; 0: unknown.
    """
    numbers = {queue.name: queue.number for queue in observation.queues}
    names, index = np.unique(traces.queue, return_inverse=True)
    columns = {
        "queue": np.array([numbers.get(str(name), -1) for name in names], np.int64)[index],
        "push_ns": traces.push_ns,
        "pop_ns": traces.pop_ns,
    }
    events = int(np.unique(traces.event).size)
    try:
        found = verify_recording(observation, columns, every=every)
    except InputError:  # no trace is of an observed queue
        return Discrepancy(samples=0, discrepancies=0, traces=events)
    return Discrepancy(samples=found.samples, discrepancies=found.discrepancies, traces=events)


def _queue_views(analysis: Analysis, times: Residence, observation: Observation) -> tuple[QueueRow, ...]:
    """Fills are of the time that the pipeline ran; counts are of its whole life, start and end included."""
    views = []
    # What is counted never falls: the most of each queue, in one pass over the samples of all.
    most = {name: np.zeros(1 + max((queue.number for queue in analysis.queues), default=0), np.int64)
            for name in ("in", "out_high", "dropped", "blocked")}  # fmt: skip
    numbers = observation.samples["queue"]
    inside = numbers < len(most["in"])
    for name, counts in most.items():
        np.maximum.at(counts, numbers[inside], observation.samples[name][inside].astype(np.int64))
    for queue in analysis.queues:
        waits = times.waiting.get(queue.name)
        total = {name: int(counts[queue.number]) for name, counts in most.items()}
        views.append(
            QueueRow(
                name=queue.name,
                source=queue.source,
                drain=queue.drain,
                kind=str(queue.kind),
                capacity=queue.capacity,
                samples=queue.samples,
                nonempty=queue.nonempty_samples[0],
                sum_of_fills=queue.sum_of_fills[0],
                fill_mean=queue.mean_fill,
                fill_p50=queue.fill_p50,
                fill_p99=queue.fill_p99,
                fill_max=queue.fill_max,
                full_blocks=total["blocked"],
                events_in=total["in"],
                events_out=total["out_high"],
                drops=total["dropped"],
                little_ns=queue.residence_ns,
                waiting_ns=latency(waits),
                traced_mean_ns=None if waits is None else float(waits.mean()),
            )
        )
    return tuple(views)


def _stage_views(
    analysis: Analysis,
    times: Residence,
    traces: TraceTable,
    stages: Mapping[str, Sequence[str]],
    observation: Observation,
) -> tuple[StageRow, ...]:
    results = {stage.label: stage for stage in analysis.stages}
    hops = traces.end == 0
    views = []
    for kind, instances in stages.items():
        for name in instances:
            result = results.get(name)
            if result is None:
                continue
            waits = (traces.pop_ns - traces.push_ns)[hops & (traces.drain == name)]
            view = _stage_view(result, kind)
            views.append(
                replace(
                    view,
                    events=_events(name, observation),
                    service_ns=latency(times.service.get(name)),
                    waiting_ns=latency(waits),
                )
            )
    return tuple(views)


def _stage_view(result: StageResult, kind: str) -> StageRow:
    return StageRow(
        name=result.label,
        type=kind,
        events=0,
        rate_hz=result.rate_hz,
        utilisation=_on_cpu(result),
        cpu_cores=result.cpu,
        ready=result.ready,
        blocked=result.blocked,
        run_queue=result.run_queue,
    )


def _entered(queues: Sequence[QueueRow]) -> int:
    """Events that came in from outside: into queues whose source takes from none of the others."""
    drains = {queue.drain for queue in queues if queue.drain}
    entered = [queue.events_in for queue in queues if queue.kind != "pool" and queue.source not in drains]
    return sum(entered) or max((queue.events_in for queue in queues), default=0)


def _events(name: str, observation: Observation) -> int:
    for stage in observation.stages:
        if stage.label == name:
            mine = observation.stage_times["events"][observation.stage_times["stage"] == stage.number]
            return int(mine.max(initial=0))
    return 0


def _on_cpu(stage: StageResult) -> float | None:
    """The share of the time that the stage was busy and had a CPU.

    Its busy time is by the wall clock; of the time that its thread wanted to run, the kernel says how much it
    did.
    """
    if stage.utilisation is None or stage.cpu is None or stage.run_queue is None:
        return stage.utilisation
    wanted = stage.cpu + stage.run_queue
    return stage.utilisation if wanted <= 0 else stage.utilisation * stage.cpu / wanted


def _named(label: str | None, stages: Mapping[str, Sequence[str]]) -> str | None:
    """As `analyse` names it; the only instance of a type goes by the type."""
    for kind, instances in stages.items():
        if list(instances) == [label]:
            return kind
    return label


def _cores_used(observation: Observation) -> float | None:
    """CPUs' worth of time that the observed processes used."""
    threads = observation.threads
    if not threads or threads["t_ns"].size == 0:
        return None
    total = 0.0
    begin, end = int(threads["t_ns"].min()), int(threads["t_ns"].max())
    for tid in np.unique(threads["tid"]):
        cpu = threads["cpu_ns"][threads["tid"] == tid]
        total += float(cpu.max()) - float(cpu.min())
    return total / (end - begin) if end > begin else None


def _kind(name: str, stages: Mapping[str, Sequence[str]]) -> str:
    return next((kind for kind, names in stages.items() if name in names), name)


def overloaded(others: Others, cores: int) -> bool:
    """Whether others used so much of the machine that a run must not be believed as it stands."""
    return others.cpus > _FOREIGN * cores


def _disturbed(stages: Sequence[StageRow], cores: int, others: Others) -> str | None:
    """Who took the CPUs that a stage's thread waited for, in words; None where nobody did."""
    waiting = [view for view in stages if view.run_queue is not None]
    if not overloaded(others, cores) or not waiting:
        return None
    worst = max(waiting, key=lambda view: view.run_queue or 0.0)
    if (worst.run_queue or 0.0) < _KEPT_WAITING:
        return None
    return said(Disturbance.HAD_NO_CPU, stage=worst.name, part=worst.run_queue, others=others.took(cores))


def _sentence(
    analysis: Analysis | LineResult,
    limiting: str | None,
    verdict: str,
    disturbed: str | None,
    stages: Sequence[StageRow],
    end_to_end: Latency | None,
    used: float | None,
    cores: int,
    results: Sequence[StageResult] = (),
) -> str:
    if analysis.doubts:
        first = analysis.doubts[0]
        if first.kind is DoubtKind.SOURCE_AS_SLOW and len(analysis.doubts) == 1:
            return said(RunFinding.ALIKE, one=first.where, other=first.other, busiest="", tail="")
        if first.kind is DoubtKind.NEVER_BEHIND and len(analysis.doubts) == 1:
            return said(RunFinding.MAY_BE_AS_SLOW, one=first.where, other=first.other)
        if first.kind is DoubtKind.GOES_ROUND and len(analysis.doubts) == 1:
            return said(RunFinding.GOES_ROUND, events=first.limit)
        return said(RunFinding.CONTRADICTS)
    if verdict == Verdict.STOPPED:
        return said(RunFinding.STOPPED, stage=limiting, why=analysis.evidence[0])
    if verdict == Verdict.POOL:
        why = analysis.evidence[0].replace(f"{limiting} is ", "it is ", 1)
        return said(RunFinding.POOL, pool=limiting, why=why)
    tail = ""
    if end_to_end is not None:
        tail = said(RunFinding.END_TO_END, p50_ns=end_to_end.p50, p99_ns=end_to_end.p99)
    moves = next((one for one in analysis.evidence if kind_of(one) is QueueEvidence.MOVES), None)
    if limiting is not None and verdict == Verdict.STAGE and moves is not None:
        return said(RunFinding.MOVES, stretches=values_of(moves)["stretches"], longest=limiting, tail=tail)
    if limiting is not None and verdict == Verdict.SCHEDULER:
        return said(RunFinding.KEPT_FROM, stage=limiting, tail=tail)
    if limiting is not None:
        mine = [view for view in stages if limiting in (view.name, view.type)]
        busiest = max(mine, key=lambda view: view.ready or 0.0, default=None)
        if busiest is None or (busiest.ready or 0.0) < _READY:
            # What it had in hand was not in front of it, or it held the others up: the evidence says how.
            if analysis.evidence and verdict == Verdict.STAGE:
                why = analysis.evidence[0]
                return said(RunFinding.NAMED_SINCE, stage=limiting, why=why, tail=tail)
            return said(RunFinding.NAMED, stage=limiting, tail=tail)
        service = ""
        if busiest.service_ns:
            service = said(RunFinding.SERVICE_P50, ns=busiest.service_ns.p50)
        known = [one for one in results if one.label == busiest.name and one.service_ns is not None]
        if known and not busiest.service_ns and verdict == Verdict.STAGE:
            service = said(RunFinding.SERVICE_MEAN, ns=known[0].service_ns)
        number = "both" if len(mine) == 2 else f"all {len(mine)}"
        plural = f"{limiting} ({number} instances)" if len(mine) > 1 else limiting
        work = {"ready": busiest.ready, "service": service}
        return said(RunFinding.WORKS, stage=plural, tail=tail, **work)
    share = ""
    if stages and not getattr(analysis, "scarce", False):  # of next to no events no share is told
        top = max(stages, key=lambda view: view.ready or 0.0)
        share = said(RunFinding.BUSIEST, stage=top.name, part=top.ready)
    rest = {"busiest": share, "tail": tail}
    match verdict:
        case Verdict.CPU:
            amount = "" if used is None else said(RunFinding.USED, used=used, cpus=cores)
            return said(RunFinding.CPUS, amount=amount, **rest)
        case Verdict.SCHEDULER if disturbed is not None:
            return said(RunFinding.DISTURBED, disturbed=disturbed, **rest)
        case Verdict.SCHEDULER:
            return said(RunFinding.SCHEDULER, **rest)
        case Verdict.BURST:
            return said(RunFinding.BURSTS, **rest)
        case Verdict.UNKNOWN if (alike := _alike(stages)) is not None:
            return said(RunFinding.ALIKE, one=alike[0], other=alike[1], **rest)
        case Verdict.UNKNOWN:
            return said(RunFinding.UNSUPPORTED, **rest)
        case _:
            return said(RunFinding.NONE, **rest)


def _alike(stages: Sequence[StageRow]) -> tuple[str, str] | None:
    """The two busiest stages, where they are loaded and about as busy as one another."""
    told = sorted((one for one in stages if one.utilisation), key=lambda one: -(one.utilisation or 0.0))
    if len(told) < 2:
        return None
    first, second = (one.utilisation or 0.0 for one in told[:2])
    return (told[0].name, told[1].name) if first >= _LOADED and second >= _NEAR * first else None


def sentence_of_line(line: LineResult, analysis: Analysis) -> str:
    """What limits one of several lines that no queue connects."""
    views = [_stage_view(one, one.label) for one in analysis.stages if one.label in line.stages]
    return _sentence(line, line.limiting_stage, line.verdict, None, views, None, None, 0, analysis.stages)


def _trace_evidence(
    limiting: str | None, stages: Sequence[StageRow], queues: Sequence[QueueRow]
) -> list[str]:
    """What the traces add to the samples."""
    evidence: list[str] = []
    for view in stages:
        if limiting in (view.name, view.type) and view.service_ns is not None and view.service_ns.p50 > 0:
            rates = {"most": 1e9 / view.service_ns.p50, "rate": view.rate_hz}
            service = {"stage": view.name, "p50_ns": view.service_ns.p50, **rates}
            evidence.append(said(RunEvidence.SERVICE, **service))
    served = {view.name: view.service_ns.p50 for view in stages if view.service_ns is not None}
    if limiting is None and served:
        slowest = max(served, key=lambda name: served[name])
        kind = next(view.type for view in stages if view.name == slowest)
        others = [served[view.name] for view in stages if view.name in served and view.type != kind]
        if served[slowest] > _WORTH_NS and served[slowest] > _MOST_OF_IT * max(others, default=0):
            times = {"p50_ns": served[slowest], "others_ns": max(others, default=0)}
            evidence.append(said(RunEvidence.LONGEST_SERVICE, type=kind, **times))
    waiting = [queue for queue in queues if queue.waiting_ns is not None]
    if waiting:
        longest = max(waiting, key=lambda queue: queue.waiting_ns.p50 if queue.waiting_ns else 0)
        assert longest.waiting_ns is not None
        p50 = longest.waiting_ns.p50
        evidence.append(said(RunEvidence.LONGEST_WAIT, queue=longest.name, p50_ns=p50))
    return evidence


def _uncounted(queues: Sequence[QueueRow], outcomes: Sequence[Outcome]) -> list[str]:
    """Messages of the feeds that neither entered a queue nor were counted as lost: then no count holds."""
    summary = next((o.summary for o in outcomes if o.role == "trading" and o.summary is not None), None)
    if summary is None:
        return []
    # Each pass over a file after the first begins with a message of its own, that a new day has come.
    offered = sum(feed["sent"] + max(0, feed["passes"] - 1) for feed in summary["feeds"])
    counted = sum(queue.events_in + queue.drops for queue in queues if queue.source.startswith("exchange"))
    if offered == counted:
        return []
    return [said(RunDoubt.UNCOUNTED, offered=offered, counted=counted)]


def _distrust(
    sampler: SamplerFacts,
    outcomes: Sequence[Outcome],
    cores: int,
    others: Others,
) -> list[str]:
    """Why the run must not be believed as it stands; each with what to do."""
    reasons: list[str] = []
    for outcome in outcomes:
        if outcome.died:
            how = f"by {outcome.signal}" if outcome.signal else f"with status {outcome.status}"
            reasons.append(said(RunDoubt.DIED, role=outcome.role, how=how))
    attempts = sampler.sweeps + sampler.missed
    if sampler.sweeps == 0 or sampler.achieved_p99_ns > _STARVED_PERIODS * sampler.period_ns:
        looked = {"achieved_ns": sampler.achieved_p99_ns, "period_ns": sampler.period_ns}
        reasons.append(said(RunDoubt.STARVED, **looked))
    elif sampler.missed > _STARVED_SHARE * attempts:
        reasons.append(said(RunDoubt.MISSED, missed=sampler.missed, attempts=attempts))
    if overloaded(others, cores):
        reasons.append(said(RunDoubt.OVERLOADED, others=others.took(cores)))
    return reasons
