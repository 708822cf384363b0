"""What making a stage faster would buy, computed: a queueing model of what was observed, simulated.

Where a stage can't be stubbed. It is not a measurement: the model knows queues, services and arrivals, and
neither CPUs that stages share nor caches that they spoil for each other. Over 400 lines: a function for each
reason why the model's figures are not told.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from latlab import queues, stubs
from latlab.errors import LatlabError, NotTrustworthyError
from latlab.lab.forecast.what_limits import with_limits
from latlab.model.diagnosis.answer import Forecast, ForecastPoint, Interval
from latlab.model.evidence.forecast import ForecastSaid, ModelDoubt
from latlab.model.evidence.said import said
from latlab.model.queues.observation import Observation
from latlab.model.queues.queueing import ModelForecast, QueueingModel
from latlab.model.threads import Role
from latlab.words import count

__all__ = ["modelled", "require_seen"]

SPEEDUPS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_SEEDS = 2
_EVENTS = 800  # from outside, without blocking: a saturated pipeline serves some thousands in that time
_NULL = 0.1  # of the observed throughput: what the model as it is may differ by
_SAME = 0.05  # of the throughput: what two bounds may differ by, and still tell the same
_MOST_NAMED = 3
_QUARTER = 0.25
_ASKED = (0.2, 1.0)  # speed-ups at which the two bounds are held against each other
_ON_OTHERS = ("futex", "pipe", "eventfd", "semaphore")  # a remote answer is a part of the service
_NO_TIME = 0.95  # of the time: a stage so busy is not given what comes, but comes to what it can do
_BUSIER = 0.25  # of the time: so much more than its thread a stage of the model may be busy
_WAITING = 0.5  # of its time: a source that waits so long for other threads puts when they let it
_WHOLE = 0.7  # of the time: who is as busy has none to spare
_LEAST_GAIN = 0.03  # of the throughput, by a fifth less work of what limits: less is none
_NO_LESS = 0.8  # of the time that what limits today is busy, what limits then is, too
_FURTHER = 1.1  # times the throughput at the knee: it was none
_FREE = 5.0  # times the throughput: all that limited is gone
_LEAST_SHARE = 0.02  # of the service, which stands for none: a stage without any makes no finite model


def modelled(
    observation: Observation,
    stage: str,
    *,
    seed: int,
    events: int = _EVENTS,
    deadline: float = math.inf,
    roles: Sequence[Role] = (),
    limits: bool = False,
) -> Forecast:
    """Fit the line that the stage is in, and simulate it at several speeds.

    Args:
        stage: its name, or a type of stages.
        roles: what the threads of the stages were seen to do, where that was looked at.
        seed: of the simulations; every speed sees the same arrivals.
        events: that arrive in each simulation.
        deadline: on the clock of time.monotonic: no simulation begins after it.
        limits: by what was observed the stage is what limits.

    Raises:
        MissingExtraError: without ciw.
        LatlabError: the observation makes no model, or one that gives another throughput than was seen, or
            the simulations don't fit.
    """
    observation = _line_of(observation, stage)
    served = {queue.drain for queue in observation.queues}
    for queue in observation.queues:
        if len(queue.sources) > 1 and served.intersection(queue.sources):
            raise _withheld(ModelDoubt.MERGES, queue=queue.name, sources=", ".join(queue.sources))
    model = queues.fit_model(observation)
    # With its interruptions: the same number as in the table of stages and the budget.
    services = [one.mean_ns for one in model.stages if stage in (one.name, one.type)]
    if not services:
        raise queues_error(model, stage)
    own = {one.name for one in model.stages if stage in (one.name, one.type)}
    known = queues.service_bounds(observation)
    # A thread that waits for others for most of its time serves for the rest of it at most.
    serves = {role.name: min(1.0, 1.0 - _for_others(role) + _SAME) for role in roles if role.count == 1}
    bounds = {
        one.name: known[one.name] * serves.get(one.name, 1.0)
        for one in model.stages
        if one.name in known.keys() - own
    }
    bounded = _bounded(model, bounds, 1.0)
    least = _simulated(bounded, stage, events, seed, SPEEDUPS[:1], deadline)
    _require_null(observation, model, least[0.0])
    # Of a stage that is only bounded the model has the most that it may serve, and not what it does.
    told = replace(least[0.0][0], stages=tuple(one for one in least[0.0][0].stages if one.name not in bounds))
    require_seen(model, told, roles)
    if limits:
        _require_busiest(stage, own, told)
    least |= _simulated(bounded, stage, events, seed, SPEEDUPS[1:], deadline)
    # If others were a quarter of what they may be: does the answer change?
    quarter = _bounded(model, bounds, _QUARTER)
    most = _simulated(quarter, stage, events, seed, _ASKED, deadline) if bounds else {}
    if any(_apart(least[speedup], runs) for speedup, runs in most.items()):
        if limits and _gain(least) < _LEAST_GAIN:
            raise _withheld(ModelDoubt.NO_GAIN, stage=stage)
        return _at_least(stage, float(np.mean(services)), least, tuple(bounds))
    found = stubs.forecast(
        [
            {speedup: max(least[speedup][i].throughput_hz, 1e-9) for speedup in SPEEDUPS}
            for i in range(_SEEDS)
        ],
        name=stage,
        better="more",
        what="throughput",
    )
    if limits and found.component_class == "none":
        raise _withheld(ModelDoubt.NO_GAIN, stage=stage)
    after = _source_that_limits(model, least[1.0]) or _busiest(least[1.0][0], stage)
    _require_limit(model, stage, least, after)
    untold = _untold(model)
    knee = None
    if found.t_limit is not None:
        knee = Interval(found.t_limit, *(found.t_limit_interval or (None, None)))
    points = {speedup: _point(speedup, least[speedup]) for speedup in SPEEDUPS}
    reached = _least_knee(points)
    if knee is not None and knee.value < reached:
        knee = Interval(reached)  # fitted too low: so much is gained, and it takes so much
    if knee is not None and _gains_behind(knee.value, points):
        # Round a circle what one stage gains is spread over all: it gains less and less, and does not end.
        knee = after = None
    if untold:
        points = {speedup: _if_it_comes(point, points[0.0]) for speedup, point in points.items()}
    sentence = _sentence(stage, points, knee, after, _condition(untold))
    made = replace(
        _told(stage, float(np.mean(services)), points, sentence),
        kind=_kind(found.component_class, knee),
        knee=knee,
        takes_over=after,
    )
    return _of_the_busy(with_limits(made), stage, own, least)


def _line_of(observation: Observation, stage: str) -> Observation:
    """The queues that hang together with those of the stage: each line has a throughput of its own."""
    ends = [
        {*queue.sources, queue.drain, f"group {queue.group}"} - {"", "group "} for queue in observation.queues
    ]
    mine = {
        number for number, queue in enumerate(observation.queues)
        if stage in (*queue.sources, queue.drain, queue.source_type, queue.drain_type)
    }  # fmt: skip
    before = -1
    while before < len(mine):
        before = len(mine)
        known = {end for number in mine for end in ends[number]}
        mine |= {number for number, own in enumerate(ends) if own & known}
    if not mine:
        return observation
    return replace(observation, queues=tuple(observation.queues[number] for number in sorted(mine)))


def _require_busiest(stage: str, own: set[str], run: ModelForecast) -> None:
    """In the model as it is, what limits is the busiest, too.

    Raises:
        NotTrustworthyError: another stage is.
    """
    busy = {one.name: one.utilisation for one in run.stages}
    most = max((busy[name] for name in own if name in busy), default=0.0)
    other = max(busy.keys() - own, key=lambda name: busy[name], default=None)
    if other is not None and busy[other] > most + _BUSIER:
        raise _withheld(ModelDoubt.ANOTHER, stage=stage, other=other, busy=busy[other], own=most)


def _told(stage: str, service_ns: float, points: Mapping[float, ForecastPoint], sentence: str) -> Forecast:
    """A forecast whose end is open."""
    return Forecast(
        method="model",
        stage=stage,
        kind="open",
        service_ns=service_ns,
        flat_ns=None,
        baseline=points[0.0],
        points=tuple(points[speedup] for speedup in SPEEDUPS[1:]),
        knee=None,
        takes_over=None,
        drift=None,
        rounds=_SEEDS,
        sentence=sentence,
    )


def _require_null(observation: Observation, model: QueueingModel, runs: Sequence[ModelForecast]) -> None:
    """The model as it is gives what was observed: it knows no shared lock, and not all shapes.

    Raises:
        NotTrustworthyError: it does not.
    """
    names = {stage.name for stage in model.stages}
    ends = names - {queue.source for queue in model.queues}
    # In a circle without an end all stages take as many.
    seen = queues.served_hz(observation, ends or {model.stages[0].name})
    made = queues.copies_of(model) * float(np.mean([run.throughput_hz for run in runs]))
    if seen and abs(made / seen - 1) > _NULL:
        raise NotTrustworthyError(
            f"withheld, since the model as it is gives {count(made)} events/s, and {count(seen)} were seen: "
            "something limits that queues and stages alone do not have, such as a lock",
            remedy="measure it instead: name the component of the stage",
        )


def require_seen(model: QueueingModel, run: ModelForecast, roles: Sequence[Role]) -> None:
    """The model as it is has its stages as busy as their threads were seen, and knows on whom these depend.

    Raises:
        NotTrustworthyError: it does not: what it took for service was a wait, its stages share a thread, or a
            source waits for what the queues do not tell.
    """
    of_name = {role.name: role for role in roles}
    for one in run.stages:
        role = of_name.get(one.name)
        if role is not None and one.utilisation > 1 - _for_others(role) + _BUSIER:
            raise _withheld(ModelDoubt.WAITS, stage=one.name, busy=one.utilisation, waited=_for_others(role))
    filled = {queue.name: queue.source for queue in model.queues}
    for source in model.sources:
        role = of_name.get(filled.get(source.queue, ""))
        if role is not None and not source.saturated and role.blocked.get("futex", 0.0) > _WAITING:
            raise _withheld(ModelDoubt.SOURCE_WAITS, source=role.name, waited=role.blocked["futex"])
    alone = [role for role in roles if role.count == 1 and role.running + role.runnable > _WHOLE]
    if len(model.stages) > 1 and alone and not of_name.keys() & {one.name for one in model.stages}:
        raise _withheld(ModelDoubt.ONE_THREAD, who=alone[0].name, running=alone[0].running)


def _for_others(role: Role) -> float:
    """The share of its time that it waits for other threads."""
    return sum(role.blocked.get(kind, 0.0) for kind in _ON_OTHERS)


def _require_limit(
    model: QueueingModel, stage: str, runs: Mapping[float, Sequence[ModelForecast]], after: str | None
) -> None:
    """Where no more is gained, something has no time left: the source, or the stage that takes over.

    Raises:
        NotTrustworthyError: nothing has, or the stage itself had none left and yet gains nothing.
    """
    own, fast = runs[0.0][0], runs[1.0][0]
    busy = {one.name: one.utilisation for one in fast.stages}
    if fast.throughput_hz > _FREE * own.throughput_hz or _source_that_limits(model, runs[1.0]) is not None:
        return
    if any(source.drops for source in model.sources):
        return  # what comes doesn't wait for anybody
    mine = max((one.utilisation for one in own.stages if one.name == stage), default=0.0)
    if mine > _NO_TIME and busy.get(after or "", 0.0) < _WHOLE:
        raise _withheld(ModelDoubt.NOTHING_BUSY, stage=stage)


def _least_knee(points: Mapping[float, ForecastPoint]) -> float:
    """How much faster a stage is at least where it gains what is gained at all: throughput is its inverse."""
    begin, end = (points[one].rate_hz for one in (0.0, 1.0))
    return 0.0 if begin is None or end is None or end.value <= 0 else 1.0 - begin.value / end.value


def _gains_behind(knee: float, points: Mapping[float, ForecastPoint]) -> bool:
    """Whether the throughput goes on to rise where it should be what it will be."""
    there = next(points[one].rate_hz for one in SPEEDUPS if one >= knee)
    end = points[1.0].rate_hz
    return there is not None and end is not None and end.value > _FURTHER * there.value


def _of_the_busy(
    made: Forecast, stage: str, own: set[str], runs: Mapping[float, Sequence[ModelForecast]]
) -> Forecast:
    """The same, and where who would limit has time to spare, nobody is named.

    Round a circle it is the number of events under way that limits then, and no stage.
    """

    def busy(name: str, speedup: float) -> float:
        known = own if name == stage else {name}
        each = [
            max((s.utilisation for s in run.stages if s.name in known), default=1.0) for run in runs[speedup]
        ]
        return float(np.mean(each))

    def of(point: ForecastPoint) -> ForecastPoint:
        if point.limits is None or point.speedup is None:
            return point
        enough = busy(point.limits, point.speedup) >= _NO_LESS * busy(stage, 0.0)
        return point if enough else replace(point, limits=None)

    return replace(made, points=tuple(of(point) for point in made.points))


def _kind(found: str, knee: Interval | None) -> Literal["total", "limited", "none"]:
    """A knee that was none leaves a gain by every speed-up."""
    if found == "none":
        return "none"
    return "limited" if knee is not None else "total"


def _withheld(why: ModelDoubt, **numbers: object) -> NotTrustworthyError:
    return NotTrustworthyError(
        f"withheld, since {said(why, **numbers)}",
        remedy="measure it instead: name the component of the stage",
    )


def _untold(model: QueueingModel) -> tuple[str, ...]:
    """Sources that always had another event, and of which nobody knows how many more they have."""
    unknown = {source.queue for source in model.sources if source.saturated and source.most_hz is None}
    return tuple(dict.fromkeys(queue.source or queue.name for queue in model.queues if queue.name in unknown))


def _condition(untold: tuple[str, ...]) -> str:
    if not untold:
        return ""
    who = " and ".join(f"`{name}`" for name in untold[:_MOST_NAMED])
    return said(ForecastSaid.MODEL_UNLESS, sources=who)


def _if_it_comes(point: ForecastPoint, baseline: ForecastPoint) -> ForecastPoint:
    """The rate that a source may not give: at least the one of today."""
    if point.rate_hz is None or baseline.rate_hz is None:
        return point
    low = min(baseline.rate_hz.value, point.rate_hz.low or point.rate_hz.value)
    return replace(point, rate_hz=replace(point.rate_hz, low=low))


def _source_that_limits(model: QueueingModel, runs: Sequence[ModelForecast]) -> str | None:
    """The source whose own speed is what is left, where all else is faster."""
    reached = max(run.throughput_hz for run in runs)
    sources = {queue.name: queue.source for queue in model.queues}
    slowest = min(
        (source for source in model.sources if source.most_hz is not None),
        key=lambda source: source.most_hz or 0.0,
        default=None,
    )
    if slowest is None or reached < (1 - _SAME) * (slowest.most_hz or 0.0):
        return None
    return sources.get(slowest.queue)


def _bounded(model: QueueingModel, bounds: Mapping[str, float], share: float) -> QueueingModel:
    """The model with every stage whose service is only bounded at so much of its bound."""
    for name, bound in bounds.items():
        model = model.with_stage(name, service_ns=share * bound)
    return model


def _simulated(
    model: QueueingModel, stage: str, events: int, seed: int, speedups: Sequence[float], deadline: float
) -> dict[float, list[ModelForecast]]:
    """Every speed with every seed: each sees the same arrivals."""
    found: dict[float, list[ModelForecast]] = {}
    copies = queues.copies_of(model)
    for speedup in speedups:
        of_speed = model if speedup == 0 else _faster(model, stage, speedup)
        for number in range(_SEEDS):
            if time.monotonic() >= deadline:
                raise LatlabError(
                    "it does not fit: the budget was spent before all speeds of the model were simulated"
                )
            one = queues.forecast(of_speed, events=events, seed=seed + number)
            # An event that goes to several at once is one, at however many ends it is counted.
            one = replace(one, throughput_hz=one.throughput_hz / copies)
            found.setdefault(speedup, []).append(one)
    return found


def _apart(least: Sequence[ModelForecast], most: Sequence[ModelForecast]) -> bool:
    low, high = (float(np.mean([run.throughput_hz for run in runs])) for runs in (least, most))
    return high > (1 + _SAME) * low


def _at_least(
    stage: str, service_ns: float, least: Mapping[float, Sequence[ModelForecast]], unknown: tuple[str, ...]
) -> Forecast:
    """What holds however slow the others are that the counts only bound; nothing on what lies beyond it."""
    points = {
        speedup: ForecastPoint(
            speedup=None if speedup == 0 else speedup,
            achieved=None if speedup == 0 else speedup,
            runs=0,
            rate_hz=_from(float(np.mean([run.throughput_hz for run in runs]))),
        )
        for speedup, runs in least.items()
    }
    base, better = points[0.0].rate_hz, points[0.2].rate_hz
    assert base is not None
    assert better is not None
    who = " and ".join(f"`{name}`" for name in unknown[:_MOST_NAMED])
    who += f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
    sentence = said(
        ForecastSaid.MODEL_OPEN, stage=stage, base_hz=base.value, faster_hz=better.value, stages=who
    )
    return _told(stage, service_ns, points, sentence)


def _gain(runs: Mapping[float, Sequence[ModelForecast]]) -> float:
    """What a fifth less work gains of the throughput."""
    own, faster = (float(np.mean([run.throughput_hz for run in runs[speedup]])) for speedup in (0.0, 0.2))
    return faster / max(own, 1e-9) - 1.0


def _from(value: float) -> Interval:
    """At least so much."""
    return Interval(value, value, None)


def queues_error(model: QueueingModel, stage: str) -> Exception:
    """There is no such stage in the model, with those that there are."""
    from latlab.errors import UsageError

    names = ", ".join(one.name for one in model.stages)
    return UsageError(f"'{stage}' took no event, so no model knows it", remedy=f"there are: {names}")


def _faster(model: QueueingModel, stage: str, speedup: float) -> QueueingModel:
    return model.with_stage(stage, speed=1 / max(1 - speedup, _LEAST_SHARE))


def _busiest(run: ModelForecast, but: str) -> str | None:
    others = [one for one in run.stages if one.name != but]
    return max(others, key=lambda one: one.utilisation).name if others else None


def _point(speedup: float, runs: list[ModelForecast]) -> ForecastPoint:
    def spread(values: list[float]) -> Interval:
        return Interval(float(np.mean(values)), min(values), max(values))

    ended = all(run.end_to_end.count for run in runs)  # round a circle no event comes to an end

    return ForecastPoint(
        speedup=None if speedup == 0 else speedup,
        achieved=None if speedup == 0 else speedup,
        runs=0,
        rate_hz=spread([run.throughput_hz for run in runs]),
        p50_ns=spread([run.end_to_end.p50_ns for run in runs]) if ended else None,
        p99_ns=spread([run.end_to_end.p99_ns for run in runs]) if ended else None,
        p99_9_ns=spread([run.end_to_end.p99_9_ns for run in runs]) if ended else None,
    )


def _surely_less(less: Interval, more: Interval) -> bool:
    """Whether one is less than the other for sure: a tail of one hiccup is as long whatever is faster."""
    if less.high is None or more.low is None:
        return less.value < more.value
    return less.high < more.low


def _sentence(
    stage: str, points: dict[float, ForecastPoint], knee: Interval | None, after: str | None, unless: str
) -> str:
    base, better = points[0.0], points[0.2]
    assert base.rate_hz is not None
    assert better.rate_hz is not None
    tail = beyond = ""
    if (
        base.p99_9_ns is not None
        and better.p99_9_ns is not None
        and _surely_less(better.p99_9_ns, base.p99_9_ns)
    ):
        before, now = base.p99_9_ns.value, better.p99_9_ns.value
        tail = said(ForecastSaid.MODEL_TAIL, base_ns=before, faster_ns=now)
    if knee is not None:
        since = said(ForecastSaid.TAKES_OVER, who=f"`{after}`") if after else ""
        beyond = said(ForecastSaid.MODEL_BEYOND, knee=knee.value, since=since)
    return said(
        ForecastSaid.MODEL,
        stage=stage,
        tail=tail,
        base_hz=base.rate_hz.value,
        faster_hz=better.rate_hz.value,
        beyond=beyond,
        unless=unless,
    )
