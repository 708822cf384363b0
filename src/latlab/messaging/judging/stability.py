"""Whether latencies stay as they are, or a queue grows: pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["stability"]

Integers = npt.NDArray[np.int64]
_MORE_WAITING, _SLOWER = 5, 0.001  # messages in the end, and of the run's time: of a queue that grows


def stability(sent: Integers, latency: Integers, blocks: int = 40) -> tuple[str, float | None]:
    """Whether the latency is stable, rising (a queue that grows) or falling, and by how many ns a second.

    Medians of `blocks` equal parts of the run, Kendall's tau against time at the 0.1 % level (Mann,
    Nonparametric tests against trend, Econometrica 13 (1945)), and a change over the run of more than half
    the median latency: a trend that is sure but small is not a queue that grows. With M = 1 the change is
    the sum of RO_n - SO_n. A queue that grows also has some messages more in it in the end (by Little's law,
    Operations Research 9 (1961)), and takes a part of the run's time that is more than a change of pace.
    """
    if latency.size < 4 * blocks:
        return "undecided", None
    size = latency.size // blocks
    # Ten thousand messages, evenly spaced, tell a block's median well enough.
    parts = latency[: size * blocks].reshape(blocks, size)[:, :: max(1, size // 10_000)]
    middle = (parts.shape[1] - 1) // 2
    parts = np.partition(parts, middle, axis=1)[:, middle].astype(np.float64)
    pairs = np.sign(parts[None, :] - parts[:, None])[np.triu_indices(blocks, 1)]
    score = float(pairs.sum())
    deviation = np.sqrt(blocks * (blocks - 1) * (2 * blocks + 5) / 18.0)
    slopes = (parts[None, :] - parts[:, None])[np.triu_indices(blocks, 1)]
    apart = np.subtract(*np.triu_indices(blocks, 1)[::-1])
    change = float(np.median(slopes / apart)) * (blocks - 1)
    seconds = float(sent[-1] - sent[0]) / 1e9
    drift = change / seconds if seconds > 0 else None
    if abs(score) / deviation < 3.29 or abs(change) <= 0.5 * float(np.median(parts)):
        return "stable", drift
    if change < 0:
        return "falling", drift
    more = change / 1e9 * latency.size / seconds if seconds > 0 else 0.0
    grows = more >= _MORE_WAITING and change >= _SLOWER * seconds * 1e9
    return ("rising" if grows else "stable"), drift
