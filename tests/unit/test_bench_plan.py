from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from latlab.bench.measuring import pilot as pilot_module
from latlab.bench.measuring.experiment import Asked
from latlab.bench.measuring.pilot import Pilot, pilot_pairs
from latlab.bench.measuring.plan import make_plan, plan_from
from latlab.bench.results.targets import Target
from latlab.errors import NotTrustworthyError
from latlab.model.bench import Plan, Sample, Settings
from latlab.model.statistics.paired import Ruling
from latlab.stats.experiments import paired
from latlab.stats.variance import Components, one_way


def pilot(
    *, between: float = 0.01, within: float = 0.02, build: float | None = None, build_s: float = 0.0
) -> Pilot:
    parts = Components(between, within, 1.0)
    return Pilot(Settings(iterations=160, batch=1, turn=10), parts, between, build, build_s, 0.01, 1e-4, 1e4)


def planned(of: Pilot, *, effect: float = 0.01, power: float = 0.9, seconds: float = math.inf) -> Plan:
    return make_plan(
        of, smallest_effect=effect, alpha=0.05, power=power, fixed_iterations=False, budget_s=seconds
    )


def needed(plan: Plan) -> int:
    assert plan.pairs is not None
    return plan.pairs


def test_components_of_builds_and_pairs_are_found_where_they_were_planted() -> None:
    random = np.random.default_rng(1)
    builds = 0.03 * random.normal(size=(4000, 1))
    between, within = one_way(builds + 0.02 * random.normal(size=(4000, 2)))
    assert between == pytest.approx(0.03, rel=0.05)
    assert within == pytest.approx(0.02, rel=0.05)


def test_one_group_has_no_components() -> None:
    with pytest.raises(ValueError, match="two groups of two values"):
        one_way([[1.0, 2.0]])


def test_dear_builds_are_measured_by_more_pairs_and_cheap_ones_by_two() -> None:
    cheap, dear = (planned(pilot(build=0.004, build_s=s)) for s in (1e-4, 10.0))
    assert cheap.block_pairs == 2
    assert dear.block_pairs > 2
    assert dear.builds == needed(dear) // dear.block_pairs
    assert f"{dear.builds} builds with {dear.pairs} pairs" in dear.why


def test_without_builds_there_is_one_and_its_variance_is_not_claimed() -> None:
    plan = planned(pilot())
    assert (plan.builds, plan.build_deviation) == (1, None)


def test_pairs_that_take_turns_have_a_coin_each_and_others_form_blocks_that_cancel_drift() -> None:
    assert planned(pilot()).block_pairs == 1
    apart = dataclasses.replace(pilot(), settings=Settings(iterations=160, batch=1))
    assert planned(apart).block_pairs == 2


def test_where_the_budget_holds_few_pairs_each_has_a_coin_of_its_own() -> None:
    slow = dataclasses.replace(
        pilot(), settings=Settings(iterations=1, batch=1), overhead_s=0.34, unit_s=1e-4
    )
    assert planned(slow, seconds=60.0).block_pairs == 2
    short = planned(slow, seconds=3.5)  # ten pairs
    assert (short.block_pairs, short.budget_effect is None) == (1, False)
    leaning = dataclasses.replace(slow, position=0.05)
    assert planned(leaning, seconds=3.5).block_pairs == 2


def test_a_pilot_whose_processes_are_dear_is_two_pairs() -> None:
    assert [pilot_pairs(s, 5.0) for s in (0.01, 0.09, 0.1, 1.0)] == [4, 4, 2, 2]
    assert pilot_pairs(0.1, 10.0) == 4
    assert "2 pilot pairs" in planned(dataclasses.replace(pilot(), pairs=2)).why


def test_an_advantage_of_the_one_that_begins_is_cancelled_by_blocks_of_two() -> None:
    assert planned(dataclasses.replace(pilot(), position=0.004)).block_pairs == 1
    assert planned(dataclasses.replace(pilot(), position=-0.05)).block_pairs == 2


def test_a_pilot_whose_pairs_were_alike_by_luck_plans_as_if_they_varied_as_little_as_it_can_show() -> None:
    seen = 0.02 * math.sqrt(1.2 / 16)  # what the pilot's 16 turns explain
    assert planned(pilot(between=0.0)).iterations == planned(pilot(between=seen)).iterations


def test_long_turns_are_two_a_pair_where_they_are_what_a_pair_costs() -> None:
    def turns(unit_s: float) -> int:
        parts = Components(0.03, 0.03, 1.0)
        settings = Settings(iterations=4, batch=1, turn=1)
        return planned(Pilot(settings, parts, 0.03, None, 0.0, 0.05, unit_s, 8e6), seconds=7.0).iterations

    assert [turns(unit_s) for unit_s in (0.06, 0.025, 0.006)] == [2, 4, 8]


def test_pairs_are_shorter_where_the_budget_would_hold_too_few_of_them_for_a_verdict() -> None:
    long_calls = Pilot(
        Settings(iterations=1, batch=1, turn=1), Components(0.01, 0.01, 1.0), 0.01, None, 0.0, 0.5, 0.5, 2.5e8
    )
    fewest = paired.fewest_blocks(0.05)
    assert planned(long_calls, seconds=40.0).iterations == 2
    short = planned(long_calls, seconds=1.1 * fewest)
    assert (short.iterations, short.budget_pairs) == (1, fewest)
    assert planned(long_calls, seconds=0.9 * fewest).iterations == 2  # nothing helps


def test_a_smaller_effect_a_higher_power_and_noisier_processes_need_more_pairs() -> None:
    usual = needed(planned(pilot()))
    assert needed(planned(pilot(), effect=0.004)) > usual
    assert needed(planned(pilot(), power=0.99)) > usual
    assert needed(planned(pilot(between=0.03))) > usual


def test_the_budget_says_what_it_can_find_and_when_it_holds_no_verdict() -> None:
    long, short = (planned(pilot(), seconds=s) for s in (60.0, 0.05))
    assert long.budget_effect is not None
    assert 0 < long.budget_effect < 0.01
    assert short.budget_effect is None
    assert "too few for any verdict" in short.why


@pytest.mark.long
@pytest.mark.parametrize("build", [None, 0.006])
def test_the_planned_number_of_pairs_finds_the_effect_with_the_planned_power(build: float | None) -> None:
    plan = planned(pilot(build=build, build_s=2.0))
    found = {shift: differences(plan, build or 0.0, shift) for shift in (0.0, math.log1p(0.01))}
    assert found[math.log1p(0.01)] >= 0.86 * 200
    assert found[0.0] <= 0.06 * 200


def differences(plan: Plan, build: float, shift: float) -> int:
    """How many of 200 simulated experiments of the planned size call the sides different."""
    random, count = np.random.default_rng(7), 0
    units = plan.iterations // plan.turn
    own = math.sqrt(plan.process_deviation**2 + 1.2 * plan.iteration_deviation**2 / units)
    for _ in range(200):
        builds = build * random.normal(size=(needed(plan) // plan.block_pairs, 1))
        ratios = shift + builds + own * random.normal(size=(len(builds), plan.block_pairs))
        result = paired.judge(ratios.ravel(), smallest_effect=0.0, block_pairs=plan.block_pairs)
        count += result.verdict in (Ruling.SLOWER, Ruling.FASTER)
    return count


@pytest.mark.long
def test_pairs_that_share_a_build_are_no_blocks_of_their_own() -> None:
    random = np.random.default_rng(3)
    wrong = right = 0
    for _ in range(100):
        builds = 0.01 * random.normal(size=(8, 1))
        ratios = (builds + 0.001 * random.normal(size=(8, 16))).ravel()
        wrong += paired.judge(ratios, smallest_effect=0.0).verdict is not Ruling.INCONCLUSIVE
        right += paired.judge(ratios, smallest_effect=0.0, block_pairs=16).verdict is not Ruling.INCONCLUSIVE
    assert right <= 8
    assert wrong >= 25


def test_a_plan_of_an_older_recording_is_not_gone_on_with() -> None:
    assert plan_from({"iterations": 5}) is None
    plan = planned(pilot())
    assert plan_from(vars(plan)) == plan


def test_a_command_that_the_budget_cannot_hold_often_enough_says_so_after_one_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Target("command", "sleep 3", command=("sleep", "3"))
    sample = Sample(np.array([3e9]), process_s=3.0)
    runs: list[Target] = []

    def once(target: Target, _: Settings) -> Sample:
        runs.append(target)
        return sample

    monkeypatch.setattr(pilot_module, "measure_once", once)
    with pytest.raises(NotTrustworthyError, match="a call takes 3 s"):
        pilot_module.run_pilot(
            slow, slow, Settings(iterations=1), fixed_iterations=True, budget_s=5.0, rebuild=None
        )
    assert len(runs) == 1


def test_the_coins_of_two_experiments_differ_unless_a_seed_is_given() -> None:
    assert len({Asked().seed for _ in range(4)}) > 1
    assert Asked(seed=7).seed == 7
