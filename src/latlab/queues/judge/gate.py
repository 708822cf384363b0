"""The gate in front of every verdict: it is said only where all that was seen agrees with it.

Each function looks for one contradiction, and returns it as data; any of them withholds the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latlab.model.queues.analysis import Doubt, DoubtKind, QueueResult, SocketResult, Verdict
from latlab.model.queues.observation import Observation
from latlab.queues.judge.lines import in_circles
from latlab.queues.judge.measures.measured import Measured
from latlab.queues.judge.measures.series import Series, is_limited, is_pool
from latlab.queues.judge.measures.threads import every_thread, stage_times
from latlab.queues.judge.sentences import overflowing

__all__ = ["BACKED_UP", "SMALL", "doubts_about"]

_AT_WORK = 0.5  # of the time, a stage that limits has work and room …
_SMALL_QUEUES = (0.4, 0.6)  # … or so long, if with what it has in hand it is busy for so long: queues of one
_WHOLE = 1.02  # shares of time that blocks and interpolation may show at most
_LOOSE = 8  # events in the hands of threads between the queue and its counts
_MOST_NEGATIVE = 8  # likewise
BACKED_UP = 0.3  # of the time, a queue that is not a small one is full: somebody behind it is slow
SMALL = 8
_LATE = 0.05  # of the time, a thread without a CPU: then what was due came later, and together
_ALWAYS = 0.95  # of the time, who is behind a stage that limits does not have an event
_OFTEN_FULL = 0.05  # of the time: then who fills a queue had more to give, at least at times
_NEARLY_ALL = 0.95  # of the time
_AS_SLOW = 0.02  # faster than the stage that it feeds, a source may be at most to be as slow
_ASLEEP = 0.5  # CPUs at most, of a stage whose events take their time in sleeps and other waits
_HALF_EMPTY = 0.5  # of its room, or of a small queue's: what holds less on average doesn't hold its source up
_BUSY_LOOP = 0.8  # of the time, an event loop runs or has no CPU: then somebody in it computes


def doubts_about(
    named: str | None,
    verdict: Verdict,
    observation: Observation,
    measured: Measured,
    series: Series,
    queues: tuple[QueueResult, ...],
    moving: float,
    sockets: tuple[SocketResult, ...] = (),
) -> tuple[Doubt, ...]:
    """All contradictions, the worst first.

    Args:
        named: the stage that would be named, or a type of stages.
        queues: of the same line as the series.
        moving: share of the time that the named stage limits, where several do in turn; else 1.
        sockets: the kernel's receive buffers.
    """
    found = [*_swapped(series), *_above_capacity(series), *_more_out_than_in(series), *_above_whole(measured)]
    if verdict is Verdict.STAGE and named is not None:
        rarely = _rarely_at_work(named, measured, moving)
        found += rarely and (_goes_round(measured, series) or rarely)
        found += _never_starved(named, measured, series)
        found += _source_as_slow(named, observation, measured, series)
        found += _never_behind(named, observation, measured, series)
    if verdict is Verdict.BURST:
        found += _came_late(observation, series, queues)
    if verdict is Verdict.NONE:
        found += _backed_up(queues)
        found += _socket_drops(sockets)
        found += _busy_loop(observation, series)
        found += _goes_round(measured, series)
    return tuple(found)


def _rarely_at_work(named: str, measured: Measured, moving: float) -> list[Doubt]:
    """The named stage, or the best of its type, has work and room for most of the time."""
    rows = [i for i, view in enumerate(measured.views) if named in (view.label, view.type)]
    if not rows:
        return []
    # What a stage has in hand is work too, where its own times or the counts on both of its sides tell it.
    shares = [
        max(
            float(measured.ready[i]),
            float(measured.busy[i].sum() / measured.time.sum())
            if measured.views[i].label in measured.own
            else 0.0,
        )
        for i in rows
    ]
    best = int(np.argmax(shares))
    in_hand = float(measured.busy[rows[best]].sum() / measured.time.sum())
    if shares[best] >= _AT_WORK * moving:
        return []
    if shares[best] >= _SMALL_QUEUES[0] * moving and in_hand >= _SMALL_QUEUES[1] * moving:
        return []
    return [Doubt(DoubtKind.RARELY_AT_WORK, measured.views[rows[best]].label, "", shares[best], _AT_WORK)]


def _never_starved(named: str, measured: Measured, series: Series) -> list[Doubt]:
    """What is behind the named stage always has an event: then it is what limits, or something behind it is.

    As of a thread that writes into a pipe: the pipe's own room is not seen, and the thread seems to work.
    """
    found: list[Doubt] = []
    if measured.work is measured.demand:
        return found  # all of them wait for CPUs or a lock, also with an event in front of them
    for view in measured.views:
        if named not in (view.label, view.type):
            continue
        for row in view.outputs:
            queue = series.queues[row]
            some = float((series.low[row] >= 1) @ series.weights / max(series.seconds, 1e-12))
            if queue.drain and queue.drain != view.label and not is_pool(queue) and some >= _ALWAYS:
                found.append(Doubt(DoubtKind.NEVER_STARVED, queue.name, queue.drain, some, _ALWAYS))
    return found


def _source_as_slow(named: str, observation: Observation, measured: Measured, series: Series) -> list[Doubt]:
    """Those that bring all events from outside, and tell that they hardly ever wait for room.

    Sources are not ranked with the stages, but a faster stage gains at most the time that its source waits.
    One that is paced never waits either: in front of a stage with time to spare it is left alone.
    """
    rows = [i for i, view in enumerate(measured.views) if named in (view.label, view.type)]
    if len(rows) != 1 or measured.work is measured.demand:
        return []
    first, seconds = rows[0], max(float(measured.time.sum()), 1e-12)
    busy = float(measured.work[first].sum()) / seconds
    known = {view.label for view in measured.views}
    fed = [
        row for row, queue in enumerate(series.queues)
        if not known.intersection(queue.sources) and not is_pool(queue)
    ]  # fmt: skip
    works = stage_times(observation, measured.edges)
    sources = {series.queues[row].source for row in fed}
    if not sources or not sources <= works.keys():
        return []
    full = _full([row for row in fed if not series.dropped[row]], series)
    if full <= _OFTEN_FULL and busy < _NEARLY_ALL:
        return []
    shares = {source: max(0.0, 1.0 - float(works[source].sum()) / seconds) for source in sources}
    most = max(shares, key=lambda source: shares[source])
    if 1.0 - shares[most] <= min(busy, 1.0) * (1.0 - max(float(measured.error[first]), _AS_SLOW)):
        return []
    return [Doubt(DoubtKind.SOURCE_AS_SLOW, measured.views[first].label, most, shares[most], busy)]


def _full(rows: Sequence[int], series: Series) -> float:
    """The share of the time that the fullest of these queues is full; 0 where none has a bound."""
    times = (
        float(series.weights[series.low[row] >= series.queues[row].capacity].sum())
        for row in rows
        if is_limited(series.queues[row])
    )
    return max(times, default=0.0) / max(series.seconds, 1e-12)


def _never_behind(named: str, observation: Observation, measured: Measured, series: Series) -> list[Doubt]:
    """A stage that hardly runs, and whose queue is rarely more than half full: who feeds it may be as slow.

    A source that gives more than the stage takes fills its queue; of two that are equally slow the queue
    wanders. One that computes holds up a source that shares its loop, or the interpreter's lock: of that an
    empty queue tells nothing.
    """
    rows = [i for i, view in enumerate(measured.views) if named in (view.label, view.type)]
    if len(rows) != 1 or measured.work is measured.demand:
        return []
    (first,) = rows
    view, known = measured.views[first], {one.label for one in measured.views}
    if float(measured.demand[first].sum()) >= _ASLEEP * float(measured.time.sum()) or not view.inputs:
        return []
    queues = [series.queues[row] for row in view.inputs]
    if any(known.intersection(queue.sources) or is_pool(queue) for queue in queues):
        return []
    silent = {queue.source for queue in queues} - stage_times(observation, measured.edges).keys()
    held = [float(series.low[row] @ series.weights) / max(series.seconds, 1e-12) for row in view.inputs]
    rooms = [min(queue.capacity, SMALL) if is_limited(queue) else SMALL for queue in queues]
    behind = any(some > _HALF_EMPTY * room for some, room in zip(held, rooms, strict=True))
    full = _full(view.inputs, series)
    if not silent or behind or full > _OFTEN_FULL:
        return []
    return [Doubt(DoubtKind.NEVER_BEHIND, view.label, min(silent), max(held), full)]


def _above_whole(measured: Measured) -> list[Doubt]:
    shares = measured.busy.sum(axis=1) / max(float(measured.time.sum()), 1e-12)
    return [
        Doubt(DoubtKind.ABOVE_WHOLE, measured.views[i].label, "", float(shares[i]), 1.0)
        for i in np.flatnonzero(shares > _WHOLE).tolist()
    ]


def _above_capacity(series: Series) -> list[Doubt]:
    """Half of the time more events than fit: one side is counted without the other, as of a child process."""
    found = []
    for row, queue in enumerate(series.queues):
        if not is_limited(queue) or not series.seen[row].any():
            continue
        usual = float(np.median(series.low[row][series.seen[row]]))
        if usual > queue.capacity + _LOOSE:
            found.append(Doubt(DoubtKind.ABOVE_CAPACITY, queue.name, "", usual, float(queue.capacity)))
    return found


def _more_out_than_in(series: Series) -> list[Doubt]:
    found = []
    for row, queue in enumerate(series.queues):
        missing = series.out[row] - series.in_[row]
        usual = float(np.median(missing[series.seen[row]])) if series.seen[row].any() else 0.0
        if usual > _MOST_NEGATIVE:
            found.append(Doubt(DoubtKind.MORE_OUT_THAN_IN, queue.name, "", usual))
    return found


def _swapped(series: Series) -> list[Doubt]:
    """A thread that is one stage at all other queues, and the opposite end of this one.

    One thread at both ends (an event loop, a main thread that feeds and collects) tells nothing.
    """
    found = []
    labels: dict[int, dict[str, int]] = {}  # by thread: at how many ends it is which stage
    ends = [
        (tid, label)
        for queue in series.queues
        if not is_pool(queue)
        for tid, label in ((queue.producer_tid, queue.source), (queue.consumer_tid, queue.drain))
        if label
    ]
    for tid, label in ends:
        counts = labels.setdefault(tid, {})
        counts[label] = counts.get(label, 0) + 1
    for queue in series.queues:
        put, took = queue.producer_tid, queue.consumer_tid
        if not put or not took or put == took or is_pool(queue) or not (queue.source and queue.drain):
            continue
        elsewhere = {
            tid: {label for label, count in labels[tid].items() if count > (label == here)}
            for tid, here in ((put, queue.source), (took, queue.drain))
        }
        for tid, said, opposite in ((put, queue.source, queue.drain), (took, queue.drain, queue.source)):
            if elsewhere[tid] and said not in elsewhere[tid] and opposite in elsewhere[tid]:
                found.append(Doubt(DoubtKind.SWAPPED_ENDS, queue.name, opposite))
                break
    return found


def _backed_up(queues: tuple[QueueResult, ...]) -> list[Doubt]:
    """Nothing seems slow, and yet a queue that is not a small one stands full."""
    return [
        Doubt(DoubtKind.BACKED_UP, queue.name, queue.drain, queue.full, BACKED_UP)
        for queue in queues
        if queue.capacity >= SMALL
        and queue.kind != "pool"
        and queue.source != queue.drain
        and queue.full >= BACKED_UP
    ]


def _came_late(observation: Observation, series: Series, queues: tuple[QueueResult, ...]) -> list[Doubt]:
    """A queue overflows, and a thread at its ends often lacked a CPU.

    A source that was kept from running puts on at once what became due meanwhile, and one that drains lets
    events pile up: neither is a burst of the input.
    """
    full = overflowing(queues)
    queue = next((queue for queue in series.queues if full is not None and queue.number == full.number), None)
    if queue is None or len(series.t_ns) < 2:
        return []
    ends = {queue.consumer_tid: queue.drain, queue.producer_tid: queue.source}
    window = (int(series.t_ns[0]), int(series.t_ns[-1]))
    late = [one for one in every_thread(observation, window, ends.keys() - {0}) if one.wait >= _LATE]
    worst = max(late, key=lambda one: one.wait, default=None)
    return (
        [] if worst is None else [Doubt(DoubtKind.CAME_LATE, queue.name, ends[worst.tid], worst.wait, _LATE)]
    )


def _busy_loop(observation: Observation, series: Series) -> list[Doubt]:
    """An event loop that always runs: who computes in it never lets a queue fill, since nobody else puts."""
    loops: dict[int, set[str]] = {}
    for queue in series.queues:
        if "asyncio" in queue.implementation.lower() and queue.consumer_tid:
            loops.setdefault(queue.consumer_tid, set()).add(queue.drain)
    at = observation.sweeps["t_ns"]
    if not loops or len(at) < 2:
        return []
    return [
        Doubt(DoubtKind.BUSY_LOOP, ", ".join(sorted(loops[one.tid])), "", one.cpu + one.wait, _BUSY_LOOP)
        for one in every_thread(observation, (int(at[0]), int(at[-1])), set(loops))
        if one.cpu + one.wait >= _BUSY_LOOP
    ]


def _goes_round(measured: Measured, series: Series) -> list[Doubt]:
    """Stages that give each other all their events want for no load: how many go round limits them.

    As of a window of requests under way, or a delay that keeps many at a time and is busy with none.
    """
    used = [
        row for row, queue in enumerate(series.queues) if not is_pool(queue) and queue.source != queue.drain
    ]
    around = in_circles([(queue.source, queue.drain) for queue in series.queues])
    # (One that unlike stages fill is in no circle by that: then nothing is said.)
    if not used or not around.issuperset(used):
        return []
    known = [view for view in measured.views if view.held is not None]
    if len(known) < len(measured.views):
        return []
    seconds = max(series.seconds, 1e-12)
    hands = [float(view.held @ series.weights) / seconds for view in known if view.held is not None]
    most = int(np.argmax(hands))
    in_queues = float(series.low[used].sum(axis=0) @ series.weights) / seconds
    return [Doubt(DoubtKind.GOES_ROUND, known[most].label, "", hands[most], in_queues + sum(hands))]


def _socket_drops(sockets: tuple[SocketResult, ...]) -> list[Doubt]:
    """The kernel dropped what nobody knows who should have read it in time."""
    return [
        Doubt(DoubtKind.SOCKET_DROPS, socket.name, socket.drain, float(socket.dropped))
        for socket in sockets
        if socket.dropped > 0 and not socket.drain
    ]
