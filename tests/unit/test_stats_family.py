from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
from tests.files.experiments_made import RULED

from latlab.bench.judging.measures import combined, judge_measures
from latlab.model.statistics.paired import PairedResult, Ruling
from latlab.stats.experiments import family, paired
from latlab.stats.experiments.multiple import benjamini_hochberg

DIFFERENT = (Ruling.FASTER, Ruling.SLOWER)


class Machine:
    """A clock on which every pair takes a twentieth of a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def trial(self, shift: float, seed: int, deviation: float = 0.02, pair_s: float = 0.05) -> family.Trial:
        random = np.random.default_rng(seed)

        def measure(_: tuple[paired.Side, paired.Side]) -> paired.Difference:
            self.now += pair_s
            return paired.Difference((shift + deviation * random.normal(),), (0.0,))

        def judge(seen: Sequence[paired.Difference], _: bool) -> PairedResult:
            return paired.judge([d.log_ratios for d in seen], smallest_effect=0.01, block_pairs=1)

        return family.Trial(measure, judge, 0.01, seed, block_pairs=1)


def found(shifts: Sequence[float], seed: int, seconds: float) -> list[bool]:
    """Which of a suite are called different among all."""
    machine = Machine()
    trials = [machine.trial(shift, 1000 * seed + i) for i, shift in enumerate(shifts)]
    results = [r for r in family.run(trials, seconds=seconds * len(shifts), clock=machine.clock) if r]
    adjusted = benjamini_hochberg([r.p_value for r in results])
    return [bool(r.verdict in DIFFERENT and p <= 0.05) for r, p in zip(results, adjusted, strict=True)]


@pytest.mark.long
def test_in_a_suite_of_twenty_the_two_that_changed_are_found_as_often_as_alone_and_few_others() -> None:
    rounds, change, seconds = 6, 0.03, 2.0
    alone = sum(found([change], 50 + seed, seconds)[0] for seed in range(2 * rounds))
    suites = [found([change] * 2 + [0.0] * 18, seed, seconds) for seed in range(rounds)]
    assert sum(sum(one[:2]) for one in suites) >= 0.9 * alone
    false = [sum(one[2:]) / max(1, sum(one)) for one in suites]
    assert float(np.mean(false)) <= 0.05


def test_one_large_change_among_six_is_said_and_not_voided_by_the_others() -> None:
    assert found([0.2, 0.0, 0.0, 0.0, 0.0, 0.0], 3, 1.5) == [True, False, False, False, False, False]


def test_time_and_not_blocks_is_shared_so_that_quick_ones_beside_slow_ones_have_their_part() -> None:
    machine, budget_s = Machine(), 5.0
    quick = machine.trial(0.0, 1, deviation=0.3)  # of which nothing can be said
    slow = [machine.trial(0.0, 10 + i, deviation=0.3, pair_s=0.5) for i in range(9)]
    family.run([quick, *slow], seconds=budget_s * 10, clock=machine.clock)
    assert len(quick.seen) * 0.05 >= 0.4 * budget_s
    assert min(len(t.seen) for t in slow) * 0.5 >= 0.4 * budget_s


def test_a_difference_stands_among_all_from_the_e_value_that_e_bh_asks_for() -> None:
    def e(*values: float) -> list[float]:
        return [math.log(v) for v in values]

    assert math.exp(family.standing_log_threshold(e(1.0), 0.05)) == pytest.approx(20)
    assert round(math.exp(family.standing_log_threshold(e(1, 1, 1, 1), 0.05))) == 80
    assert round(math.exp(family.standing_log_threshold(e(41, 45, 1, 1), 0.05))) == 40


def test_one_that_fails_loses_nothing_of_the_others() -> None:
    machine = Machine()
    good, bad = machine.trial(0.2, 1), machine.trial(0.0, 2)

    def fail(_: tuple[paired.Side, paired.Side]) -> paired.Difference:
        raise OSError("gone")

    bad.measure = fail
    results = family.run([bad, good], seconds=5, failures=OSError, clock=machine.clock)
    assert (results[0], str(bad.failed)) == (None, "gone")
    assert results[1] is not None
    assert results[1].verdict is Ruling.SLOWER


def judged(
    mean: float,
    tail: float,
    *,
    tail_noise: float = 0.01,
    pooled: float = 0.0,
    over: tuple[str, ...] = ("typical", "mean"),
) -> tuple[PairedResult, str]:
    random = np.random.default_rng(4)
    pairs = [
        paired.Difference(
            (0.001 * random.normal(),),
            (0.0,),
            (mean + 0.002 * random.normal(), tail + tail_noise * random.normal()),
        )
        for _ in range(60)
    ]
    measures = judge_measures(
        pairs,
        ("typical", "mean", "p99"),
        **RULED,
        pooled=pooled,
    )
    return combined(measures, alpha=0.05, declared=over)


def test_sides_are_equivalent_only_if_they_are_by_the_mean_and_by_the_tail_too() -> None:
    assert [judged(0.0, 0.0)[0].verdict, judged(0.32, 0.0)[0].verdict] == [
        Ruling.EQUIVALENT,
        Ruling.SLOWER,
    ]
    slower, by = judged(0.0, 0.5)
    assert (slower.verdict, by) == (Ruling.SLOWER, "p99")
    assert judged(0.32, 0.0)[1] == "mean"
    assert judged(0.32, -0.5)[0].verdict is Ruling.MIXED


def test_equivalence_by_all_measures_takes_no_more_pairs_than_by_one() -> None:
    random = np.random.default_rng(5)
    few = [
        paired.Difference((0.001 * random.normal(),), (0.0,), tuple(0.001 * random.normal(size=2)))
        for _ in range(9)
    ]
    measures = judge_measures(
        few, ("typical", "mean", "p99"), smallest_effect=0.02, declared=True, alpha=0.05, block_pairs=1,
        final=True,
    )  # fmt: skip
    assert [m.result.verdict for m in measures] == 3 * [Ruling.EQUIVALENT]
    # One measure's difference still has its part of the level alone: at all of it this mean is slower.
    slow = [dataclasses.replace(d, others=(0.03 + d.others[0], d.others[1])) for d in few]
    assert paired.judge([d.others[0] for d in slow], smallest_effect=0.02, block_pairs=1).verdict is (
        Ruling.SLOWER
    )
    mean = judge_measures(
        slow, ("typical", "mean", "p99"), smallest_effect=0.02, declared=True, alpha=0.05, block_pairs=1,
        final=True,
    )[1]  # fmt: skip
    assert mean.result.verdict is Ruling.INCONCLUSIVE


def test_a_tail_that_cannot_be_told_is_said_to_be_open_and_never_called_equivalent() -> None:
    result, _ = judged(0.0, 0.0, tail_noise=0.5)
    assert result.verdict is Ruling.EQUIVALENT
    assert "inconclusive for the p99 (told to" in result.why
    assert "p99 within" not in result.why


def test_a_tail_is_called_different_only_where_it_surely_moved_by_more_than_is_looked_for() -> None:
    small, _ = judged(0.0, 0.13, tail_noise=0.1)  # surely more than 0, and not surely more than 10 %
    assert small.verdict is Ruling.EQUIVALENT
    assert "inconclusive for the p99 (told to +" in small.why
    large, by = judged(0.0, 0.3, tail_noise=0.1)
    assert (large.verdict, by) == (Ruling.SLOWER, "p99")
    faster, by = judged(0.0, -0.3, tail_noise=0.1)
    assert (faster.verdict, by) == (Ruling.FASTER, "p99")


@pytest.mark.parametrize(("shift", "placement", "verdict"), [
    (0.012, 0.0, Ruling.SLOWER), (0.012, 0.03, Ruling.INCONCLUSIVE), (0.026, 0.03, Ruling.INCONCLUSIVE),
    (0.05, 0.03, Ruling.SLOWER), (0.012, 0.005, Ruling.SLOWER), (0.0, 0.03, Ruling.EQUIVALENT),
])  # fmt: skip
def test_a_difference_of_two_single_builds_is_surely_more_than_their_placement(
    shift: float, placement: float, verdict: Ruling
) -> None:
    random = np.random.default_rng(4)
    pairs = [paired.Difference((shift + 0.006 * random.normal(),), (0.0,)) for _ in range(60)]
    (one,) = judge_measures(
        pairs, ("typical",), smallest_effect=0.01, declared=False, alpha=0.05, block_pairs=1, final=True,
        placement=placement,
    )  # fmt: skip
    assert one.result.verdict is verdict
    assert ("--build CMD --padding" in one.result.why) == (verdict is Ruling.INCONCLUSIVE)


def test_a_declared_tail_that_cannot_be_told_leaves_the_verdict_open() -> None:
    result, by = judged(0.0, 0.0, tail_noise=0.5, over=("typical", "mean", "tail"))
    assert (result.verdict, by) == (Ruling.INCONCLUSIVE, "p99")


def test_a_mean_that_few_processes_decide_is_not_equivalent() -> None:
    result, by = judged(0.0, 0.0, pooled=0.3)
    assert (result.verdict, by) == (Ruling.INCONCLUSIVE, "mean")
    assert "the means differ by +34.99 %" in result.why


def test_without_a_declared_effect_nothing_is_equivalent_within_more_than_five_percent() -> None:
    random = np.random.default_rng(2)
    noisy = [paired.Difference((0.0,), (0.0,), (0.16 * random.normal(),)) for _ in range(60)]
    measures = judge_measures(
        noisy,
        ("typical", "mean"),
        smallest_effect=0.01,
        declared=False,
        alpha=0.05,
        block_pairs=1,
        final=True,
    )
    assert combined(measures, alpha=0.05)[0].verdict is Ruling.INCONCLUSIVE
