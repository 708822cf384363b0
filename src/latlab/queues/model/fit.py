"""A queueing model fitted to what was observed: arrival and service processes, capacities and routes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from latlab.errors import NotTrustworthyError
from latlab.model.queues.observation import Observation, QueueKind
from latlab.model.queues.queueing import ModelQueue, ModelSource, ModelStage, QueueingModel
from latlab.queues.judge.measures.measured import Measured, measure
from latlab.queues.judge.measures.series import Series, expand, is_limited, steady_window
from latlab.queues.judge.measures.stages import Manner, StageView, manner_of
from latlab.queues.judge.measures.threads import stage_times
from latlab.queues.model.circles import events_in_circles

__all__ = ["fit_model", "served_hz", "service_bounds"]

_MOST_COUNTS = 50_000  # 5 s at 100 µs: bursts are shorter than a longer period
_MOST_VARIATION = 10.0
_FEWEST_EVENTS, _FEWEST_BLOCKS = 500, 20  # to tell interruptions from what services vary
_BEYOND = 4.0  # standard deviations
_OFTEN_FULL = 0.05  # of the time: then its source, unless it drops, had more to give
_TIGHT = 0.9  # of its upper bound: a service that is known to be so long is known


def fit_model(observation: Observation, *, exclude: tuple[str, ...] = ()) -> QueueingModel:
    """The model of what was observed.

    A stage's mean service time is its busy time over the events that it took; its variation comes from how
    much that ratio varies from block to block. Blocks that stand out show interruptions, which are few and
    long, and kept apart: services that vary by as much would wait otherwise.
    Stages whose threads are a pool or shared (a group) are one, with a worker for each thread that was seen.
    Arrivals are kept as they were counted, period by period. In a circle stay as many events as were seen in
    it, and so do lent objects of a pool; those that a stage takes and gives back itself are left out.

    Raises:
        NotTrustworthyError: when no stage took any event.
    """
    window = steady_window(observation)
    series = expand(observation, window, exclude=exclude)
    measured = measure(observation, series, window)
    nodes = _nodes(observation, measured, series)
    stages, taken = [], {}
    for name in dict.fromkeys(nodes.values()):
        rows = [i for i, view in enumerate(measured.views) if nodes[view.label] == name]
        inputs = [row for i in rows for row in measured.views[i].inputs]
        view = measured.views[rows[0]]
        joined = len(inputs) if len(rows) == 1 and view.joins else 1
        events = int((series.out[inputs, -1] - series.out[inputs, 0]).sum()) // joined
        taken[name] = events
        if events:
            types = list(dict.fromkeys(measured.views[i].type for i in rows))
            type_ = types[0] if len(types) == 1 else ""
            workers = _workers(observation, name) if len(rows) > 1 else int(measured.workers[rows[0]])
            stage = _stage(name, type_, workers, measured, rows, events, joined)
            lent = any(series.queues[row].source != series.queues[row].drain for row in view.pools)
            stages.append(replace(stage, joins=joined > 1 or (lent and len(inputs) == 1)))
    known = {stage.name for stage in stages}
    if not known:
        raise NotTrustworthyError("no stage took any event", remedy="record while the application works")
    sources, queues = [], []
    told = {label: float(busy.sum()) for label, busy in stage_times(observation, measured.edges).items()}
    names = _names(series)
    ends = [
        (nodes.get(queue.source, queue.source), nodes.get(queue.drain, queue.drain))
        for queue in series.queues
    ]
    initial = events_in_circles(measured.views, measured.busy, series, ends)
    for row, queue in enumerate(series.queues):
        source, drain = ends[row]
        if drain not in known or source == drain or (queue.kind is QueueKind.POOL and source not in known):
            continue
        came = int(series.in_[row][-1] - series.in_[row][0])
        capacity = queue.capacity if is_limited(queue) else 0
        share = came / taken[source] if source in known else 1.0
        queues.append(ModelQueue(names[row], source, drain, capacity, round(share, 6), initial.get(row, 0)))
        if source not in known:
            sources.append(_source(series, row, names[row], told.get(queue.source)))
    return QueueingModel(tuple(sources), tuple(stages), tuple(queues))


def served_hz(observation: Observation, ends: set[str], *, exclude: tuple[str, ...] = ()) -> float:
    """Events a second that some nodes of the model took, together: of its last ones what came through."""
    window = steady_window(observation)
    series = expand(observation, window, exclude=exclude)
    measured = measure(observation, series, window)
    nodes = _nodes(observation, measured, series)
    return sum(
        float(measured.taken[i].sum()) / (len(view.inputs) if view.joins else 1)
        for i, view in enumerate(measured.views)
        if nodes[view.label] in ends
    ) / max(float(measured.time.sum()), 1e-12)


def service_bounds(observation: Observation, *, exclude: tuple[str, ...] = ()) -> dict[str, float]:
    """The stages of the model whose service is not known, with the longest that it may be, in ns.

    A stage that publishes its own times is known. Counts alone bound one that takes an event out before it
    serves it and puts none on, and one whose output is full for long: it may serve, or wait for room.

    Raises:
        NotTrustworthyError: when next to nothing was sampled.
    """
    window = steady_window(observation)
    series = expand(observation, window, exclude=exclude)
    measured = measure(observation, series, window)
    manner = manner_of(measured.views, series)
    nodes = _nodes(observation, measured, series)
    seconds = float(measured.time.sum())
    longest: dict[str, float] = {}
    taken: dict[str, int] = {}
    unknown = set()
    for i, view in enumerate(measured.views):
        most, node = seconds * _most_at_work(view, series, manner), nodes[view.label]
        known = float(measured.busy[i].sum())
        tight = view.label in measured.own or float(measured.ready[i]) * seconds >= _TIGHT * most
        if tight or _is_counted(i, view, series, manner, measured):
            most = known
        else:
            unknown.add(node)
        longest[node] = longest.get(node, 0.0) + max(most, known) * int(measured.workers[i])
        taken[node] = taken.get(node, 0) + int(measured.taken[i].sum())
    return {node: longest[node] / taken[node] * 1e9 for node in longest if node in unknown and taken[node]}


def _most_at_work(view: StageView, series: Series, manner: Manner) -> float:
    """The share of the time in which a stage may have had an event in hand, as far as its counts say."""
    waiting = series.low[list(view.inputs)] >= 1
    work = waiting.all(axis=0) if view.joins else waiting.any(axis=0)
    if manner.holds:
        some = work
    elif view.held is None:
        return 1.0
    else:
        some = work | (view.held > 0)
    return float((some * series.weights).sum() / max(series.seconds, 1e-12))


def _is_counted(i: int, view: StageView, series: Series, manner: Manner, measured: Measured) -> bool:
    """The counts around a stage tell when it was at work, and not only when it may have been."""
    if not manner.holds and (view.held is None or manner.holds is None):
        return False
    return float(measured.blocked[i]) < _OFTEN_FULL or (not manner.holds and manner.waits_first)


def _names(series: Series) -> list[str]:
    """A name for each queue that no other has: processes of one application have queues of one name."""
    given = [queue.name or "queue" for queue in series.queues]
    found: list[str] = []
    for name, queue in zip(given, series.queues, strict=True):
        told = name if given.count(name) == 1 and queue.name else f"{name}-{queue.number}"
        while told in found or (told != name and told in given):
            told += "'"
        found.append(told)
    return found


def _stage(
    name: str, type_: str, workers: int, measured: Measured, rows: list[int], events: int, joined: int
) -> ModelStage:
    """The service times of stages taken together, from their busy time and events block by block.

    What a block is busy for beyond its events and what these vary (robustly: by the median of its deviation)
    are interruptions; neighbouring blocks share one.
    """
    if len(rows) == 1:
        busy = measured.served(rows[0])
    else:
        busy = (measured.busy[rows] * measured.workers[rows, None]).sum(axis=0)
    per = measured.taken[rows].sum(axis=0) / joined
    mean = float(busy.sum()) / events
    some = per > 0
    beyond = np.zeros(len(busy))
    if events >= _FEWEST_EVENTS and some.sum() >= _FEWEST_BLOCKS and mean > 0:
        usual = float(np.median(busy[some] / per[some]))
        each = (busy - usual * per) / np.sqrt(np.maximum(per, 1))
        spread = max(1.4826 * float(np.median(np.abs(each[some]))), 0.02 * usual)
        beyond = np.maximum(busy - usual * per, 0.0)
        beyond[each <= _BEYOND * spread] = 0.0
    count = int((np.diff((beyond > 0).astype(int), prepend=0) == 1).sum())
    extra = float(beyond.sum())
    plain = max(mean - extra / events, 0.0)
    residuals = busy - beyond - plain * per
    variation = np.sqrt(float((residuals**2).sum()) / events) / plain if plain else 0.0
    return ModelStage(
        name,
        plain * 1e9,
        round(float(min(variation, _MOST_VARIATION)), 3),
        workers,
        type_,
        count / events,
        extra / count * 1e9 if count else 0.0,
    )


def _nodes(observation: Observation, measured: Measured, series: Series) -> dict[str, str]:
    """The node of the model for each stage's label: itself, or the group whose threads it shares.

    A group is one node where all of its stages tell their own times, and none fills another's queue.
    """
    groups: dict[str, list[str]] = {}
    labels = {view.label for view in measured.views}
    told = measured.own.keys()
    for stage in observation.stages:
        if stage.group and stage.label in labels:
            groups.setdefault(stage.group, []).append(stage.label)
    found = {view.label: view.label for view in measured.views}
    for group, members in groups.items():
        inner = any(queue.source in members and queue.drain in members for queue in series.queues)
        if len(set(members)) > 1 and group not in labels and not inner and told >= set(members):
            found.update(dict.fromkeys(members, group))
    return found


def _workers(observation: Observation, group: str) -> int:
    """Threads that were seen to run a group."""
    stages = [stage for stage in observation.stages if stage.group == group]
    labels = {stage.label for stage in stages}
    tids = {stage.tid for stage in stages}
    tids |= {queue.consumer_tid for queue in observation.queues if queue.drain in labels}
    return max(1, len(tids - {0}))


def _source(series: Series, row: int, name: str, busy: float | None) -> ModelSource:
    """What comes from outside into a queue.

    Args:
        busy: seconds that its source did not wait for room, where it says so.
    """
    queue = series.queues[row]
    came = np.diff(series.in_[row])
    dropped = int(series.dropped[row])
    offered = int(came.sum()) + dropped
    full = float(series.weights[series.low[row] >= queue.capacity].sum()) / series.seconds
    saturated = is_limited(queue) and not dropped and full > _OFTEN_FULL
    period, counts = _counts(came, series)
    if dropped and counts.sum():
        counts = np.rint(counts * (offered / counts.sum())).astype(np.int64)
    return ModelSource(
        name,
        # By the clock: the weights of a series leave out what the sampler did not see.
        offered * 1e9 / max(1, int(series.t_ns[-1] - series.t_ns[0])),
        _gap_variation(counts),
        drops=dropped > 0,
        saturated=saturated,
        period_ns=0 if saturated else period,
        counts=() if saturated else tuple(counts.tolist()),
        most_hz=int(came.sum()) / busy if saturated and busy else None,
    )


def _counts(came: NDArray[np.int64], series: Series) -> tuple[int, NDArray[np.int64]]:
    """Events in periods of equal length, at most `_MOST_COUNTS`."""
    length = int(series.t_ns[-1] - series.t_ns[0])
    count = max(1, min(_MOST_COUNTS, len(came)))
    period = max(1, length // count)
    # What a sweep saw new came since the one before: in the middle, and a burst in one piece.
    middle = (series.t_ns[1:] + series.t_ns[:-1]) // 2 - series.t_ns[0]
    sums = np.bincount(np.minimum(middle // period, count - 1), weights=came, minlength=count)
    return period, np.rint(sums).astype(np.int64)


def _gap_variation(counts: NDArray[np.int64]) -> float:
    """Of a renewal process the variance of counts over their mean tends to the square of the gaps' variation
    (Cox and Lewis, "The Statistical Analysis of Series of Events", 1966, sec. 4.6).
    """
    several = counts[: len(counts) // 10 * 10].reshape(-1, 10).sum(axis=1) if len(counts) >= 100 else counts
    mean = float(several.mean()) if len(several) else 0.0
    if mean <= 0:
        return 1.0
    return round(float(min(np.sqrt(several.var() / mean), _MOST_VARIATION)), 3)
