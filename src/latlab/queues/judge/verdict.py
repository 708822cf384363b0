"""`analyse`: what limits an application, with the evidence."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from latlab.model.queues.analysis import (
    Analysis,
    Doubt,
    LineResult,
    Period,
    QueueResult,
    StageResult,
    Verdict,
)
from latlab.model.queues.observation import Observation, QueueKind
from latlab.queues.judge.gate import doubts_about
from latlab.queues.judge.landmarks import landmarks
from latlab.queues.judge.lines import lines_of, unseen_queues
from latlab.queues.judge.measured import Measured, measure
from latlab.queues.judge.pools import pool_waits
from latlab.queues.judge.queues import queue_results
from latlab.queues.judge.ranking import LOADED, Ranking, rank
from latlab.queues.judge.series import Series, expand, steady_window
from latlab.queues.judge.stages import StageView
from latlab.queues.judge.stopped import Stopped, stopped_stage
from latlab.queues.judge.threads import every_thread
from latlab.queues.judge.types import rank_types, type_of_alike

__all__ = ["analyse"]

_SEGMENTS = 12  # of the timeline
_FEWEST_EVENTS = 300
_FEWEST_SWEEPS = 200
_KEPT_WAITING = 0.25  # of its busy time, a stage without a CPU: then the scheduler may be the finding
_SOME_WAITING = 0.05  # of the time: below this the scheduler changes no judgement
_ALL_THE_TIME = 0.95  # a stage that is busy for so long limits, however much of that it lacked a CPU
_NEARLY_ALL = 0.9  # of the time
_COMES_NEAR = 0.5  # of what the slowest needs
_SATURATED = 0.8  # of all CPUs
_ONE_LOCK = (0.85, 1.15)  # CPUs that all threads under one lock take together …
_ASLEEP = 1.5  # … and how many times as long as it runs, or would, each is busy
_FULL_LEAD = 0.1  # where all CPUs are in use, a stage has to need so much more than any other to limit
_POOL_WAITERS = 0.5  # events in hand that wait for an object, on average
_SMALLEST_BURST = 4  # a queue of fewer is full in passing
_OVERFULL = 0.005  # of the time: then bursts are too large for a queue, though its stage is fast enough


def analyse(observation: Observation, *, exclude: tuple[str, ...] = (), over_time: bool = True) -> Analysis:
    """Name what limits an application.

    Start-up and shutdown are left out where the application marked them. Stages are compared by the share of
    time that they were at work: busy, by their own times where they publish any, else by the counts of the
    queues around them (see `latlab.queues.judge.stages`), but for the time in which the kernel says that
    their threads had no CPU. A name is given where some stage has an event in hand for 80 % of the time, and
    one stands out (see `latlab.queues.judge.ranking`); the confidence says how surely it is the slowest.

    Args:
        exclude: names of queues to leave out of everything.
        over_time: whether to judge each twelfth of the run as well and look for landmarks: that takes most
            of the time.

    Raises:
        NotTrustworthyError: when there is next to nothing to analyse.
    """
    found = _analysed(observation, exclude, over_time)
    return replace(found, landmarks=landmarks(observation, exclude=exclude)) if over_time else found


def _analysed(observation: Observation, exclude: tuple[str, ...], over_time: bool) -> Analysis:
    window = steady_window(observation)
    series = expand(observation, window, exclude=exclude)
    queues = queue_results(series)
    rows = lines_of(series) or [list(range(len(series.queues)))]
    unseen = unseen_queues(series, rows) if len(rows) > 1 else []
    lines = [
        _line(observation, series.of(some), tuple(queues[row] for row in some), window, over_time, unseen)
        for some in rows
    ]
    said = [line for line in lines if line.verdict is not Verdict.UNKNOWN or line.doubts] or lines
    # The one that stopped first, then the first with a name: the lines come by how much moved on them.
    first = min(said, key=lambda line: (line.verdict is not Verdict.STOPPED, line.stage is None))
    waits = {row: ns for line in lines for row, ns in line.pool_waits.items()}
    return Analysis(
        first.stage,
        first.verdict,
        first.confidence,
        tuple(first.evidence),
        first.timeline,
        tuple(replace(queue, pool_wait_ns=waits.get(queue.number)) for queue in queues),
        tuple(stage for line in lines for stage in line.stages),
        *window,
        doubts=tuple(doubt for line in lines for doubt in line.doubts),
        lines=tuple(line.result() for line in lines) if len(lines) > 1 else (),
    )


@dataclass(frozen=True)
class _Judged:
    """What is said of one line."""

    stage: str | None
    verdict: Verdict
    confidence: float
    evidence: list[str]
    timeline: tuple[Period, ...]
    queues: tuple[QueueResult, ...]
    stages: tuple[StageResult, ...]
    doubts: tuple[Doubt, ...] = ()
    pool_waits: dict[int, float] = field(default_factory=dict)  # by the pool's number

    def result(self) -> LineResult:
        return LineResult(
            tuple(queue.name for queue in self.queues),
            tuple(stage.label for stage in self.stages),
            self.stage,
            self.verdict,
            self.confidence,
            tuple(self.evidence),
            self.doubts,
        )


def _line(
    observation: Observation,
    series: Series,
    queues: tuple[QueueResult, ...],
    window: tuple[int, int],
    over_time: bool,
    unseen: list[Doubt],
) -> _Judged:
    """Judge stages and queues that hang together."""
    measured = measure(observation, series, window)
    stages = tuple(_stage_result(measured, i, series, queues) for i in range(len(measured.views)))
    moved = sum(queue.total_out for queue in queues)
    if not measured.views:
        return _Judged(None, Verdict.UNKNOWN, 0.0, [_UNKNOWN_ENDS], (), queues, stages)
    stopped = stopped_stage(observation, series, measured.views)
    if stopped is not None:
        label = measured.views[stopped.index].label
        text = _stopped_sentence(label, stopped, window)
        return _Judged(label, Verdict.STOPPED, 1.0, [text], (), queues, stages)
    if len(series.t_ns) < _FEWEST_SWEEPS or moved < _FEWEST_EVENTS:
        why = f"{len(series.t_ns)} sweeps and {moved} events are too few to tell"
        return _Judged(None, Verdict.UNKNOWN, 0.0, [why], (), queues, stages)
    cpu = _cpu_sentence(observation, window)
    lock = _lock_sentence(observation, measured, window) if cpu is None else None
    if cpu is not None or lock is not None:
        # Who has no CPU is busy for that alone: what counts is what each stage needs of them.
        measured = replace(measured, work=measured.demand)
    loaded = lock is not None or _is_loaded(measured, full=cpu is not None)
    timeline = _timeline(measured, loaded) if over_time else ()
    stage, verdict, confidence, evidence = _judge(measured, timeline, queues, loaded, cpu, lock)
    pool, waits = _pools(measured, series, stage, verdict)
    if pool is not None:
        stage, verdict, evidence = pool[0], Verdict.POOL, [pool[1]]
    several = stage is not None and _moving_sentence(timeline) is not None
    share = _longest(timeline)[1] if several else 1.0
    doubts = doubts_about(stage, verdict, observation, measured, series, queues, share)
    doubts += tuple(doubt for doubt in unseen if doubt.where == stage)
    if doubts:
        stage, verdict, confidence = None, Verdict.UNKNOWN, 0.0
    return _Judged(stage, verdict, confidence, evidence, timeline, queues, stages, doubts, waits)


def _pools(
    measured: Measured, series: Series, stage: str | None, verdict: Verdict
) -> tuple[tuple[str, str] | None, dict[int, float]]:
    """The pool that limits with the sentence that says so, and how long events wait for each pool."""
    worst: tuple[float, str, str] | None = None
    waits: dict[int, float] = {}
    for i, view in enumerate(measured.views):
        has_work = float(measured.ready[i] + measured.blocked[i])
        for wait in pool_waits(view, series):
            queue = series.queues[wait.row]
            if wait.wait_ns is not None:
                waits[queue.number] = wait.wait_ns
            short = wait.empty >= LOADED and has_work >= LOADED
            # A stage that gives its objects back itself is slow by them where others of its threads wait.
            mine = wait.own and (wait.waiting or 0.0) >= _POOL_WAITERS and stage in (view.label, view.type)
            others = not wait.own and verdict in (Verdict.NONE, Verdict.UNKNOWN, Verdict.BURST)
            if short and (mine or others) and (worst is None or wait.empty > worst[0]):
                text = f"{queue.name} is empty {wait.empty:.1%} of the time, while {view.label} has work"
                if wait.waiting is not None:
                    text += f": {wait.waiting:.1f} of those in hand wait for an object on average"
                worst = (wait.empty, queue.name, text)
    return (worst[1:] if worst is not None else None), waits


def _stopped_sentence(label: str, stopped: Stopped, window: tuple[int, int]) -> str:
    state = {True: "its thread has ended", False: "its thread lives and does not run", None: ""}[
        stopped.ended
    ]
    text = (
        f"{label} has taken nothing since {(stopped.since_ns - window[0]) / 1e9:.2f} s into the run, for "
        f"{(window[1] - stopped.since_ns) / 1e9:.2f} s until its end, though {stopped.waiting} events wait"
    )
    return f"{text}: {state}" if state else text


_UNKNOWN_ENDS = (
    "no queue says which stage drains it: name the stages where the queues are made, or with set_drain"
)


def _is_loaded(measured: Measured, *, full: bool) -> bool:
    """Some stage has an event in hand for most of the time: working on it, or unable to put it on.

    Of the time in which its thread had no CPU that is the scheduler's doing, unless it is all of the time, or
    the application itself has all CPUs (`full`).
    """
    if full:
        return float(measured.occupied.max()) >= LOADED
    at_work = measured.occupied - _waiting(measured)
    most = float(measured.occupied.max())
    return most >= LOADED and (float(at_work.max()) >= LOADED or most >= _ALL_THE_TIME)


def _waiting(measured: Measured) -> NDArray[np.float64]:
    """Shape (stages,): the share of the time in which a stage was busy and its thread had no CPU."""
    waited: NDArray[np.float64] = (measured.busy - measured.work).sum(axis=1) / measured.time.sum()
    return waited


def _stage_result(measured: Measured, i: int, series: Series, queues: tuple[QueueResult, ...]) -> StageResult:
    view = measured.views[i]
    taken = sum(queues[row].total_out for row in view.inputs)
    busy, elapsed = float(measured.busy[i].sum()), float(measured.time.sum())
    thread = measured.threads.get(view.label)
    return StageResult(
        label=view.label,
        inputs=tuple(series.queues[row].name for row in view.inputs),
        outputs=tuple(series.queues[row].name for row in view.outputs),
        ready=float(measured.ready[i]),
        starved=float(measured.starved[i]),
        blocked=float(measured.blocked[i]),
        utilisation=busy / elapsed,
        service_ns=busy / taken * 1e9 if taken else None,
        rate_hz=taken / elapsed,
        cpu=thread.cpu if thread else None,
        run_queue=thread.wait if thread else None,
        involuntary_hz=thread.involuntary_hz if thread else None,
    )


def _timeline(measured: Measured, loaded: bool) -> tuple[Period, ...]:
    """The limiting stage of each twelfth of the run; neighbours of one name are joined."""
    blocks = measured.busy.shape[1]
    if blocks < _SEGMENTS * 4:
        return ()
    cuts = np.linspace(0, blocks, _SEGMENTS + 1).astype(int)
    periods: list[Period] = []
    for begin, end in itertools.pairwise(cuts):
        found = rank(measured.work[:, begin:end], measured.per[:, begin:end], loaded=loaded, strict=True)
        stage = None if found.named is None else measured.views[found.named].label
        verdict = str(Verdict.STAGE) if stage else found.reason
        from_ns, to_ns = int(measured.edges[begin]), int(measured.edges[end])
        if periods and (periods[-1].stage, periods[-1].verdict) == (stage, verdict):
            periods[-1] = Period(periods[-1].from_ns, to_ns, stage, verdict)
        else:
            periods.append(Period(from_ns, to_ns, stage, verdict))
    return tuple(periods)


def _judge(
    measured: Measured,
    timeline: tuple[Period, ...],
    queues: tuple[QueueResult, ...],
    loaded: bool,
    cpu: str | None,
    lock: str | None,
) -> tuple[str | None, Verdict, float, list[str]]:
    """The stage, the verdict, its confidence and the evidence.

    Args:
        cpu: the sentence that convicts the machine, where its CPUs are full.
        lock: the sentence that convicts the interpreter's lock.
    """
    ranking = rank(measured.work, measured.per, loaded=loaded)
    evidence = [_ranking_sentence(measured, ranking)]
    named, confidence = ranking.named, ranking.confidence
    moving = _moving_sentence(timeline)
    if named is None and moving is not None:
        # Over the whole run nothing stands out, since it was one stage first and another later.
        longest, confidence = _longest(timeline)
        named = next(i for i, view in enumerate(measured.views) if view.label == longest)
    label, lead = None if named is None else type_of_alike(measured, named), ranking.lead
    alike = rank_types(measured, loaded=loaded)
    if alike is not None and (named is None or label == alike[0]):
        confidence = confidence if named is not None else alike[2].confidence
        label, named, lead = alike[0], alike[1] if named is None else named, alike[2].lead
    if lock is not None:
        evidence.append(lock)
        if named is None or lead < _FULL_LEAD:
            return None, Verdict.UNKNOWN, 1 - ranking.confidence, evidence
    kept = None if lock is not None else _kept_from_running(measured, named if cpu is not None else None)
    if cpu is not None and (
        named is None or kept is not None or lead < _FULL_LEAD or not _busy_enough(measured, named)
    ):
        return None, Verdict.CPU, 1.0 - ranking.confidence / 2, [*evidence, cpu]
    if kept is not None:
        first, confidence = kept
        evidence += _around(measured.views[first], queues)
        evidence += _thread_sentence(measured, first)
        return measured.views[first].label, Verdict.SCHEDULER, confidence, evidence
    doubtful = lock is None and named is not None and not _lacks_little(measured, named)
    if named is None or (doubtful and not _busy_enough(measured, named)):
        return _nothing_named(measured, ranking, evidence, queues)
    view = measured.views[named]
    if label is not None:
        count = sum(other.type == label for other in measured.views)
        evidence.append(
            f"all {count} stages of type {label} are slow alike; {view.label} is the busiest of them"
        )
    evidence += _around(view, queues)
    if moving is not None:
        evidence.append(moving)
    evidence += _thread_sentence(measured, named)
    return label or view.label, Verdict.STAGE, confidence, evidence


def _lacks_little(measured: Measured, named: int) -> bool:
    """A stage's thread has a CPU for most of the time that the stage is busy."""
    waited = float((measured.busy[named] - measured.work[named]).sum())
    return waited < _KEPT_WAITING * float(measured.busy[named].sum())


def _busy_enough(measured: Measured, named: int) -> bool:
    """Whether a stage may be named whose thread lacks a CPU often: it is loaded; and where what stages need
    isn't exactly known, since some that come near it poll, it is busy nearly all the time itself.
    """
    needs = measured.demand.sum(axis=1)
    exact = bool(measured.exact[needs >= _COMES_NEAR * needs[named]].all())
    busy = float(measured.busy[named].sum() / measured.time.sum())
    loaded = bool(measured.occupied[named] >= LOADED)
    return loaded and (exact or busy >= _NEARLY_ALL)


def _nothing_named(
    measured: Measured, ranking: Ranking, evidence: list[str], queues: tuple[QueueResult, ...]
) -> tuple[None, Verdict, float, list[str]]:
    if ranking.reason != "none":
        return None, Verdict.UNKNOWN, 1 - ranking.confidence, evidence
    waiting = _waiting(measured)
    first = int((measured.occupied * (waiting >= _SOME_WAITING)).argmax())
    if measured.occupied[first] >= LOADED and waiting[first] >= _SOME_WAITING:
        text = (
            f"{measured.views[first].label} has an event in hand {measured.occupied[first]:.1%} of the time, "
            f"and its thread no CPU for {waiting[first]:.1%}: no stage is slow, but threads wait"
        )
        return None, Verdict.SCHEDULER, ranking.idle, [*evidence, text]
    burst = _burst_sentence(queues)
    if burst is not None:
        return None, Verdict.BURST, ranking.idle, [*evidence, burst]
    return None, Verdict.NONE, ranking.idle, evidence


def _kept_from_running(measured: Measured, slowest: int | None) -> tuple[int, float] | None:
    """The stage that limits for want of a CPU, and how surely it is the busiest; None where there is none.

    It is busy all the time, and its thread had no CPU for a good part of that.

    Args:
        slowest: a stage that works most, where the threads of the application lack the CPUs that they use
            themselves: then that is its doing.
    """
    waiting = _waiting(measured)
    if waiting.max(initial=0.0) < _SOME_WAITING:
        return None
    loaded = float(measured.occupied.max()) >= _ALL_THE_TIME
    busiest = rank(measured.busy, measured.per, loaded=loaded, strict=True)
    first = busiest.named
    if first is None or first == slowest or measured.occupied[first] < _ALL_THE_TIME:
        return None
    share = float(measured.busy[first].sum() / measured.time.sum())
    return (first, busiest.confidence) if waiting[first] >= _KEPT_WAITING * share else None


def _thread_sentence(measured: Measured, stage: int) -> list[str]:
    thread = measured.threads.get(measured.views[stage].label)
    if thread is None:
        return []
    return [
        f"its thread used {thread.cpu:.0%} of a CPU, was ready without one for {thread.wait:.0%} of the "
        f"time, and was taken off {thread.involuntary_hz:.0f} times a second"
    ]


def _ranking_sentence(measured: Measured, ranking: Ranking) -> str:
    first = ranking.order[0]
    # What is compared may be normalised to the events of the whole; what is said is of the time.
    shares = measured.work.sum(axis=1) / max(float(measured.time.sum()), 1e-12)
    label, share = measured.views[first].label, shares[first]
    text = f"{label} was busy {share:.1%} of the time"
    if len(ranking.order) > 1:
        second = ranking.order[1]
        text += f", {measured.views[second].label} {shares[second]:.1%}"
    how = "its own times" if label in measured.own else "the counts around it"
    if measured.work is measured.demand:
        text, how = text.replace(" was busy ", " needs a CPU ", 1), "the CPU time of its thread"
    elif _waiting(measured)[first] > 0:
        how += ", less the time that its thread had no CPU"
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
    drains = {queue.drain for queue in queues if queue.drain}
    hurt = [
        queue
        for queue in queues
        if queue.kind != QueueKind.POOL
        and queue.source != queue.drain
        and (queue.dropped or (queue.full >= _OVERFULL and _rose(queue, drains)))
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


def _rose(queue: QueueResult, drains: set[str]) -> bool:
    """An input of the line was low for half of the time, and rose above what its queue holds.

    What fills a queue further back is a stage; and round a circle, the window of what may be under way.
    """
    return (
        queue.capacity >= _SMALLEST_BURST
        and queue.fill_p50 <= queue.capacity / 2
        and queue.source not in drains
    )


def _cpu_sentence(observation: Observation, window: tuple[int, int]) -> str | None:
    """The sentence that convicts the machine, or None: the application's threads use the CPUs, and wait for
    them.
    """
    shares = every_thread(observation, window)
    if not shares or not observation.cpus:
        return None
    used, waited = sum(s.cpu for s in shares), sum(s.wait for s in shares)
    if used < _SATURATED * observation.cpus or waited < _KEPT_WAITING:
        return None
    return (
        f"its threads use {used:.2f} of {observation.cpus} CPUs, and {waited:.2f} more would run if they had "
        f"one: the machine is full, and a faster stage would only pass its CPU on"
    )


def _lock_sentence(observation: Observation, measured: Measured, window: tuple[int, int]) -> str | None:
    """The sentence that convicts the interpreter's lock, or None.

    The threads of one Python process take one CPU together, and the stage that needs most of it is busy for
    much longer than it runs or waits for a CPU: it sleeps until it gets the lock.
    """
    python = all(queue.of_python for queue in observation.queues if queue.drain)
    if len(observation.processes) != 1 or not python:
        return None
    used = sum(shares.cpu for shares in every_thread(observation, window))
    low, high = _ONE_LOCK
    first = int(measured.demand.sum(axis=1).argmax())
    thread = measured.threads.get(measured.views[first].label)
    if not low <= used <= high or thread is None or not measured.exact.all():
        return None
    busy = float(measured.busy[first].sum() / measured.time.sum())
    if busy < _ASLEEP * (thread.cpu + thread.wait):
        return None
    return (
        f"its threads use {used:.2f} CPUs together; {measured.views[first].label}, which needs most of them, "
        f"is busy {busy:.0%} of the time and runs for {thread.cpu:.0%}: they wait for the interpreter's lock"
    )


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
