"""What `latlab diagnose` answers: where the latency comes from, and what fixing it would buy.

Over 400 lines: one JSON document, whose parts stand in the order in which it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from latlab.model.diagnosis.pipeline import Latency
from latlab.model.evidence.said import data_of, values_of
from latlab.model.queues.analysis import Doubt, Verdict
from latlab.model.queues.tail import Tail
from latlab.model.requests import Requests
from latlab.model.threads import LimitKind, ThreadFindings

__all__ = [
    "Answer",
    "AnswerComparison",
    "AnswerLine",
    "Applied",
    "AppliedRow",
    "Budget",
    "Change",
    "Floor",
    "Forecast",
    "ForecastPoint",
    "Interval",
    "Objective",
    "Part",
    "Step",
    "Unknown",
]

SCHEMA = 1  # of the JSON documents; versions: 1, the present one

# Of the queues' verdicts that name no stage, what they are in the words of what threads tell.
_KINDS: dict[str, LimitKind] = {
    Verdict.CPU: LimitKind.CPU,
    Verdict.SCHEDULER: LimitKind.CPU,
    Verdict.NONE: LimitKind.LOAD,
    Verdict.BURST: LimitKind.LOAD,
}
PartKind = Literal["floor", "service", "waiting", "unexplained"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its 95 % interval; the bounds are None where the runs don't carry one.

    Attributes:
        value: the estimate.
        low, high: of the interval.
    """

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def bounds(self) -> tuple[float, float | None, float | None]:
        """As it is worded: the value, and both ends."""
        return self.value, self.low, self.high


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the diagnosis.

    Attributes:
        state: done, or skipped.
        detail: what it found, or why it was skipped.
        name: of the step.
        seconds: that it took.
    """

    name: str
    state: Literal["done", "skipped"]
    seconds: float
    detail: str


@dataclass(frozen=True, slots=True)
class Floor:
    """What the machine takes by itself, before the application runs.

    Attributes:
        cpus: that were measured.
        share: of the time that went into gaps, mean over the CPUs.
        worst_ns: the longest gap.
        sources: who filled the gaps, in words, the largest first.
        seconds: that it was measured for.
        warnings: what makes that doubtful.
    """

    cpus: tuple[int, ...]
    seconds: float
    share: float
    worst_ns: float
    sources: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the budget.

    Attributes:
        where: the queue of a waiting, the stage of a service, "machine" of the floor; else "".
        ns: mean over the events of the budget.
        kind: the machine's floor, a service, a waiting, or what the others leave unexplained.
    """

    kind: PartKind
    where: str
    ns: float


@dataclass(frozen=True, slots=True)
class Budget:
    """Where the time of an event at a quantile goes; the parts sum to the total.

    Attributes:
        quantile: of end-to-end latency, as 0.999; None of the mean, by Little's law from samples alone.
        total_ns: that quantile, or the mean.
        events: traced events around it whose times were averaged; of the mean, those that entered.
        parts: in the order of the event's path.
    """

    quantile: float | None
    total_ns: float
    events: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class ForecastPoint:
    """The system with the stage made faster by this share.

    Attributes:
        speedup: of the part of the service that can be stubbed, from 0 to 1; None: the unmodified system.
        achieved: the speed-up of the whole service that the traces show (median), or None.
        runs: how many; 0 in a model.
        rate_hz: events through the stage a second, at the input's own pace; of a model, through the pipeline.
        capacity_hz: the same with the input as fast as the pipeline takes it; None where not measured.
        time_ns: of the whole command, where one of one's own is studied.
        p50_ns, p99_ns, p99_9_ns: of end-to-end latency at the input's own pace.
        limits: what limited these runs: a stage's name, or a verdict.
    """

    speedup: float | None
    achieved: float | None
    runs: int
    rate_hz: Interval | None = None
    capacity_hz: Interval | None = None
    p50_ns: Interval | None = None
    p99_ns: Interval | None = None
    p99_9_ns: Interval | None = None
    limits: str | None = None
    time_ns: Interval | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """What making one stage faster would buy.

    Attributes:
        method: "stub": measured on the running system with the stage stubbed; "model": computed by a queue
            simulation fitted to the observation, "schedule": by a simulation of what the threads were seen to
            do; which are no measurements.
        kind: of bottleneck: total (every speed-up pays), limited (up to the knee), none; open: how far it
            pays is not known, and every rate is a lower bound (its interval has no upper one).
        service_ns: of an event at the stage, p50, as it is; by the schedule of all that is made faster.
        flat_ns: with the stub of function only; None in a model.
        baseline: the unmodified system, interleaved with the points.
        knee: the speed-up beyond which nothing is gained; None where there is none.
        takes_over: the stage or resource that limits from there.
        drift: of the stub at speed-up 0 against the baseline, as a relative difference of the time per
            event; None in a model.
        seconds: of a run at the input's own pace; None in a model.
        uneven: share of the looks at the CPUs that found one slower than it can be; None: too few looks.
        stage: that is made faster.
        points: one speed-up each.
        rounds: of runs, each with the baseline and every point.
        sentence: what it buys, and up to where.
        warnings: what makes the runs doubtful.
    """

    method: Literal["stub", "model", "schedule"]
    stage: str
    kind: Literal["total", "limited", "none", "open"]
    service_ns: float
    flat_ns: float | None
    baseline: ForecastPoint
    points: tuple[ForecastPoint, ...]
    knee: Interval | None
    takes_over: str | None
    drift: Interval | None
    rounds: int
    sentence: str
    warnings: tuple[str, ...] = ()
    uneven: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class AppliedRow:
    """One quantity of a fix that was applied.

    Attributes:
        what: "p50", "p99", "p99.9" of end-to-end latency in ns, or "max events/s".
        before: of the unmodified system, beside the forecast's runs.
        agrees: the intervals of forecast and measurement overlap.
        forecast, measured: the same quantity by either, with its interval.
    """

    what: str
    before: Interval | None
    forecast: Interval
    measured: Interval
    agrees: bool


@dataclass(frozen=True, slots=True)
class Applied:
    """The forecast's fix, applied: the system ran with the stage really that much faster.

    Attributes:
        speedup: of the stage, from 0 to 1.
        runs: at the input's own pace, and as fast as the pipeline takes the input.
        sentence: whether what was measured agrees with the forecast.
        stage: that was made faster.
        rows: one quantity each.
    """

    stage: str
    speedup: float
    runs: int
    rows: tuple[AppliedRow, ...]
    sentence: str

    @property
    def agrees(self) -> bool:
        """No quantity was measured outside of its forecast."""
        return all(row.agrees for row in self.rows)


@dataclass(frozen=True, slots=True)
class Objective:
    """The latency that is aimed at, and how far the run is from it.

    Attributes:
        quantile: as 0.99.
        limit_ns: what that quantile should stay under.
        reached_ns: what it was; None without a traced event.
    """

    quantile: float
    limit_ns: int
    reached_ns: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether; None where nothing was traced."""
        return None if self.reached_ns is None else self.reached_ns <= self.limit_ns


@dataclass(frozen=True, slots=True)
class Unknown:
    """What could not be known, and the command that would find out.

    Attributes:
        what: is not known.
        command: that would find out.
    """

    what: str
    command: str


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """The verdict on one of several lines that no queue connects: as the same attributes of `Answer`.

    Attributes:
        stages: those that belong to it.
        sentence, limiting_stage, verdict, confidence, evidence, doubts, budget: as of the answer.
        aside: an executor's queue of calls: its stage does a part of what another line's stage does.
    """

    stages: tuple[str, ...]
    sentence: str
    limiting_stage: str | None
    verdict: str
    confidence: float
    evidence: tuple[str, ...]
    doubts: tuple[Doubt, ...] = ()
    budget: Budget | None = None
    aside: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a diagnosis, in the order of its argument.

    Attributes:
        target: what was diagnosed: a layout file, a command line, a process.
        sentence: the limiting stage and its evidence in a sentence or two.
        limiting_stage: its name, or None.
        verdict: as `queues.Verdict`.
        confidence: 0 to 1, of the limiting stage.
        evidence: sentences with numbers; in JSON `evidence_data` has the same by kind, with their values.
        distrust: why what was observed is not trustworthy; empty when it is.
        losses: queues and sockets that overran, with how much they lost, and which stage is behind, in words.
        tail: the slowest traced events one by one; None without traces.
        end_to_end: of traced events; None without traces.
        stalls: of stages that stood still, in words, the longest first.
        burst: where the largest microburst sat and how it travelled, in a sentence; None without one.
        findings: settings of the machine that disturb, as (name, value, cost, command).
        threads: what its threads do, seen from outside; None where that was not looked at.
        doubts: what contradicts a verdict, which is withheld then.
        requests: what it answered, where it serves any; None else.
        tail_stage: the type of stage that the tail waits for, where no stage limits the throughput.
        applied: the fix that was forecast, applied and measured; None where that was not asked.
        lines: a verdict and a budget each, where no queue connects several lines of stages; else empty.
        steps: of the diagnosis, in their order, with what each took.
        unknown: what was not measured, each with the command that measures it.
        floor: what the machine itself takes; None where that was not measured.
        budget: where the time of an event goes, at a quantile of the tail or in the mean; None where it can't
            be told.
        objective: the latency that is aimed at; None without one.
        forecasts: what a faster stage would buy.
        seed: of generated feeds and of the order of runs; None where nothing is drawn.
        recordings: folders of what was observed, by what they hold.
    """

    target: str
    sentence: str
    limiting_stage: str | None
    verdict: str
    confidence: float
    evidence: tuple[str, ...]
    distrust: tuple[str, ...]
    steps: tuple[Step, ...]
    unknown: tuple[Unknown, ...]
    floor: Floor | None = None
    findings: tuple[tuple[str, str, str, str], ...] = ()
    end_to_end: Latency | None = None
    budget: Budget | None = None
    stalls: tuple[str, ...] = ()
    burst: str | None = None
    losses: tuple[str, ...] = ()
    tail: Tail | None = None
    objective: Objective | None = None
    forecasts: tuple[Forecast, ...] = ()
    seed: int | None = None
    recordings: Mapping[str, str] = field(default_factory=dict)
    threads: ThreadFindings | None = None
    doubts: tuple[Doubt, ...] = ()
    lines: tuple[AnswerLine, ...] = ()
    requests: Requests | None = None
    tail_stage: str | None = None
    applied: Applied | None = None

    @property
    def trustworthy(self) -> bool:
        """Nothing that was observed contradicts the answer, or makes it doubtful."""
        return not self.distrust and not self.doubts

    def to_json(self) -> dict[str, Any]:
        """The machine contract of `latlab diagnose --json`, schema 1."""
        document = asdict(replace(self, threads=None, requests=None))
        del document["threads"]
        document["requests"] = None if self.requests is None else self.requests.to_json()
        seen = {} if self.threads is None else self.threads.to_json()
        by_threads = self.threads is not None and self.verdict == self.threads.limit.kind
        document |= seen if by_threads else {"roles": [], "edges": [], **seen, "limit": self._limit()}
        document["end_to_end_ns"] = None if self.end_to_end is None else self.end_to_end.to_json()
        del document["end_to_end"]
        for forecast in document["forecasts"]:
            for point in (forecast["baseline"], *forecast["points"]):
                point["p99.9_ns"] = point.pop("p99_9_ns")
        if self.applied is not None:
            document["applied"]["agrees"] = self.applied.agrees
        if self.objective is not None:
            document["objective"]["met"] = self.objective.met
        document["tail"] = None if self.tail is None else self.tail.to_json()
        document["trustworthy"] = self.trustworthy
        document["evidence_data"], document["distrust_data"] = data_of(self.evidence), data_of(self.distrust)
        return {"schema": SCHEMA, **document}

    def _limit(self) -> dict[str, Any]:
        """What the queues name, in the words of what threads tell."""
        kind = _KINDS.get(self.verdict, LimitKind.UNKNOWN)
        stage = self.limiting_stage
        if self.verdict == Verdict.POOL and self.evidence:
            stage = values_of(self.evidence[0]).get(
                "stage"
            )  # who waits for it, and holds what others wait for
        role = None if self.threads is None else self.threads.role(stage)
        if self.limiting_stage is not None:
            # Objects that are held while others wait for them are locks of which there are several.
            kind = LimitKind.LOCK if self.verdict == Verdict.POOL else LimitKind.THREAD
        if role is not None and self.threads is not None and self.verdict != Verdict.POOL:
            if role.asleep and self.verdict != Verdict.STOPPED:  # who has ended paces nothing
                kind = LimitKind.TIMER
            elif self.threads.root not in (0, *role.pids):
                kind = LimitKind.PROCESS
        name = self.limiting_stage or ("" if kind is LimitKind.UNKNOWN else str(kind))
        if self.verdict == Verdict.SCHEDULER:  # what the stage that it keeps from running is short of
            kind, name = LimitKind.CPU, "CPUs"
        return {
            "kind": str(kind),
            "name": name,
            "confidence": self.confidence,
            "evidence": list(self.evidence),
            "code": [] if role is None else [asdict(one) for one in role.code],
        }


@dataclass(frozen=True, slots=True)
class Change:
    """One quantity of two diagnoses.

    Attributes:
        verdict: "better", "worse" or "same"; "open" where one run each doesn't decide it; "part" of what
            explains and is not judged: a budget's part, what a role limits.
    """

    what: str
    unit: str
    before: float
    after: float
    verdict: Literal["better", "worse", "same", "open", "part"]


@dataclass(frozen=True, slots=True)
class AnswerComparison:
    """Two diagnoses, before and after.

    Attributes:
        warnings: differences of the environments.
        decides: the command that would decide what is open; "" where nothing is.
    """

    before: str
    after: str
    limiting_before: str | None
    limiting_after: str | None
    changes: tuple[Change, ...]
    warnings: tuple[str, ...] = ()
    decides: str = ""

    @property
    def regression(self) -> bool:
        """Whether anything that is judged is worse."""
        return any(change.verdict == "worse" for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        """The machine contract of `latlab diagnose compare --json`, schema 1."""
        return {"schema": SCHEMA, **asdict(self), "regression": self.regression}
