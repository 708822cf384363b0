"""What a change would buy: the requests simulated anew with it, at the same arrivals.

Told only where the simulation of the unchanged server gives back what was seen, quantile by quantile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from latlab.model.evidence.requests import ForecastDoubt
from latlab.model.evidence.said import said
from latlab.model.requests import QuantileForecast, RequestForecast
from latlab.model.schedule import Schedule, Wait
from latlab.requests.connections import NEVER
from latlab.requests.judging.jobs import Change, Jobs, Pools
from latlab.requests.parts import Account
from latlab.requests.places import INTERPRETER
from latlab.schedule.simulation.simulate import run_steps
from latlab.schedule.simulation.steps import Steps

__all__ = ["forecasts"]

Array = np.ndarray[Any, Any]

_WORD = re.compile(r"0x[0-9a-f]+$")  # the address of a lock, in its name
_QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
_FEWEST = {"p50": 100, "p99": 1_000, "p99.9": 5_000}
_NEAR = {"p50": 0.2, "p99": 0.1, "p99.9": 0.1}  # of what was seen
_NEAR_NS = 20_000  # is as near
_MOST = 10_000  # requests; more than that are simulated in part, the first ones
_UNSEEN = 0.02
_OPEN = 0.01  # requests without an answer
_THROTTLED = 0.01
_STRETCHES = 4
# Slice, and how far behind a woken thread must be to take a CPU at once; and how much sooner than the threads
# of the server others are put aside. Which it was isn't seen, so it is fitted.
_POLICIES = ((3_000_000, 1_000_000), (3_000_000, 0), (100_000_000, 1_000_000_000_000))
_OTHERS = (1, 3, 7, 20, 50, 100_000)
_WAYS = 4  # of those that fit best
_JITTER = 0.05
_UNMODELLED = 0.05  # of what is gained: caches, and who takes the lock next
_HALF, _FIFTH = 0.5, 0.8
_LEAST_LOCK = 0.02  # of the slow requests' time, for a lock or a function to be asked about

Asked = tuple[Literal["lock", "function", "worker", "cpu"], str, Change, bool, bool]


@dataclass(frozen=True)
class _Way:
    """A way to simulate: the scheduler's slice and readiness, how much less it likes others, and a seed."""

    slice_ns: int
    behind_ns: int
    others: int = 1
    seed: int = 0


def forecasts(
    schedule: Schedule, rows: Array, account: Account, slow: Sequence[int]
) -> tuple[tuple[RequestForecast, ...], str]:
    """What each change would buy, and why none is told where that is so.

    Args:
        rows: of REQUEST, those that began while it was observed, by arrival. account: of the same rows.
        slow: indices of the slow ones.
    """
    answered = rows["sent"] < schedule.ended_ns
    why = _unfit(schedule, rows, answered)
    if why:
        return (), why
    chosen = np.flatnonzero(answered & (rows["sent"] != NEVER))[:_MOST]
    jobs = Jobs(schedule, rows[chosen], account.taken_up()[chosen])
    pools = jobs.own_pools()
    plain, sent = jobs.steps(pools)
    took = (rows["sent"] - rows["arrived"])[chosen]
    ways = [_Way(*policy, others) for policy in _POLICIES for others in _OTHERS]
    seen = {name: _at(took, q) for name, q in _QUANTILES.items()}
    bases = [_latencies(plain, sent, jobs, way) for way in ways]
    fits = [at for at, base in enumerate(bases) if all(_near(name, seen, base) for name in ("p50", "p99"))]
    if not fits:
        best = min(bases, key=lambda base: _misfit(base, seen))
        return (), said(
            ForecastDoubt.OFF,
            p50=_at(best, 0.5),
            p50_seen=seen["p50"],
            p99=_at(best, 0.99),
            p99_seen=seen["p99"],
        )
    fits.sort(key=lambda at: _misfit(bases[at], seen))
    chosen_ways = [ways[at] for at in fits[:_WAYS]] + [replace(ways[fits[0]], seed=1)]
    unchanged = [_latencies(plain, sent, jobs, way) for way in chosen_ways]
    told = []
    for change, name, made, more_workers, more_cpus in _asked(account, rows, chosen, slow):
        if more_workers:
            more = _one_more(pools, jobs)
            if isinstance(more, str):
                told.append(RequestForecast(change, name, (), more, len(chosen)))
                continue
            changed = jobs.steps(more)
        else:
            changed = jobs.steps(pools, made)
        after = [_latencies(*changed, jobs, way, plain.cpus + more_cpus, plain) for way in chosen_ways]
        quantiles = _quantiles(seen, unchanged, after)
        told.append(RequestForecast(change, name, quantiles, simulated=len(chosen)))
    return tuple(told), ""


def _unfit(schedule: Schedule, rows: Array, answered: Array) -> str:
    if answered.sum() < _FEWEST["p50"]:
        return said(ForecastDoubt.TOO_FEW, number=int(answered.sum()))
    if (~answered).sum() > _OPEN * len(rows):
        return said(ForecastDoubt.OPEN)
    if schedule.losses.unseen_share > _UNSEEN:
        return said(ForecastDoubt.NOT_SEEN)
    stopped = schedule.intervals[schedule.intervals["wait"] == Wait.THROTTLED]
    throttled = max(schedule.throttled_ns, int((stopped["end"] - stopped["begin"]).sum()))
    if throttled > _THROTTLED * (schedule.ended_ns - schedule.began_ns):
        return said(ForecastDoubt.QUOTA)
    return ""


def _asked(account: Account, rows: Array, chosen: Array, slow: Sequence[int]) -> list[Asked]:
    """The changes that are worth a question: the lock and the function that cost the slow ones the most."""
    asked: list[Asked] = []
    spent = [account.of(index) for index in slow]
    whole = sum(sum(one.values()) for one in spent) or 1.0
    locks: dict[str, float] = {}
    for one in spent:
        for (kind, where), ns in one.items():
            word = where.partition(",")[0]
            # Nobody holds the interpreter's for less long; of files and semaphores no word is simulated.
            if kind == "lock" and _WORD.search(word) and not where.startswith(INTERPRETER):
                locks[word] = locks.get(word, 0.0) + ns
    lock = max(locks, key=lambda word: locks[word], default="")
    if lock and locks[lock] > _LEAST_LOCK * whole:
        asked.append(("lock", lock, Change(held=_HALF, lock=int(lock.rpartition("0x")[2], 16)), False, False))
    functions = account.functions_of(slow)
    function = next(iter(functions), "")
    if function and functions[function] > _LEAST_LOCK * whole:
        asked.append(
            ("function", function, Change(run=_faster(account, rows, chosen, function)), False, False)
        )
    asked.append(("worker", "", Change(), True, False))
    asked.append(("cpu", "", Change(), False, True))
    return asked


class _Faster:
    """Of a stretch of running, what is left when a function takes a fifth less time.

    What wasn't sampled is taken for as much in it as the samples of its kind of request are.
    """

    def __init__(self, account: Account, kinds: Array, usual: Mapping[int, float], function: str) -> None:
        self._account, self._kinds, self._usual, self._function = account, kinds, usual, function

    def __call__(self, number: int, thread: int, begin: int, end: int) -> float:
        within = self._account.share_of(thread, begin, end, self._function)
        if within is None:
            within = self._usual.get(int(self._kinds[number]), 0.0)
        return 1.0 - (1.0 - _FIFTH) * within


def _faster(account: Account, rows: Array, chosen: Array, function: str) -> _Faster:
    kinds = rows["kind"][chosen]
    usual = {
        kind: account.share_of_kind(chosen[kinds == kind].tolist(), function)
        for kind in np.unique(kinds).tolist()
    }
    return _Faster(account, kinds, usual, function)


def _one_more(pools: Pools, jobs: Jobs) -> Pools | str:
    """One worker more: of the pool that takes requests up, or beside the threads that read them."""
    if len(pools.tokens) == 1:
        return Pools(pools.of, (pools.tokens[0] + 1,))
    several = [number for number, many in enumerate(pools.tokens) if many > 1]
    if len(several) == 1:
        tokens = list(pools.tokens)
        tokens[several[0]] += 1
        return Pools(pools.of, tuple(tokens))
    # Of a pool each thread may take up what is there: then a connection is now one's and now another's.
    readers = len(np.unique(jobs.rows[["connection", "reader"]]))
    connections = len(np.unique(jobs.rows["connection"]))
    if readers == connections <= len(pools.tokens):
        return said(ForecastDoubt.OWN_THREADS)
    return said(ForecastDoubt.KEEP)


def _latencies(
    steps: Steps, sent: Array, jobs: Jobs, way: _Way, cpus: int | None = None, plain: Steps | None = None
) -> Array:
    """Of each request, in the simulation; 0 for those that are not sent in it."""
    changed = steps.changed(slice_ns=way.slice_ns, behind_ns=way.behind_ns)
    if way.seed:
        # By request, not by step: the same differences with and without the change.
        factor = np.exp(np.random.default_rng(way.seed).normal(0.0, _JITTER, len(steps.born)))
        changed = changed.changed(work=np.rint(steps.work * factor[steps.thread]).astype(np.int64))
    others = np.arange(len(steps.born)) > len(sent)
    changed = changed.changed(cost=np.where(others, way.others, 1).astype(np.int64))
    out = run_steps(changed, cpus=cpus)
    at = np.where(sent >= 0, out["at_ns"][np.maximum(sent, 0)], -1)
    took = at - steps.born[: len(sent)]
    return np.where(at >= 0, took, 0)


def _at(values: Array, q: float) -> int:
    return int(np.quantile(values, q, method="inverted_cdf"))


def _near(name: str, seen: Mapping[str, int], base: Array) -> bool:
    away = abs(_at(base, _QUANTILES[name]) - seen[name])
    return away <= max(_NEAR_NS if name == "p50" else 0, _NEAR[name] * seen[name])


def _misfit(base: Array, seen: Mapping[str, int]) -> float:
    told = [name for name in seen if len(base) >= _FEWEST[name]]
    return float(sum(abs(np.log((_at(base, _QUANTILES[name]) + 1) / (seen[name] + 1))) for name in told))


def _quantiles(
    seen: Mapping[str, int], unchanged: Sequence[Array], after: Sequence[Array]
) -> tuple[QuantileForecast, ...]:
    """Ratios of the changed to the unchanged simulation, of what was seen."""
    found = []
    least = 0  # ns
    for name, q in _QUANTILES.items():
        base = _at(unchanged[0], q)
        if len(unchanged[0]) < _FEWEST[name]:
            why = said(ForecastDoubt.TOO_FEW_FOR_IT, number=len(unchanged[0]))
            found.append(QuantileForecast(name, seen[name], base, withheld=why))
            continue
        if not _near(name, seen, unchanged[0]):
            why = said(ForecastDoubt.AWAY, away=abs(base / max(1, seen[name]) - 1))
            found.append(QuantileForecast(name, seen[name], base, withheld=why))
            continue
        ratios = [_at(b, q) / max(1, _at(a, q)) for a, b in zip(unchanged, after, strict=True)]
        parts = np.array_split(np.arange(len(unchanged[0])), _STRETCHES)
        for without in parts:
            keep = np.ones(len(unchanged[0]), bool)
            keep[without] = False
            ratios.append(_at(after[0][keep], q) / max(1, _at(unchanged[0][keep], q)))
        middle = ratios[0]
        slack = abs(base / max(1, seen[name]) - 1) * abs(1 - middle) + _UNMODELLED * abs(1 - middle) + 0.01
        low, high = min(ratios) - slack, max(ratios) + slack
        # No request takes no time, and the slow ones take no less than the median one.
        least = max(least, round(seen[name] * low))
        if least <= 0:
            why = said(ForecastDoubt.NOTHING_LEFT, low=max(0.0, min(ratios)), high=max(ratios))
            found.append(QuantileForecast(name, seen[name], base, withheld=why))
            continue
        found.append(
            QuantileForecast(
                name, seen[name], base, round(seen[name] * middle),
                min(least, round(seen[name] * middle)), round(seen[name] * high),
            )
        )  # fmt: skip
    return tuple(found)
