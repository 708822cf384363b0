"""Two workloads against one another: interleaved runs, judged by the engine of paired experiments.

The unit is a run, since messages of one run have one start, one placement and one mood of the machine in
common. Which of a pair's runs comes first is drawn by a coin, so that identical workloads give a fair game
whatever drifts (see `latlab.stats.experiments.paired`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latlab.errors import LatlabError, UsageError
from latlab.messaging._analysis import analyse
from latlab.messaging._measure import check, measure
from latlab.model.messaging.results import INTERRUPTED, Result, Settings
from latlab.model.statistics.paired import PairedResult, Ruling
from latlab.stats.experiments import family, paired
from latlab.stats.experiments.paired import Difference, Side

__all__ = ["Comparison", "PairedChange", "compare_pairs"]

_CONTROL_PAIRS = 12
_FEWEST_FOR_P99 = 1000


@dataclass(frozen=True)
class PairedChange:
    """One measure of both workloads: the median of the runs of each, and the judgement of their pairs."""

    name: str
    a: float
    b: float
    result: PairedResult


@dataclass(frozen=True)
class Comparison:
    """What became of a comparison.

    Attributes:
        verdict: of all measures together.
        changes: by measure, the first of which decides about equivalence.
        control: of A against itself; None where it wasn't measured.
        doubts: by side, how many of its runs were not trustworthy, and why.
        runs: how many of each side.
        pair_s: what a pair of runs takes, with all that belongs to them.
    """

    verdict: Ruling
    changes: tuple[PairedChange, ...]
    control: PairedResult | None
    doubts: Mapping[str, Mapping[str, int]]
    runs: int
    pair_s: float = 0.0


@dataclass
class _Runs:
    """What the runs of both sides measured, by measure."""

    names: tuple[str, ...]
    values: dict[Side, list[tuple[float, ...]]] = field(default_factory=lambda: {"A": [], "B": []})
    doubts: dict[str, dict[str, int]] = field(default_factory=lambda: {"A": {}, "B": {}})
    took_s: list[float] = field(default_factory=list)


def measures_of(settings: Settings) -> tuple[str, ...]:
    """What two workloads are compared by: of a paced load its latency, otherwise the time a message takes."""
    if settings.load == "max" and settings.topology != "pingpong":
        return ("time a message", "p50")
    return ("p50", "p99") if settings.messages >= _FEWEST_FOR_P99 else ("p50",)


def _values(result: Result, names: Sequence[str]) -> tuple[float, ...]:
    latency = result.intended_latency or result.latency
    rate = result.receiving_throughput.messages_per_s
    if latency is None or rate is None:
        raise LatlabError("a run in which nothing arrived can't be compared", remedy="see 'messaging run'")
    found = {"time a message": 1e9 / rate, **latency.quantiles, "p50": latency.median}
    return tuple(max(float(found[name]), 1.0 if name[0] == "p" else 1e-3) for name in names)


def compare_pairs(
    a: Settings,
    b: Settings,
    *,
    smallest_effect: float = 0.05,
    alpha: float = 0.02,
    seconds: float = 120.0,
    pairs: int = 1000,
    control: bool = True,
    seed: int = 1,
    run: Callable[[Settings], Result] | None = None,
    told: Callable[[int, float], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Comparison:
    """Run both workloads in turn until the verdict is settled or the budget is spent.

    Args:
        smallest_effect: relative change that matters.
        alpha: level of all measures together.
        seconds: budget; a pair that has begun is finished.
        pairs: at most so many.
        control: whether A is measured against itself, too; if it differs, the verdict is refused.
        run: measures one run; injected in tests.
        told: called after every pair with their number so far and the seconds that are left.
        clock: seconds, by which the workloads and the control take turns; injected in tests.

    Raises:
        UsageError: for workloads that can't run, or that have no measure in common.
        LatlabError: when a run breaks off.
    """
    names = measures_of(a)
    if measures_of(b) != names:
        raise UsageError(
            "one workload has a rate and the other hasn't",
            remedy="compare latencies at a rate of both, or throughput without one",
        )
    for settings in (a, b) if run is None else ():
        if settings.wait == "both":
            raise UsageError("a comparison waits in one way", remedy='write wait = "block" or "poll"')
        check(settings)
    kept, of_control = _Runs(names), _Runs(names)
    trials = [_trial({"A": a, "B": b}, kept, run or _run, smallest_effect, alpha, seed, pairs)]
    if control:
        most = min(pairs, _CONTROL_PAIRS)
        both: dict[Side, Settings] = {"A": a, "B": a}
        trials.append(_trial(both, of_control, run or _run, smallest_effect, alpha, seed + 1, most))
    heard = None if told is None else lambda _, left: told(len(kept.values["A"]), left)
    family.run(trials, seconds=seconds, alpha=alpha, failures=LatlabError, told=heard, clock=clock)
    for trial in trials:
        if trial.failed is not None:
            raise trial.failed
    changes = _changes(kept, trials[0].seen, smallest_effect, alpha)
    null = _changes(of_control, trials[1].seen, smallest_effect, alpha) if control else ()
    return Comparison(
        verdict=_overall([c.result for c in changes], [c.result for c in null]),
        changes=changes,
        control=_worst(null),
        doubts=kept.doubts,
        runs=len(kept.values["A"]),
        pair_s=float(np.median(kept.took_s)),
    )


def _run(settings: Settings) -> Result:
    result = analyse(measure(settings), shapes=False)
    if result.partial == INTERRUPTED:
        raise KeyboardInterrupt
    if result.partial is not None:
        raise LatlabError(f"a run broke off: {result.partial}")
    return result


def _trial(
    sides: Mapping[Side, Settings],
    kept: _Runs,
    run: Callable[[Settings], Result],
    smallest_effect: float,
    alpha: float,
    seed: int,
    pairs: int,
) -> family.Trial:
    def measure(order: tuple[Side, Side]) -> Difference:
        found, begin = {}, time.monotonic()
        for side in order:
            result = run(sides[side])
            found[side] = _values(result, kept.names)
            kept.values[side].append(found[side])
            for doubt in result.verdict.doubts:
                kept.doubts[side][doubt.kind] = kept.doubts[side].get(doubt.kind, 0) + 1
        kept.took_s.append(time.monotonic() - begin)
        ratios = [math.log(y / x) for x, y in zip(found["A"], found["B"], strict=True)]
        return Difference((ratios[0],), (0.0,), tuple(ratios[1:]))

    def judge(seen: Sequence[Difference], _over: bool) -> PairedResult:
        return _judged(seen, 0, smallest_effect, alpha)

    return family.Trial(
        measure, judge, smallest_effect=smallest_effect, seed=seed, block_pairs=1, max_pairs=pairs
    )


def _judged(seen: Sequence[Difference], which: int, smallest_effect: float, alpha: float) -> PairedResult:
    """The judgement of one measure of the pairs, at its part of the level."""
    ratios = [d.log_ratios[0] if which == 0 else d.others[which - 1] for d in seen]
    shares = paired.measure_shares(1 + len(seen[0].others)) if seen else (1.0,)
    level = alpha * shares[which]
    return paired.judge(ratios, smallest_effect=smallest_effect, alpha=level, block_pairs=1)


def _changes(
    kept: _Runs, seen: Sequence[Difference], smallest_effect: float, alpha: float
) -> tuple[PairedChange, ...]:
    medians: dict[Side, Any] = {side: np.median(np.array(rows), axis=0) for side, rows in kept.values.items()}
    return tuple(
        PairedChange(
            name, float(medians["A"][i]), float(medians["B"][i]), _judged(seen, i, smallest_effect, alpha)
        )
        for i, name in enumerate(kept.names)
    )


def _worst(null: Sequence[PairedChange]) -> PairedResult | None:
    if not null:
        return None
    differing = [c.result for c in null if c.result.verdict in (Ruling.FASTER, Ruling.SLOWER)]
    return (differing or [null[0].result])[0]


def _overall(results: Sequence[PairedResult], null: Sequence[PairedResult]) -> Ruling:
    if {r.verdict for r in null} & {Ruling.FASTER, Ruling.SLOWER}:
        return Ruling.REFUSED
    found = {r.verdict for r in results}
    if {Ruling.FASTER, Ruling.SLOWER} <= found:
        return Ruling.MIXED
    for verdict in (Ruling.SLOWER, Ruling.FASTER):
        if verdict in found:
            return verdict
    return results[0].verdict
