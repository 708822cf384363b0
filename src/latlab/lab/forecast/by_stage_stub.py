"""What making a stage of the pipeline faster would buy, measured: the stage is stubbed and the same input is
replayed, interleaved with the unmodified pipeline.

Over 400 lines: one series of runs, in which each is chosen by what those before took.

A stage's component under study is the service time that its layout adds to each event. Its function is empty,
so the *flat* stub is the stage without it, and a *busy* stub spins for what is left of it. What remains of
the stage's service with the flat stub is the stage's own code, which can't be stubbed away: speed-ups are
of the part that can be stubbed, and the points say which speed-up of the whole service the traces show.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from latlab import words
from latlab.errors import LatlabError
from latlab.formats.recording import RecordingWriter
from latlab.lab.forecast.intervals import mean_interval, on_the_curve, pooled, quantile_interval
from latlab.lab.forecast.one_speed import (
    MachineSpeed,
    at_usual_speed,
    explained_by_speed,
    usual_speed,
    varied,
)
from latlab.lab.forecast.stage_runs import (
    CAPACITY_S,
    FEWEST,
    CannotStubError,
    Fast,
    Paced,
    Stubbing,
    count,
    left_out,
    run_fast,
    run_paced,
    stubbed,
    tails,
    undisturbed,
)
from latlab.lab.forecast.what_limits import most_named
from latlab.model.diagnosis.answer import Forecast, ForecastPoint, Interval
from latlab.model.diagnosis.layout import Layout
from latlab.model.evidence.forecast import ForecastSaid, ForecastWarning
from latlab.model.evidence.said import said
from latlab.model.queues.analysis import Verdict
from latlab.stats.quantiles import nearest_rank
from latlab.words import duration

__all__ = ["STORY_SPEEDUPS", "forecast", "points_that_fit"]

SPEEDUPS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_FEW_SPEEDUPS = (0.0, 0.2, 1.0)  # where the time does not carry two rounds of all
STORY_SPEEDUPS = (0.0, 0.2, 0.5, 1.0)  # where one of them is applied, too
_OVERHEAD_S = 0.5  # of a run, before one is known: processes that start, a recording that is read
_LEAST_OVERHEAD_S = 0.4
_MORE = 1.2  # of an overhead that two runs showed: others take longer
_LEAST_REMOVABLE = 0.1  # of the service: less than this can't be told from noise
_LEAST_ROUNDS = 2
_SPARE = 0.12  # of the time that is left: some runs take longer than the two that were timed
_SHORTEST_S = 0.8  # of a run at the input's own pace: its tail is still of thousands of events
_FLAT_RUNS = 4  # in each round after those
_FLAT_FAST = 3  # in each round, as fast as the input is taken: nothing else in the pipeline is as uneven
_LEAN_FAST = (None, 0.0)  # once more in each of few rounds: what the null test holds against each other
_TAIL_KNOWN, _RATE_KNOWN = 0.05, 0.025  # standard errors (of p99.9, of the throughput) that are good enough


def forecast(
    stubbing: Stubbing,
    stage: str,
    deadline: float,
    writer: RecordingWriter,
    tell: Callable[[str], None],
    *,
    over: bool = False,
    speedups: Sequence[float] | None = None,
    applied: float | None = None,
    at_most: float | None = None,
) -> Forecast:
    """Measure the curve of a stage.

    Args:
        stage: a type of stage, or an instance.
        deadline: on the clock of time.monotonic: no round begins that would end after it.
        writer: keeps each run's numbers as the series "forecast".
        tell: takes a line on each round as it begins. What it takes for that is not the forecast's time.
        over: make two rounds in any case.
        speedups: the points; by default as many as fit.
        applied: the one of them that has to be there.
        at_most: until when the fewest rounds may go on, after the deadline: a neighbour slows runs down.

    Raises:
        CannotStubError: nothing of the stage's service can be stubbed.
        LatlabError: the pipeline could not be run, or two rounds don't fit.
    """
    at_most = deadline if at_most is None else at_most
    left_s = deadline - time.monotonic()
    lean = _least_s(stubbing.seconds) > left_s  # then the runs are shorter, and there are no more than needed
    if lean and not over:
        shortest = min(stubbing.seconds, _SHORTEST_S)
        _require_time(_least_s(shortest), deadline, at_most)
        none_s, one_s = _least_s(0.0), _least_s(1.0)
        stubbing = dataclasses.replace(stubbing, seconds=max(shortest, (left_s - none_s) / (one_s - none_s)))
        tell(f"forecast: runs of {duration(1e9 * stubbing.seconds)}, so that it fits the budget")
    speed = MachineSpeed()
    begin, before = time.monotonic(), speed.look()
    first = stubbing
    if lean and not over:
        first = dataclasses.replace(stubbing, seconds=min(stubbing.seconds, _SHORTEST_S))
    base = run_paced(first, stubbing.layout, stage)
    flat = run_paced(first, stubbed(stubbing.layout, stage, 0), stage)
    around = speed.around(before)
    first_s = (time.monotonic() - begin) / 2
    left_s = deadline - time.monotonic()
    # Known by now: what a run takes on this machine. At full load queues are drained at its end, too.
    overhead_s = _MORE * max(_LEAST_OVERHEAD_S, first_s - first.seconds)
    fast_s = CAPACITY_S + overhead_s
    shortest_s = (
        min(stubbing.seconds, _SHORTEST_S) + overhead_s + fast_s
    )  # a pair, one at the input's own pace
    if speedups is not None and not over:
        room_s = at_most - time.monotonic() - _LEAST_ROUNDS * len(_LEAN_FAST) * fast_s
        speedups = points_that_fit(speedups, applied, int(room_s / (_LEAST_ROUNDS * shortest_s)) - 1)
    least = _LEAST_ROUNDS * (len(speedups or _FEW_SPEEDUPS) + 1)  # pairs of runs
    lean_s = _LEAST_ROUNDS * len(_LEAN_FAST) * fast_s
    fits = ((1 - _SPARE) * left_s - lean_s) / least - fast_s - overhead_s
    if not over and fits < stubbing.seconds:
        shortest = min(stubbing.seconds, _SHORTEST_S)
        if fits < shortest:  # longer ones are made to fit
            _require_time(least * (shortest + overhead_s + fast_s) + lean_s, deadline, at_most)
        stubbing = dataclasses.replace(stubbing, seconds=max(shortest, fits))
        tell(f"forecast: runs of {duration(1e9 * stubbing.seconds)}, so that it fits the budget")
    pair_s = stubbing.seconds + overhead_s + fast_s
    more_s = (_FLAT_FAST - 1) * fast_s
    if speedups is None:
        fit = _LEAST_ROUNDS * ((len(SPEEDUPS) + 1) * pair_s + more_s) < left_s
        speedups = SPEEDUPS if fit else _FEW_SPEEDUPS
    lean = lean or least * pair_s + _LEAST_ROUNDS * more_s > left_s
    removable = 1 - flat.service_ns / base.service_ns
    if removable < _LEAST_REMOVABLE:
        raise CannotStubError(
            f"the service of {stage} is its own code ({duration(flat.service_ns)} of "
            f"{duration(base.service_ns)}), and only service time that a layout adds can be "
            "stubbed in this pipeline"
        )
    left = {speedup: max(0, round((1 - speedup) * base.service_ns - flat.service_ns)) for speedup in speedups}
    layouts: dict[float | None, Layout] = {
        None: stubbing.layout,
        **{speedup: stubbed(stubbing.layout, stage, ns) for speedup, ns in left.items()},
    }
    paced: dict[float | None, list[Paced]] = {key: [] for key in layouts}
    capacity: dict[float | None, list[Fast]] = {key: [] for key in layouts}
    order = random.Random(stubbing.seed)
    took = {(key, at_pace): 0.0 for key in layouts for at_pace in (True, False)}  # a run, at most
    rounds = 0
    # The two that were run first are of the first round, if as long as its runs.
    known: dict[float | None, Paced] = {}
    if lean and first.seconds == stubbing.seconds:
        known = {key: dataclasses.replace(one, speed=around) for key, one in ((None, base), (1.0, flat))}
    for key, one in known.items():
        paced[key].append(one)
        took[key, True] = first_s
        _keep_paced(writer, rounds, key, one)
    while True:
        runs = _agenda(rounds, *undisturbed(paced, capacity), lean=lean)
        if rounds == 0:
            runs = [run for run in runs if not (run[1] and run[0] in known)]
        left_s = deadline - time.monotonic()
        if not over and 0 < rounds < _LEAST_ROUNDS:
            _require_time(sum(took[run] for run in runs), deadline, at_most)
        if rounds >= _LEAST_ROUNDS and sum(took[run] for run in runs) > left_s:
            runs = [(None, True), (1.0, True)]  # what may fit where a whole round does not
            if sum(took[run] for run in runs) > left_s:
                break
        begin = time.monotonic()
        fast = sum(not at_pace for _, at_pace in runs)
        tell(
            f"forecast, round {rounds + 1}: {stage} as it is and stubbed, {len(runs)} runs, "
            f"{fast} of them at full load"
        )
        told_s = time.monotonic() - begin
        deadline, at_most = deadline + told_s, at_most + told_s
        order.shuffle(runs)
        for key, at_pace in runs:
            begin, before = time.monotonic(), speed.look()
            if at_pace:
                one = run_paced(stubbing, layouts[key], stage)
                paced[key].append(dataclasses.replace(one, speed=speed.around(before)))
                _keep_paced(writer, rounds, key, paced[key][-1])
            else:
                full = run_fast(stubbing, layouts[key], stage)
                capacity[key].append(dataclasses.replace(full, speed=speed.around(before)))
                _keep_capacity(writer, rounds, key, capacity[key][-1])
            took[key, at_pace] = max(took[key, at_pace], time.monotonic() - begin)
        rounds += 1
    kept, kept_fast = undisturbed(paced, capacity)
    reference = float(np.median([run.service_ns for run in kept[None]]))
    kept_fast, explained = at_usual_speed(kept_fast)
    usual = usual_speed([run for runs in kept.values() for run in runs])
    points = _pooled(
        {key: _point(key, reference, runs, kept_fast[key], usual) for key, runs in kept.items()},
        {key: len(runs) for key, runs in kept_fast.items()},
    )
    found = _judged(stage, reference, flat.service_ns, points, kept_fast, rounds)
    made, used = count(paced) + count(capacity), count(kept) + count(kept_fast)
    changed, uneven = speed.core.varied(), speed.core.slow()
    more = [left_out(made, used)] if used < made else []
    more += [varied(*changed)] if changed else []
    more += [explained_by_speed(explained)] if explained else []
    return dataclasses.replace(
        found,
        warnings=(*found.warnings, *more),
        uneven=None if uneven is None else uneven[0],
        seconds=stubbing.seconds,
    )


def points_that_fit(speedups: Sequence[float], applied: float | None, room: int) -> tuple[float, ...]:
    """As it is, all of it, the one that is applied, and of the others as many as there is room for."""
    asked = (0.0, 1.0) if applied is None else (0.0, 1.0, applied)
    needed = set(asked) & set(speedups)
    others = [one for one in speedups if one not in needed][: max(0, room - len(needed))]
    return tuple(sorted(needed | set(others)))


def _least_s(seconds: float) -> float:
    """What two runs that say what can be stubbed, and two rounds of the fewest points, take.

    Args:
        seconds: of a run at the input's own pace.
    """
    paced, fast = seconds + _OVERHEAD_S, CAPACITY_S + _OVERHEAD_S
    pairs = (len(_FEW_SPEEDUPS) + 1) * (paced + fast)
    return 2 * paced + _LEAST_ROUNDS * (pairs + len(_LEAN_FAST) * fast)


def _require_time(needed_s: float, deadline: float, at_most: float) -> None:
    """Runs may end a little later than the budget; what is told to be left is the budget's own."""
    now = time.monotonic()
    if needed_s > at_most - now:
        raise LatlabError(
            f"it does not fit: its runs take some {words.duration(needed_s * 1e9)}, and "
            f"{words.duration(max(0.0, deadline - now) * 1e9)} of the budget are left"
        )


def _agenda(
    rounds: int,
    paced: Mapping[float | None, Sequence[Paced]],
    capacity: Mapping[float | None, Sequence[Fast]],
    *,
    lean: bool = False,
) -> list[tuple[float | None, bool]]:
    """(layout, whether at the input's own pace) of each run of the next round.

    A saturated pipeline does the same in every run, and takes long for it, since it drains its queues; one
    that is relieved shows each disturbance of the machine. So the time goes to the flat stub, which the
    question is about, and to what lies between only when that is known. The unmodified pipeline takes part in
    every round, since the machine changes.
    """
    if rounds < _LEAST_ROUNDS:
        both = [(key, at_pace) for key in paced for at_pace in (True, False)]
        return both + ([(key, False) for key in _LEAN_FAST] if lean else [(1.0, False)] * (_FLAT_FAST - 1))
    slow = {key for key, known in paced.items() if _unsure(tails(known), _TAIL_KNOWN)}
    uneven = {key for key, known in capacity.items() if _unsure([one.rate_hz for one in known], _RATE_KNOWN)}
    uneven |= {key for key in (None, 1.0) if len(capacity[key]) < FEWEST}
    runs: list[tuple[float | None, bool]] = [(None, True)] * (_FLAT_RUNS if None in slow else 1)
    runs += [(1.0, True)] * _FLAT_RUNS
    if 1.0 in uneven:
        runs += [(1.0, False)] * _FLAT_FAST
    if None in uneven:
        runs.append((None, False))
    if 1.0 not in slow | uneven:
        runs += [(key, True) for key in paced if key in slow - {None}]
        runs += [(key, False) for key in capacity if key in uneven - {None}]
    return runs


def _unsure(values: Sequence[float], known: float) -> bool:
    """Whether the standard error of the values' logarithms is larger than it may be."""
    return len(values) > 1 and float(np.std(np.log(values), ddof=1)) > known * len(values) ** 0.5


def _keep_paced(writer: RecordingWriter, number: int, speedup: float | None, run: Paced) -> None:
    p50, p99, p999 = (
        float(nearest_rank(run.latency, q)) if run.latency.size else np.nan for q in (0.5, 0.99, 0.999)
    )
    row = {"rate_hz": run.rate_hz, "service_ns": run.service_ns, "taken": run.taken}
    _keep(writer, number, speedup, row | {"p50_ns": p50, "p99_ns": p99, "p99.9_ns": p999})


def _keep_capacity(writer: RecordingWriter, number: int, speedup: float | None, fast: Fast) -> None:
    _keep(writer, number, speedup, {"capacity_hz": fast.rate_hz, "taken": fast.taken})


def _keep(writer: RecordingWriter, number: int, speedup: float | None, known: Mapping[str, float]) -> None:
    """A row of the series: what its run did not measure is NaN."""
    row = {"round": number, "speedup": np.nan if speedup is None else speedup}
    measures = ("rate_hz", "capacity_hz", "service_ns", "p50_ns", "p99_ns", "p99.9_ns", "taken")
    row |= {name: known.get(name, np.nan) for name in measures}
    writer.append("forecast", {name: np.array([value]) for name, value in row.items()})


def _point(
    speedup: float | None,
    reference_ns: float,
    runs: Sequence[Paced],
    fast: Sequence[Fast],
    usual: tuple[float, ...],
) -> ForecastPoint:
    achieved = None
    if speedup is not None:
        achieved = 1 - float(np.median([run.service_ns for run in runs])) / reference_ns
    p50, p99, p999 = (quantile_interval(runs, q, usual) for q in (0.5, 0.99, 0.999))
    limits = [run.limits for run in fast]
    return ForecastPoint(
        speedup=speedup,
        achieved=achieved,
        runs=len(runs),
        rate_hz=mean_interval([run.rate_hz for run in runs]),
        capacity_hz=mean_interval([run.rate_hz for run in fast]),
        p50_ns=p50,
        p99_ns=p99,
        p99_9_ns=p999,
        limits=most_named(limits),
    )


def _pooled(
    points: Mapping[float | None, ForecastPoint], fast: Mapping[float | None, int]
) -> dict[float | None, ForecastPoint]:
    """The points, with intervals by the scatter of all of them where each was run but a few times."""
    runs = [point.runs for point in points.values()]
    p50 = pooled([point.p50_ns for point in points.values()], runs)
    p99 = pooled([point.p99_ns for point in points.values()], runs)
    p999 = pooled([point.p99_9_ns for point in points.values()], runs)
    most = pooled([point.capacity_hz for point in points.values()], [fast[key] for key in points])
    return {
        key: dataclasses.replace(
            point,
            p50_ns=p50[at],
            p99_ns=p99[at],
            p99_9_ns=p999[at],
            capacity_hz=most[at] or point.capacity_hz,
        )
        for at, (key, point) in enumerate(points.items())
    }


def _judged(
    stage: str,
    service_ns: float,
    flat_ns: float,
    points: Mapping[float | None, ForecastPoint],
    capacity: Mapping[float | None, Sequence[Fast]],
    rounds: int,
) -> Forecast:
    from latlab import stubs

    speedups = [key for key in points if key is not None]
    measured = len(capacity[None])
    fast: list[dict[float, float]] = [{} for _ in range(measured)]
    for key in speedups:  # a point that was run more often than the pipeline as it is: in as many groups
        groups = np.array_split([run.rate_hz for run in capacity[key]], measured)
        for one, rates in zip(fast, groups, strict=True):
            if rates.size:
                one[key] = float(np.mean(rates))
    # What limits the flat stub's runs is what takes over, unless it is the stage itself (its own code).
    after = points[1.0].limits
    successor = None if after == stage else after
    found = stubs.forecast(
        fast,
        name=stage,
        baseline=[run.rate_hz for run in capacity[None]],
        better="more",
        what="throughput",
        takes_over=successor,
    )
    points = on_the_curve(points, found)
    knee = None
    if found.t_limit is not None:
        low, high = found.t_limit_interval or (None, None)
        knee = Interval(found.t_limit, low, high)
    return Forecast(
        method="stub",
        stage=stage,
        kind=found.component_class,
        service_ns=service_ns,
        flat_ns=flat_ns,
        baseline=points[None],
        points=tuple(points[key] for key in speedups),
        knee=knee,
        takes_over=successor,
        drift=Interval(found.drift, *found.drift_interval),
        rounds=rounds,
        sentence=_sentence(stage, points, found.component_class, knee, successor),
        warnings=tuple(said(ForecastWarning.THROUGHPUT, warning=one) for one in found.warnings),
    )


def _rough(tail: Interval, was: Interval) -> bool:
    """Whether the runs were too few to tell a shorter tail: it may be as long as it was."""
    return (tail.value if tail.high is None else tail.high) >= was.value


def _sentence(
    stage: str,
    points: Mapping[float | None, ForecastPoint],
    kind: str,
    knee: Interval | None,
    successor: str | None,
) -> str:
    base, best, half = points[None], points[1.0], points.get(0.5)
    first = min(key for key in points if key)  # of few points 0.2 may be left out
    better = points[first]
    half = None if first == 0.5 else half
    assert base.capacity_hz is not None
    assert better.capacity_hz is not None
    assert best.capacity_hz is not None
    tail = middle = since = ""
    was = base.p99_9_ns
    if was is not None and better.p99_9_ns is not None:
        told = ForecastSaid.TAIL_ROUGH if _rough(better.p99_9_ns, was) else ForecastSaid.TAIL
        tail = said(told, base_ns=was.value, faster_ns=better.p99_9_ns.bounds)
    if half is not None and half.p99_9_ns is not None and half.capacity_hz is not None:
        rough = was is not None and _rough(half.p99_9_ns, was)
        told = ForecastSaid.HALF_ROUGH if rough else ForecastSaid.HALF
        middle = said(told, p99_9_ns=half.p99_9_ns.bounds, capacity_hz=half.capacity_hz.value)
    if successor:
        many = successor in (str(Verdict.CPU), str(Verdict.BURST))
        over = ForecastSaid.TAKE_OVER if many else ForecastSaid.TAKES_OVER
        since = said(over, who=words.limit(successor, "`"))
    gain = said(
        ForecastSaid.STAGE,
        stage=stage,
        speedup=first,
        tail=tail,
        base_hz=base.capacity_hz.value,
        faster_hz=better.capacity_hz.value,
        half=middle,
    )
    if kind == "total":
        return said(ForecastSaid.KEEPS_PAYING, sentence=gain, most_hz=best.capacity_hz.value)
    if kind == "limited" and knee is not None:
        return said(ForecastSaid.PAYS_UP_TO, sentence=gain, knee=knee.value, since=since)
    return said(ForecastSaid.DOES_NOT_RISE, sentence=gain, since=since)
