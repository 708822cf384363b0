"""`analyse`: what limits an application, with the evidence.

Over 400 lines: one judgement, each of whose rules may overrule those before it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import numpy as np

from latlab.model.evidence.queues import QueueEvidence
from latlab.model.evidence.said import said
from latlab.model.queues.analysis import (
    Analysis,
    Doubt,
    DoubtKind,
    LineResult,
    Period,
    QueueResult,
    SocketResult,
    StageResult,
    Verdict,
)
from latlab.model.queues.observation import Observation
from latlab.queues.judge.gate import BACKED_UP, SMALL, doubts_about
from latlab.queues.judge.lines import lines_of, unseen_queues
from latlab.queues.judge.loops import loop_holder
from latlab.queues.judge.measures.landmarks import landmarks
from latlab.queues.judge.measures.measured import Measured, measure
from latlab.queues.judge.measures.queues import queue_results
from latlab.queues.judge.measures.series import Series, expand, steady_window
from latlab.queues.judge.measures.stages import StageView
from latlab.queues.judge.measures.types import rank_types, type_of_alike
from latlab.queues.judge.pools import pool_by_itself, pool_that_limits
from latlab.queues.judge.ranking import LOADED, Ranking, rank
from latlab.queues.judge.sentences import (
    around,
    burst_sentence,
    cpu_sentence,
    lock_sentence,
    longest_period,
    moving_sentence,
    ranking_sentence,
    stopped_sentence,
    thread_sentence,
    without_cpu,
)
from latlab.queues.judge.sockets import overrun, socket_results
from latlab.queues.judge.stopped import stopped_stage

__all__ = ["analyse"]

_SEGMENTS = 12  # of the timeline
_FEWEST_EVENTS = 300
_FEWEST_SWEEPS = 200
_KEPT_WAITING = 0.25  # of its busy time, a stage without a CPU: then the scheduler may be the finding
_SOME_WAITING = 0.05  # of the time: below this the scheduler changes no judgement
_ALL_THE_TIME = 0.95  # a stage that is busy for so long limits, however much of that it lacked a CPU
_NEARLY_ALL = 0.9  # of the time
_COMES_NEAR = 0.5  # of what the slowest needs
_HARDLY = 0.02  # of the time
_FULL_LEAD = 0.1  # where all CPUs are in use, a stage has to need so much more than any other to limit


def analyse(observation: Observation, *, exclude: tuple[str, ...] = (), over_time: bool = True) -> Analysis:
    """Name what limits an application.

    Start-up and shutdown are left out where the application marked them. Stages are compared by the share of
    time that they were at work: busy, by their own times where they publish any, else by the counts of the
    queues around them (see `latlab.queues.judge.measures.stages`), but for the time in which the kernel says
    that their threads had no CPU. A name is given where some stage has an event in hand for 80 % of the time,
    and one stands out (see `latlab.queues.judge.ranking`); the confidence says how surely it is the slowest.

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
    sockets = socket_results(observation, window)
    lines = []
    for some in rows:
        part, of_line, stretch = series.of(some), tuple(queues[row] for row in some), window
        lived = np.flatnonzero(part.seen.any(axis=0))
        if len(rows) > 1 and len(lived) < (1 - _HARDLY) * len(part.t_ns) and len(lived) >= 2:
            # An application that came later, or ended before another, is judged by its own time.
            part = part.cut(slice(int(lived[0]), int(lived[-1]) + 1))
            stretch, of_line = (int(part.t_ns[0]), int(part.t_ns[-1]) + 1), queue_results(part)
        judged = _line(observation, part, of_line, stretch, over_time, unseen, sockets)
        lines.append(replace(judged, window=stretch))
    lines = _explained(lines)
    said = [line for line in lines if line.verdict is not Verdict.UNKNOWN or line.doubts] or lines
    # The one that stopped first, then the first with a name: the lines come by how much moved on them.
    first = min(said, key=lambda line: (line.verdict is not Verdict.STOPPED, line.stage is None))
    waits = {row: ns for line in lines for row, ns in line.pool_waits.items()}
    # A pool names types of stages, so it hangs on no line; by itself it is one only where it says something.
    lines = [line for line in lines if line.stages or line.verdict is not Verdict.UNKNOWN] or lines
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
        sockets=sockets,
        scarce=first.scarce,
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
    scarce: bool = False
    window: tuple[int, int] = (0, 0)

    def result(self) -> LineResult:
        return LineResult(
            tuple(queue.name for queue in self.queues),
            tuple(stage.label for stage in self.stages),
            self.stage,
            self.verdict,
            self.confidence,
            tuple(self.evidence),
            self.doubts,
            *self.window,
        )


def _explained(lines: list[_Judged]) -> list[_Judged]:
    """The same without the doubts about a stage that waits for what another line does, where that is named.

    A task that hands its event to an executor and waits for the result is at work all the while; who limits
    it is the executor's stage, or none that is seen.
    """
    feeds = {
        queue.source: line.stage
        for line in lines
        if line.verdict is Verdict.STAGE and not line.doubts
        for queue in line.queues
    }
    found = []
    for line in lines:
        waits = [
            doubt for doubt in line.doubts if doubt.kind is DoubtKind.UNSEEN_QUEUE and doubt.other in feeds
        ]
        if waits and len(waits) == len(line.doubts):
            goes = {"stage": waits[0].where, "limits": feeds[waits[0].other]}
            text = said(QueueEvidence.GOES_ON, **goes)
            line = replace(line, doubts=(), evidence=[text])
        found.append(line)
    return found


def _line(
    observation: Observation,
    series: Series,
    queues: tuple[QueueResult, ...],
    window: tuple[int, int],
    over_time: bool,
    unseen: list[Doubt],
    sockets: tuple[SocketResult, ...],
) -> _Judged:
    """Judge stages and queues that hang together."""
    measured = measure(observation, series, window)
    stages = tuple(_stage_result(measured, i, series, queues) for i in range(len(measured.views)))
    moved = sum(queue.total_out for queue in queues)
    if not measured.views:
        alone = pool_by_itself(observation, series, window)
        none = _Judged(
            None, Verdict.UNKNOWN, 0.0, [said(QueueEvidence.NO_DRAIN)], (), queues, alone.users,
            pool_waits=alone.waits,
        )  # fmt: skip
        if not alone.name:
            return none
        told, limits = [alone.sentence], (alone.name, Verdict.POOL, alone.confidence)
        return replace(none, stage=limits[0], verdict=limits[1], confidence=limits[2], evidence=told)
    stopped = stopped_stage(observation, series, measured.views)
    if stopped is not None:
        label = measured.views[stopped.index].label
        text = stopped_sentence(label, stopped, window)
        return _Judged(label, Verdict.STOPPED, 1.0, [text], (), queues, stages)
    if len(series.t_ns) < _FEWEST_SWEEPS or moved < _FEWEST_EVENTS:
        why = said(QueueEvidence.TOO_FEW, sweeps=len(series.t_ns), events=moved)
        return _Judged(None, Verdict.UNKNOWN, 0.0, [why], (), queues, stages, scarce=True)
    cpu = cpu_sentence(observation, window)
    lock = lock_sentence(observation, measured, window) if cpu is None else None
    if cpu is not None or lock is not None:
        # Who has no CPU is busy for that alone: what counts is what each stage needs of them.
        measured = replace(measured, work=measured.demand)
    loaded = lock is not None or _is_loaded(measured, full=cpu is not None)
    timeline = _timeline(measured, loaded) if over_time else ()
    stage, verdict, confidence, evidence = _judge(measured, timeline, queues, loaded, cpu, lock)
    loop = loop_holder(observation, measured, series)
    if isinstance(loop, Doubt):
        return _Judged(None, Verdict.UNKNOWN, 0.0, evidence, timeline, queues, stages, (loop,))
    if loop is not None:
        stage, verdict, confidence, evidence = loop[0], Verdict.STAGE, loop[2], [loop[1]]
    pool, waits = pool_that_limits(observation, measured, series, stage, verdict)
    if pool is not None:
        stage, verdict, evidence, confidence = pool[0], Verdict.POOL, [pool[1]], pool[2]
    ends = {end for queue in series.queues for end in (*queue.sources, queue.drain) if end}
    over = overrun(sockets, ends) if verdict in (Verdict.NONE, Verdict.BURST) else None
    if over is not None:
        socket, slow, text = over
        stage, verdict = (socket.drain, Verdict.STAGE) if slow else (None, Verdict.BURST)
        confidence, evidence = (1.0 if slow else confidence), [text, *evidence]
    several = stage is not None and moving_sentence(timeline) is not None
    share = longest_period(timeline)[1] if several else 1.0
    doubts = doubts_about(
        None if loop is not None else stage, verdict, observation, measured, series, queues, share, sockets
    )
    doubts += tuple(doubt for doubt in unseen if doubt.where == stage)
    if doubts:
        stage, verdict, confidence = None, Verdict.UNKNOWN, 0.0
    return _Judged(stage, verdict, confidence, evidence, timeline, queues, stages, doubts, waits)


def _is_loaded(measured: Measured, *, full: bool) -> bool:
    """Some stage has an event in hand for most of the time: working on it, or unable to put it on.

    Of the time in which its thread had no CPU that is the scheduler's doing, unless it is all of the time, or
    the application itself has all CPUs (`full`).
    """
    if full:
        return float(measured.occupied.max()) >= LOADED
    at_work = measured.occupied - without_cpu(measured)
    most = float(measured.occupied.max())
    return most >= LOADED and (float(at_work.max()) >= LOADED or most >= _ALL_THE_TIME)


def _stage_result(measured: Measured, i: int, series: Series, queues: tuple[QueueResult, ...]) -> StageResult:
    view = measured.views[i]
    # Of a join's inputs each holds a part of the same event.
    taken = sum(queues[row].total_out for row in view.inputs) // (len(view.inputs) if view.joins else 1)
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
        # Each of several threads serves its own events: what one takes is the time of all of them.
        service_ns=float(measured.served(i).sum()) / taken * 1e9 if taken else None,
        rate_hz=taken / elapsed,
        cpu=thread.cpu if thread else None,
        run_queue=thread.wait if thread else None,
        involuntary_hz=thread.involuntary_hz if thread else None,
        in_hand=None if view.held is None else float(view.held @ series.weights / max(series.seconds, 1e-12)),
    )


def _timeline(measured: Measured, loaded: bool) -> tuple[Period, ...]:
    """The limiting stage of each twelfth of the run; neighbours of one name are joined."""
    blocks = measured.busy.shape[1]
    if blocks < _SEGMENTS * 4:
        return ()
    cuts = np.linspace(0, blocks, _SEGMENTS + 1).astype(int)
    periods: list[Period] = []
    for begin, end in itertools.pairwise(cuts):
        found = rank(
            measured.work[:, begin:end],
            measured.per[:, begin:end],
            loaded=loaded,
            strict=True,
            error=measured.error,
        )
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
    ranking = rank(measured.work, measured.per, loaded=loaded, error=measured.error)
    evidence = [ranking_sentence(measured, ranking)]
    if ranking.close:
        leads = measured.views[ranking.order[0]].label
        evidence.append(said(QueueEvidence.LEADS, stage=leads, lead=ranking.lead))
    named, confidence = ranking.named, ranking.confidence
    moving = moving_sentence(timeline)
    if named is None and moving is not None:
        # Over the whole run nothing stands out, since it was one stage first and another later.
        longest, confidence = longest_period(timeline)
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
    kept = None
    if lock is None:
        kept = _kept_from_running(measured, named if cpu is not None else None, queues)
    if cpu is not None and (
        named is None or kept is not None or lead < _FULL_LEAD or not _busy_enough(measured, named)
    ):
        return None, Verdict.CPU, 1.0 - ranking.confidence / 2, [*evidence, cpu]
    if kept is not None:
        first, confidence = kept
        evidence += around(measured.views[first], queues)
        evidence += thread_sentence(measured, first)
        return measured.views[first].label, Verdict.SCHEDULER, confidence, evidence
    doubtful = lock is None and named is not None and not _lacks_little(measured, named)
    if named is None or (doubtful and not _busy_enough(measured, named)):
        return _nothing_named(measured, ranking, evidence, queues)
    view = measured.views[named]
    if label is not None:
        number = sum(other.type == label for other in measured.views)
        every = "both" if number == 2 else f"all {number}"
        evidence.append(said(QueueEvidence.EQUALLY_SLOW, every=every, type=label, stage=view.label))
    evidence += around(view, queues)
    if moving is not None:
        evidence.append(moving)
    evidence += thread_sentence(measured, named)
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
    waiting = without_cpu(measured)
    first = int((measured.occupied * (waiting >= _SOME_WAITING)).argmax())
    if measured.occupied[first] >= LOADED and waiting[first] >= _SOME_WAITING:
        shares = {"occupied": float(measured.occupied[first]), "waiting": float(waiting[first])}
        text = said(QueueEvidence.KEPT_WAITING, stage=measured.views[first].label, **shares)
        return None, Verdict.SCHEDULER, ranking.idle, [*evidence, text]
    burst = burst_sentence(queues)
    if burst is not None:
        return None, Verdict.BURST, ranking.idle, [*evidence, burst]
    return None, Verdict.NONE, ranking.idle, evidence


def _kept_from_running(
    measured: Measured, slowest: int | None, queues: tuple[QueueResult, ...]
) -> tuple[int, float] | None:
    """The stage that limits for want of a CPU, and how surely it is the busiest; None where there is none.

    It is busy all the time, or for most of it while what is in front of it stands full, and its thread had no
    CPU for a good part of that.

    Args:
        slowest: a stage that works most, where the threads of the application lack the CPUs that they use
            themselves: then that is its doing.
    """
    waiting = without_cpu(measured)
    if waiting.max(initial=0.0) < _SOME_WAITING:
        return None
    # Who is not woken while it has no CPU says that it waits; its queues say that there is work, and room.
    occupied = np.maximum(measured.occupied, measured.ready)
    most = np.array([LOADED if _backed_up(view, queues) else _ALL_THE_TIME for view in measured.views])
    loaded = bool((occupied >= most).any())
    busiest = rank(measured.busy, measured.per, loaded=loaded, strict=True, error=measured.error)
    first = busiest.named
    if first is None or first == slowest or occupied[first] < most[first]:
        return None
    share = float(measured.busy[first].sum() / measured.time.sum())
    return (first, busiest.confidence) if waiting[first] >= _KEPT_WAITING * share else None


def _backed_up(view: StageView, queues: tuple[QueueResult, ...]) -> bool:
    """An input of a stage, that is not a small queue, is full for long: who fills it is faster."""
    return any(queues[row].capacity >= SMALL and queues[row].full >= BACKED_UP for row in view.inputs)
