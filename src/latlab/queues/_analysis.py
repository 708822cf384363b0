"""`analyse`: what limits an application, with the evidence."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from latlab.model.queue_analysis import Analysis, Period, QueueResult, StageResult, Verdict
from latlab.model.queues import Observation, QueueKind
from latlab.queues._analysis_limit import LOADED, Ranking, rank
from latlab.queues._analysis_measure import Measured, measure
from latlab.queues._analysis_queues import queue_results
from latlab.queues._analysis_series import Series, expand, steady_window
from latlab.queues._analysis_stages import StageView
from latlab.queues._analysis_threads import ThreadShares
from latlab.queues._analysis_types import rank_types, type_of_alike
from latlab.queues._landmarks import landmarks

__all__ = ["analyse"]

_SEGMENTS = 12  # of the timeline
_FEWEST_EVENTS = 300
_FEWEST_SWEEPS = 200
_KEPT_WAITING = (
    0.25  # of the time that it would work, a thread without a CPU: then the scheduler is the finding
)
_SATURATED = 0.9  # of all CPUs
_OVERFULL = 0.005  # of the time: then bursts are too large for a queue, though its stage is fast enough


def analyse(observation: Observation, *, exclude: tuple[str, ...] = (), over_time: bool = True) -> Analysis:
    """Name what limits an application.

    Start-up and shutdown are left out where the application marked them. Stages are compared by the share of
    time that they were busy: by their own times where they publish any, else by the counts of the queues
    around them (see `latlab.queues._analysis_stages`). A name is given where some stage has an event in
    hand for 80 % of the time, and the busiest leads in at least half of the resampled runs; the confidence
    says in how many.

    Args:
        exclude: names of queues to leave out of everything.
        over_time: whether to judge each twelfth of the run as well, which takes most of the time.

    Raises:
        NotTrustworthyError: when there is next to nothing to analyse.
    """
    found = _analysed(observation, exclude, over_time)
    return replace(found, landmarks=landmarks(observation, exclude=exclude))


def _analysed(observation: Observation, exclude: tuple[str, ...], over_time: bool) -> Analysis:
    window = steady_window(observation)
    series = expand(observation, window, exclude=exclude)
    queues = queue_results(series)
    measured = measure(observation, series, window)
    stages = tuple(_stage_result(measured, i, series, queues) for i in range(len(measured.views)))
    moved = sum(queue.total_out for queue in queues)
    if not measured.views:
        return _answer(None, Verdict.UNKNOWN, 0.0, [_UNKNOWN_ENDS], (), queues, stages, window)
    if len(series.t_ns) < _FEWEST_SWEEPS or moved < _FEWEST_EVENTS:
        why = f"{len(series.t_ns)} sweeps and {moved} events are too few to tell"
        return _answer(None, Verdict.UNKNOWN, 0.0, [why], (), queues, stages, window)
    ranking = rank(measured.busy, measured.per, loaded=_is_loaded(measured))
    timeline = _timeline(measured) if over_time else ()
    stage, verdict, confidence, evidence = _judge(observation, measured, ranking, timeline, queues)
    return _answer(stage, verdict, confidence, evidence, timeline, queues, stages, window)


_UNKNOWN_ENDS = (
    "no queue says which stage drains it: name the stages where the queues are made, or with set_drain"
)


def _answer(
    stage: str | None,
    verdict: Verdict,
    confidence: float,
    evidence: list[str],
    timeline: tuple[Period, ...],
    queues: tuple[QueueResult, ...],
    stages: tuple[StageResult, ...],
    window: tuple[int, int],
) -> Analysis:
    return Analysis(stage, verdict, confidence, tuple(evidence), timeline, queues, stages, *window)


def _is_loaded(measured: Measured) -> bool:
    """Some stage has an event in hand for most of the time: working on it, or unable to put it on."""
    return float(measured.occupied.max()) >= LOADED


def _stage_result(measured: Measured, i: int, series: Series, queues: tuple[QueueResult, ...]) -> StageResult:
    view = measured.views[i]
    taken = sum(queues[row].total_out for row in view.inputs)
    busy = float(measured.busy[i].sum())
    thread = measured.threads.get(view.label)
    return StageResult(
        label=view.label,
        inputs=tuple(series.queues[row].name for row in view.inputs),
        outputs=tuple(series.queues[row].name for row in view.outputs),
        ready=float(measured.ready[i]),
        starved=float(measured.starved[i]),
        blocked=float(measured.blocked[i]),
        utilisation=busy / float(measured.time.sum()),
        service_ns=busy / taken * 1e9 if taken else None,
        rate_hz=taken / series.seconds,
        cpu=thread.cpu if thread else None,
        run_queue=thread.wait if thread else None,
        involuntary_hz=thread.involuntary_hz if thread else None,
    )


def _timeline(measured: Measured) -> tuple[Period, ...]:
    """The limiting stage of each twelfth of the run; neighbours of one name are joined."""
    blocks = measured.busy.shape[1]
    if blocks < _SEGMENTS * 4:
        return ()
    cuts = np.linspace(0, blocks, _SEGMENTS + 1).astype(int)
    periods: list[Period] = []
    loaded = _is_loaded(measured)
    for begin, end in itertools.pairwise(cuts):
        found = rank(measured.busy[:, begin:end], measured.per[:, begin:end], loaded=loaded, strict=True)
        stage = None if found.named is None else measured.views[found.named].label
        verdict = str(Verdict.STAGE) if stage else found.reason
        from_ns, to_ns = int(measured.edges[begin]), int(measured.edges[end])
        if periods and (periods[-1].stage, periods[-1].verdict) == (stage, verdict):
            periods[-1] = Period(periods[-1].from_ns, to_ns, stage, verdict)
        else:
            periods.append(Period(from_ns, to_ns, stage, verdict))
    return tuple(periods)


def _judge(
    observation: Observation,
    measured: Measured,
    ranking: Ranking,
    timeline: tuple[Period, ...],
    queues: tuple[QueueResult, ...],
) -> tuple[str | None, Verdict, float, list[str]]:
    evidence = [_ranking_sentence(measured, ranking)]
    named = ranking.named
    confidence = ranking.confidence
    moving = _moving_sentence(timeline)
    if named is None and moving is not None:
        # Over the whole run nothing stands out, since it was one stage first and another later.
        longest, confidence = _longest(timeline)
        named = next(i for i, view in enumerate(measured.views) if view.label == longest)
    cpu = _cpu_sentence(observation, measured)
    label = None if named is None else type_of_alike(measured, named)
    if named is None and (alike := rank_types(measured, loaded=_is_loaded(measured))) is not None:
        label, named, of_types = alike
        confidence = of_types.confidence
    if named is None:
        if cpu is not None:
            return None, Verdict.CPU, 1.0 - ranking.confidence / 2, [*evidence, cpu]
        burst = _burst_sentence(queues)
        if ranking.reason == "none":
            if burst is not None:
                return None, Verdict.BURST, ranking.idle, [*evidence, burst]
            return None, Verdict.NONE, ranking.idle, evidence
        return None, Verdict.UNKNOWN, 1 - ranking.confidence, evidence
    view = measured.views[named]
    if label is not None:
        count = sum(other.type == label for other in measured.views)
        evidence.append(
            f"all {count} stages of type {label} are slow alike; {view.label} is the busiest of them"
        )
    evidence += _around(view, queues)
    if moving is not None:
        evidence.append(moving)
    thread = measured.threads.get(view.label)
    if thread is not None:
        evidence.append(
            f"its thread used {thread.cpu:.0%} of a CPU, was ready without one for {thread.wait:.0%} of the "
            f"time, and was taken off {thread.involuntary_hz:.0f} times a second"
        )
        if thread.wait > _KEPT_WAITING * (thread.cpu + thread.wait) and not _works_most(measured, view.label):
            if cpu is not None:
                return None, Verdict.CPU, confidence, [*evidence, cpu]
            return label or view.label, Verdict.SCHEDULER, confidence, evidence
    return label or view.label, Verdict.STAGE, confidence, evidence


def _ranking_sentence(measured: Measured, ranking: Ranking) -> str:
    first = ranking.order[0]
    label, share = measured.views[first].label, ranking.busy[first]
    text = f"{label} was busy {share:.1%} of the time"
    if len(ranking.order) > 1:
        second = ranking.order[1]
        text += f", {measured.views[second].label} {ranking.busy[second]:.1%}"
    how = "its own times" if label in measured.own else "the counts around it"
    chance = "less than 0.1%" if ranking.by_chance < 0.001 else f"{ranking.by_chance:.1%}"
    return f"{text} (by {how}); equal stages would lead by so much in {chance} of such runs"


def _around(view: StageView, queues: tuple[QueueResult, ...]) -> list[str]:
    sentences = []
    for row in view.inputs:
        queue = queues[row]
        text = f"its input {queue.name} held {queue.mean_fill:.1f} events on average"
        if queue.capacity:
            text += f" of {queue.capacity}, and was full {queue.full:.1%} of the time"
        elif queue.kind == QueueKind.UNBOUNDED:
            text += f", and grew by {queue.growth_hz:.0f} a second"
        sentences.append(text)
    for row in view.outputs:
        queue = queues[row]
        filled = queue.nonempty_samples[0] / max(1, queue.samples)
        sentences.append(f"its output {queue.name} was empty {1 - filled:.1%} of the time")
    chain = _backpressure(view, queues)
    if len(chain) > 1:
        sentences.append(f"the backpressure reaches back over {', '.join(chain)}")
    return sentences[:6]


def _backpressure(view: StageView, queues: tuple[QueueResult, ...]) -> list[str]:
    """Queues in front of a stage, and in front of those who fill them, that are full for 5 % of the time."""
    chain: list[str] = []
    labels = [view.label]
    while labels:
        label = labels.pop(0)
        for queue in queues:
            if queue.drain == label and queue.full >= 0.05 and queue.name not in chain:
                chain.append(queue.name)
                labels.append(queue.source)
    return chain


def _burst_sentence(queues: tuple[QueueResult, ...]) -> str | None:
    hurt = [
        queue
        for queue in queues
        if queue.kind != QueueKind.POOL and (queue.dropped or queue.full >= _OVERFULL)
    ]
    if not hurt:
        return None
    worst = max(hurt, key=lambda queue: (queue.dropped, queue.blocked, queue.full))
    effect = (
        f"{worst.dropped} events were dropped"
        if worst.dropped
        else f"it was full {worst.full:.2%} of the time"
    )
    return (
        f"no stage is busy for long, and yet {worst.name} overflows: {effect}; its bursts are larger than "
        f"its capacity of {worst.capacity} (mean fill {worst.mean_fill:.1f}, p99 {worst.fill_p99})"
    )


def _cpu_sentence(observation: Observation, measured: Measured) -> str | None:
    """The sentence that convicts the machine, or None: all CPUs in use, and threads that wait for one."""
    shares = list(thread_shares_of_all(measured))
    if not shares or not observation.cpus:
        return None
    used, waited = sum(s.cpu for s in shares), sum(s.wait for s in shares)
    if used < _SATURATED * observation.cpus or waited < _KEPT_WAITING:
        return None
    return (
        f"its threads use {used:.2f} of {observation.cpus} CPUs, and {waited:.2f} more would run if they had "
        f"one: the machine is full, and a faster stage would only pass its CPU on"
    )


def thread_shares_of_all(measured: Measured) -> list[ThreadShares]:
    """Each thread once, also where several stages share it."""
    return list({shares.tid: shares for shares in measured.threads.values()}.values())


def _works_most(measured: Measured, label: str) -> bool:
    """The stage is slow by its own work, whatever the scheduler does: it computes more than any other, by a
    fifth.
    """
    cpu = {name: shares.cpu for name, shares in measured.threads.items()}
    others = [value for name, value in cpu.items() if name != label]
    return cpu[label] >= 0.5 and all(cpu[label] >= 1.2 * value for value in others)


def _longest(timeline: tuple[Period, ...]) -> tuple[str, float]:
    times: dict[str, int] = {}
    for period in timeline:
        if period.stage is not None:
            times[period.stage] = times.get(period.stage, 0) + period.to_ns - period.from_ns
    total = sum(period.to_ns - period.from_ns for period in timeline)
    label = max(times, key=lambda name: times[name])
    return label, times[label] / total


def _moving_sentence(timeline: tuple[Period, ...]) -> str | None:
    """The sentence about a bottleneck that moves; None where it does not.

    It moves where two stages each limit for at least two twelfths of the run.
    """
    total = sum(period.to_ns - period.from_ns for period in timeline)
    times: dict[str, int] = {}
    for period in timeline:
        if period.stage is not None:
            times[period.stage] = times.get(period.stage, 0) + period.to_ns - period.from_ns
    long = [stage for stage, time in times.items() if time >= 1.9 * total / _SEGMENTS]
    if len(long) < 2:
        return None
    start = timeline[0].from_ns
    stretches = ", ".join(
        f"{period.stage} from {(period.from_ns - start) / 1e9:.2f} s to {(period.to_ns - start) / 1e9:.2f} s"
        for period in timeline
        if period.stage is not None
    )
    return f"the bottleneck moves: {stretches}"
