"""Where a series changes its level: warm-up, drift in steps, a regression in a history.

Binary segmentation with a permutation test on ranks, as the E-divisive procedure does on distances (Matteson
and James, JASA 109 (2014); for performance histories Daly et al., "The use of change point detection to
identify software performance regressions in a continuous integration system", ICPE 2020). Ranks make outliers
harmless. Permuting blocks instead of single values keeps short-range correlation from being taken for a
change."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["ChangePoint", "change_points"]

Floats = npt.NDArray[np.float64]
_LONGEST = 1024  # of a series that is searched value by value; longer ones by medians of stretches
_PERMUTATIONS = 199


@dataclass(frozen=True)
class ChangePoint:
    """A change of level.

    Attributes:
        index: of the first value after the change.
        before: median from the previous change on.
        after: median up to the next change.
        p_value: by permutation, of the split that found it; not below 1/200.
    """

    index: int
    before: float
    after: float
    p_value: float


def change_points(
    values: npt.ArrayLike, *, alpha: float = 0.01, shortest: int = 5, seed: int = 1
) -> list[ChangePoint]:
    """The changes of level in a series, in order.

    Args:
        values: shape (n,), in the order measured.
        alpha: level of each split's test.
        shortest: values that a level must last.
        seed: of the permutations.

    Raises:
        ValueError: a value isn't finite.
    """
    x = np.asarray(values, dtype=np.float64)
    if not np.isfinite(x).all():
        raise ValueError("a value is not a finite number")
    stride = -(-len(x) // _LONGEST)
    if stride > 1:
        whole = len(x) // stride * stride
        series = np.median(x[:whole].reshape(-1, stride), axis=1)
    else:
        series = x
    found: list[tuple[int, float]] = []
    _split(series, 0, len(series), alpha, shortest, np.random.default_rng(seed), found)
    cuts = [(index * stride, p) for index, p in sorted(found)]
    edges = [0, *[index for index, _ in cuts], len(x)]
    return [
        ChangePoint(
            index,
            float(np.median(x[edges[i] : index])),
            float(np.median(x[index : edges[i + 2]])),
            p,
        )
        for i, (index, p) in enumerate(cuts)
    ]


def _split(
    series: Floats, start: int, end: int, alpha: float, shortest: int, random: np.random.Generator,
    found: list[tuple[int, float]],
) -> None:  # fmt: skip
    count = end - start
    if count < 2 * shortest:
        return
    ranks = _ranks(series[start:end])
    if np.ptp(ranks) == 0:
        return
    strongest = _scan(ranks[None, :], shortest)
    index, height = int(strongest[0][0]), float(strongest[1][0])
    block = min(_correlation_length(ranks), count // 6) if count >= 12 else 1
    blocks = -(-count // block)
    padded = np.arange(blocks * block).reshape(blocks, block)
    orders = np.argsort(random.random((_PERMUTATIONS, blocks)), axis=1)
    shuffled = padded[orders].reshape(_PERMUTATIONS, -1)
    heights = np.array(
        [_scan(ranks[row[row < count]][None, :], shortest)[1][0] for row in shuffled]
        if blocks * block != count
        else _scan(ranks[shuffled], shortest)[1]
    )
    p_value = float((1 + np.sum(heights >= height)) / (1 + _PERMUTATIONS))
    if p_value > alpha:
        return
    index = _placed(series[start:end], index, shortest)
    found.append((start + index, p_value))
    _split(series, start, start + index, alpha, shortest, random, found)
    _split(series, start + index, end, alpha, shortest, random, found)


def _placed(values: Floats, index: int, shortest: int) -> int:
    """The split near `index` that leaves the least distance from the medians at its sides.

    Ranks tell that there is a change, and not so well where: a last low value that happens to be the highest
    of them counts as the first high one.
    """
    near = range(max(shortest, index - shortest), min(len(values) - shortest, index + shortest) + 1)

    def rest(at: int) -> float:
        return sum(float(np.abs(side - np.median(side)).sum()) for side in (values[:at], values[at:]))

    return min(near, key=rest)


def _correlation_length(ranks: Floats) -> int:
    """Values in a block that is nearly independent of the next.

    Of an autoregressive series the lag-1 correlation of the *differences* is (phi - 1) / 2. Changes of
    level hardly show in differences, so they aren't taken for correlation.
    """
    steps = np.diff(ranks)
    usual = 2 * float(np.median(np.abs(steps)))
    steps = np.clip(steps, -usual, usual)  # or one change of level would outweigh all else
    square = float(steps @ steps)
    if square == 0:
        return 1
    phi = 1 + 2 * float(steps[1:] @ steps[:-1]) / square
    # Less can't be told from none in a short series: its standard error is 2 / sqrt(n).
    return 1 if phi < max(0.25, 2 / math.sqrt(len(ranks))) else math.ceil(2 * (1 + phi) / max(1 - phi, 0.05))


def _ranks(values: Floats) -> Floats:
    """Mid-ranks, centred."""
    unique, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    del unique
    last = np.cumsum(counts)
    middle = last - (counts - 1) / 2
    ranks: Floats = middle[inverse] - (len(values) + 1) / 2
    return ranks


def _scan(ranks: Floats, shortest: int) -> tuple[npt.NDArray[np.intp], Floats]:
    """(best split, its standardised height) of each row."""
    count = ranks.shape[1]
    k = np.arange(1, count)
    sums = np.abs(np.cumsum(ranks, axis=1)[:, :-1]) / np.sqrt(k * (count - k) / count)
    allowed = sums[:, shortest - 1 : count - shortest]
    best = np.argmax(allowed, axis=1)
    return best + shortest, allowed[np.arange(len(best)), best]
