"""What the slow requests have in common that the median ones have not, each with a test. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from latlab.model.requests import CommonTrait
from latlab.requests.judging.answer import chance_of
from latlab.requests.parts import Spent
from latlab.words import duration, size

__all__ = ["ended_together", "traits_of"]

_RARE = 1e-3  # p value, times the number of traits
_MANY = 0.5  # of the slow ones must have it
_TIMES = 2.0  # as often as the median ones
_LARGE = 16 << 10  # bytes; below it a size is nobody's cause
_GROWN = 8  # times the median ones' size
_GAP = 4  # median latencies of slow ones apart: another episode
_EPISODES = 6
_TOGETHER_NS = 1_000_000  # as what one event lets go on, one after another
_TRIALS = 41  # of periods around the median distance, from 0.9 to 1.1 of it

Array = np.ndarray[Any, Any]


def ended_together(rows: Array, tail: Sequence[int]) -> bool:
    """Whether most of the slow requests ended just beside another slow one, of another connection.

    Args:
        rows: of REQUEST. tail: indices of the slow ones.
    """
    times = rows["sent"] - rows["arrived"]
    which = np.asarray(tail, np.int64)
    slow = np.flatnonzero(2 * times >= times[which].min(initial=0))
    slow = slow[np.argsort(rows["sent"][slow], kind="stable")]
    ends, own = rows["sent"][slow], rows["connection"][slow]
    beside = 0
    for one in which.tolist():
        low, high = np.searchsorted(
            ends, [rows["sent"][one] - _TOGETHER_NS, rows["sent"][one] + _TOGETHER_NS + 1]
        )
        beside += bool((own[low:high] != rows["connection"][one]).any())
    return 2 * beside > len(which)


def traits_of(
    rows: Array,
    tail: Sequence[int],
    median: Sequence[int],
    spent: tuple[Sequence[Spent], Sequence[Spent]],
    kinds: Sequence[str],
    connections: Sequence[str],
    core: Callable[[int], int],
) -> tuple[CommonTrait, ...]:
    """The traits of slow requests, the surest first.

    Args:
        rows: of REQUEST. tail, median: indices of the slow and of the median ones. spent: their parts.
        core: the CPU of a request, by its index; -1 unknown.
    """
    both = (np.asarray(tail, np.int64), np.asarray(median, np.int64))
    columns: list[tuple[str, list[str], list[str]]] = []
    for what, names, key in (("kind", kinds, "kind"), ("connection", connections, "connection")):
        slow, usual = ([names[int(one)] for one in rows[key][group]] for group in both)
        columns.append((what, slow, usual))
    slow, usual = ([_core(core(int(one))) for one in group] for group in both)
    columns.append(("core", slow, usual))
    amounts = {}
    for what, key in (("answer's size", "bytes_out"), ("request's size", "bytes_in")):
        slow, usual, amounts[what] = _sizes(rows[key][both[0]], rows[key][both[1]])
        columns.append((what, slow, usual))
    for what in ("lock", "disk"):
        slow, usual = ([_most_of(one, what) for one in group] for group in spent)
        columns.append((what, slow, usual))
    found = [(what, *best) for what, slow, usual in columns if (best := _best(slow, usual)) is not None]
    period = _period(rows["arrived"][both[0]], rows["sent"][both[0]], rows["arrived"][both[1]])
    if period is not None:
        amounts["period"] = period[0]
        found.append(("period", f"every {duration(period[0])}", *period[1:]))
    looked = len(columns) + 1
    told = [
        CommonTrait(
            what, value, many, len(tail), few, len(median), min(1.0, p_value * looked), amounts.get(what, 0.0)
        )
        for what, value, many, few, p_value in found
    ]
    return tuple(sorted((one for one in told if one.p_value < _RARE), key=lambda one: one.p_value))


def _core(cpu: int) -> str:
    return f"CPU {cpu}" if cpu >= 0 else ""


def _sizes(slow: Array, usual: Array) -> tuple[list[str], list[str], float]:
    """Whether each is as large as most of the slow ones that are much larger than usual, and that border."""
    least = max(_LARGE, _GROWN * int(np.median(usual)) if len(usual) else 0)
    large = slow[slow >= least]
    border = int(np.quantile(large, 0.25)) if len(large) else least
    said = f"{size(border)} and more"
    said_of = [[said if one >= border else "" for one in group] for group in (slow, usual)]
    return said_of[0], said_of[1], float(border)


def _most_of(one: Spent, kind: str) -> str:
    """Its longest wait of this kind, where that is a fifth of its time."""
    own = {where: ns for (part, where), ns in one.items() if part == kind}
    where = max(own, key=lambda each: own[each], default="")
    return where.partition(",")[0] if where and own[where] > 0.2 * sum(one.values()) else ""


def _best(slow: Sequence[str], usual: Sequence[str]) -> tuple[str, int, int, float] | None:
    """The value that tells slow ones best; those who all have one value have nothing special."""
    values = {one for one in slow if one}
    found = []
    for value in values:
        many, few = slow.count(value), usual.count(value)
        if many < _MANY * len(slow) or many * len(usual) < _TIMES * few * len(slow):
            continue
        found.append((value, many, few, len(values) * chance_of(many, len(slow), few, len(usual))))
    return min(found, key=lambda one: one[3]) if found else None


def _period(began: Array, sent: Array, usual: Array) -> tuple[float, int, int, float] | None:
    """The period in ns that the episodes of slow ones keep, if any (Rayleigh's test of their phases)."""
    if len(began) < _EPISODES:
        return None
    order = np.argsort(began)
    starts, ends = began[order].astype(float), np.maximum.accumulate(sent[order]).astype(float)
    new = np.concatenate([[True], starts[1:] - ends[:-1] > _GAP * np.median(sent - began)])
    episodes = starts[new]
    if len(episodes) < _EPISODES:
        return None
    middle = float(np.median(np.diff(episodes)))
    # Phases over the whole time: an error of the period adds up, so the steps are finer than their number.
    trials = middle * np.linspace(0.9, 1.1, max(_TRIALS, 8 * len(episodes) + 1))
    together = [abs(np.exp(2j * np.pi * episodes / trial).mean()) for trial in trials]
    best = int(np.argmax(together))
    p_value = float(np.exp(-len(episodes) * together[best] ** 2) * len(trials))
    phase = np.angle(np.exp(2j * np.pi * episodes / trials[best]).mean())

    def in_phase(times: Array) -> int:
        away = np.angle(np.exp(2j * np.pi * times / trials[best] - 1j * phase))
        return int((np.abs(away) < np.pi / 4).sum())

    slow, few = in_phase(began), in_phase(usual)
    if p_value > _RARE or slow < 0.5 * len(began) or slow * len(usual) < _TIMES * few * len(began):
        return None
    return float(trials[best]), slow, few, p_value
