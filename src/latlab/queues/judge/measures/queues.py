"""Statistics of each queue: fills, bursts, growth, Little's law."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from latlab.model.queues.analysis import Burst, QueueResult
from latlab.model.queues.observation import QueueKind
from latlab.queues.judge.measures.series import Series, is_limited

__all__ = ["bursts_of", "queue_results"]

_MOST_BURSTS = 1000


def queue_results(series: Series) -> tuple[QueueResult, ...]:
    """Every queue over the window of a series."""
    bursts = {row: bursts_of(series, row) for row in range(len(series.queues))}
    return tuple(_result(series, row, _travelled(series, row, bursts)) for row in range(len(series.queues)))


def _result(series: Series, row: int, bursts: tuple[Burst, ...]) -> QueueResult:
    queue, seen = series.queues[row], series.seen[row]
    low, high, weights = series.low[row][seen], series.high[row][seen], series.weights[seen]
    seconds = float(weights.sum()) or 1.0
    middle = (low + high) / 2
    mean = float((middle * weights).sum() / seconds)
    some = low >= 1
    nonzero = float(weights[some].sum())
    came = int(series.in_[row][seen][-1] - series.in_[row][seen][0]) if seen.any() else 0
    went = int(series.out[row][seen][-1] - series.out[row][seen][0]) if seen.any() else 0
    # By the clock: what came while the sampler did not look was counted too.
    elapsed = float(np.ptp(series.t_ns[seen])) / 1e9 + float(weights[-1]) if seen.any() else 1.0
    capacity = queue.capacity if is_limited(queue) else 0

    def above(share: float) -> float:
        return float(weights[low >= share * capacity].sum() / seconds) if capacity else 0.0

    p50, p99 = _weighted_ranks(low, weights, (0.5, 0.99))
    return QueueResult(
        number=queue.number,
        name=queue.name,
        kind=str(queue.kind),
        source=queue.source,
        drain=queue.drain,
        capacity=queue.capacity,
        samples=int(seen.sum()),
        nonempty_samples=(int(some.sum()), int((high >= 1).sum())),
        sum_of_fills=(int(low.sum()), int(high.sum())),
        mean_fill=mean,
        mean_nonzero_fill=float((middle * weights)[some].sum() / nonzero) if nonzero else 0.0,
        fill_p50=p50,
        fill_p99=p99,
        fill_max=int(high.max(initial=0)),
        above_50=above(0.5),
        above_80=above(0.8),
        full=above(1.0),
        total_in=came,
        total_out=went,
        dropped=int(series.dropped[row]),
        blocked=int(series.blocked[row]),
        rate_in_hz=came / elapsed,
        rate_out_hz=went / elapsed,
        # Little (1961): L = λW, of what left within the window.
        residence_ns=mean * elapsed / went * 1e9 if went else None,
        growth_hz=_slope(series.t_ns[seen], middle),
        bursts=bursts,
    )


def _weighted_ranks(
    values: NDArray[np.int64], weights: NDArray[np.float64], shares: tuple[float, ...]
) -> list[int]:
    if not len(values):
        return [0] * len(shares)
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    at = np.searchsorted(sums, np.array(shares) * sums[-1] * (1 - 1e-12))
    return [int(values[order[min(int(i), len(values) - 1)]]) for i in at.tolist()]


def _slope(t_ns: NDArray[np.int64], values: NDArray[np.float64]) -> float:
    if len(t_ns) < 2:
        return 0.0
    seconds = (t_ns - t_ns[0]) / 1e9
    centred = seconds - seconds.mean()
    scale = float((centred**2).sum())
    return float((centred * (values - values.mean())).sum() / scale) if scale else 0.0


def bursts_of(series: Series, row: int) -> tuple[Burst, ...]:
    """Stretches in which a queue stood above half of its highest fill, having been at its usual one before.

    Half of the maximum, if that is well above the median: a queue that is always full bursts as little as one
    that is always empty. A burst lasts from the sweep at which the fill left the median until it is back
    there.
    """
    queue, fill = series.queues[row], series.low[row]
    if queue.kind is QueueKind.POOL or not len(fill):
        return ()
    usual, highest = int(np.median(fill)), int(fill.max())
    if highest < 8 or highest < 4 * max(1, usual):
        return ()
    above = fill > usual
    edges = np.diff(np.concatenate(([0], above.astype(np.int8), [0])))
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    heights = (
        np.maximum.reduceat(fill, np.minimum(begins, len(fill) - 1)) if len(begins) else np.empty(0, np.int64)
    )
    found = [
        Burst(
            int(series.t_ns[b]), int(series.t_ns[min(e, len(fill) - 1)]), int(fill[b:e].max()), queue.number
        )
        for b, e, height in zip(begins.tolist(), ends.tolist(), heights, strict=True)
        if height >= highest / 2
    ]
    return tuple(found[:_MOST_BURSTS])


def _travelled(series: Series, row: int, bursts: dict[int, tuple[Burst, ...]]) -> tuple[Burst, ...]:
    """The bursts of a queue, each with the following queue in which one began while it lasted."""
    if not bursts[row]:
        return ()
    drain = series.queues[row].drain
    following = [r for r, queue in enumerate(series.queues) if drain and queue.source == drain and r != row]
    joined = []
    for burst in bursts[row]:
        later = [
            (other.from_ns, other.queue)
            for r in following
            for other in bursts[r]
            if burst.from_ns <= other.from_ns <= burst.to_ns
        ]
        next_queue = min(later)[1] if later else None
        joined.append(Burst(burst.from_ns, burst.to_ns, burst.height, burst.queue, next_queue))
    return tuple(joined)
