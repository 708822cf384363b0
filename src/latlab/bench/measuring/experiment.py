"""The experiments: A against B, alone or in a suite, and A against A."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latlab.bench.judging import judge as _judge
from latlab.bench.judging.measures import (
    DECLARED,
    DRAWN_PLACEMENT,
    PLACEMENT,
    combined,
    judge_measures,
    pooled_mean,
)
from latlab.bench.measuring import control as _control
from latlab.bench.measuring.builds import build_anew
from latlab.bench.measuring.pilot import counting, run_pilot
from latlab.bench.measuring.plain import own_iterations
from latlab.bench.measuring.plan import default_smallest_effect, make_plan, with_plan
from latlab.bench.processes.commands import compiled
from latlab.bench.processes.process import conditions_for, draws_places, measure_pair
from latlab.bench.processes.stops import awake
from latlab.bench.results.raw import Row
from latlab.bench.results.recorder import Recorder
from latlab.bench.results.targets import Target
from latlab.errors import LatlabError
from latlab.model.bench import Control, Judgement, Plan, Sample, Settings
from latlab.model.statistics.paired import PairedResult, Ruling
from latlab.stats.experiments import family, paired
from latlab.words import relative

__all__ = [
    "Asked",
    "Comparison",
    "Earlier",
    "Suite",
    "drawn_seed",
    "run_aa",
    "run_ab",
    "run_suite",
]


def drawn_seed() -> int:
    """A seed that no other run has, but by chance."""
    return random.SystemRandom().randrange(1 << 31)


@dataclass(frozen=True)
class Earlier:
    """What an interrupted run left: its whole blocks, and by which plan they were measured."""

    pairs: Sequence[tuple[Sample, Sample]]
    plan: Plan
    effect: float
    effect_why: str
    declared: bool = True


@dataclass(frozen=True)
class Asked:
    """What is asked of an A/B experiment.

    Attributes:
        smallest_effect: relative; None for the default.
        alpha: level.
        seconds: budget, the pilot included.
        seed: of the order; drawn anew where none is given, or every run would throw the same coins.
        iterations: a process; None lets the pilot choose.
        max_pairs: budget in pairs.
        power: probability to find the smallest effect, which the plan's numbers are for.
        early: whether to stop once a verdict is settled; if not, the budget is spent on narrower intervals.
        build: a shell command that makes both sides anew before each block of pairs; None leaves them.
        over: the measures that have to be equivalent.
        padding: whether every build gets compiler flags that move functions by a drawn distance.
    """

    smallest_effect: float | None = None
    alpha: float = 0.05
    seconds: float = 10.0
    seed: int = field(default_factory=drawn_seed)
    iterations: int | None = None
    max_pairs: int = 100_000
    power: float = paired.POWER
    early: bool = True
    build: str | None = None
    over: tuple[str, ...] = DECLARED
    padding: bool = False


@dataclass
class Comparison:
    """One comparison of a suite.

    Attributes:
        a: the side that is compared with.
        b: the side that is judged.
        earlier: an interrupted run of the same seed: its pairs count, and its plan stands for a pilot.
    """

    a: Target
    b: Target
    earlier: Earlier | None = None


@dataclass
class Suite:
    """What became of a suite.

    Attributes:
        judged: by name.
        plans: by name.
        failed: what went wrong with those that have no judgement, by name.
    """

    judged: dict[str, Judgement] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)
    failed: dict[str, LatlabError] = field(default_factory=dict)


@dataclass
class _Prepared:
    """A comparison with its plan."""

    comparison: Comparison
    plan: Plan
    effect: float
    effect_why: str
    settings: Settings
    declared: bool
    seed: int
    placement: float = 0.0
    pairs: list[tuple[Sample, Sample]] = field(default_factory=list)

    def differences(self) -> list[paired.Difference]:
        names = _judge.measured(self.pairs[:1])
        return [_judge.difference(x, y, names) for x, y in self.pairs]


def run_suite(
    comparisons: Mapping[str, Comparison],
    settings: Settings,
    asked: Asked,
    recorder: Recorder,
    *,
    control: bool = True,
    planned: Callable[[str, Mapping[str, Any]], None] | None = None,
    told: Callable[[str, float, float], None] | None = None,
) -> Suite:
    """Measure comparisons in interleaved process pairs until all verdicts are settled or the budget is spent.

    The budget is that of one times their number; what one leaves over is for those that are undecided.

    Args:
        comparisons: by name.
        settings: how a process measures.
        asked: budget of each, level, effect.
        recorder: keeps every process.
        control: whether a host that failed its null control is refused.
        planned: told what the pilot of each settled, to keep it.
        told: told of each block that was measured, with the seconds that are left and the effect so far.
    """
    spent_s = 0.0
    refused = _control.refusal() if control else None
    out = Suite()
    ready: dict[str, _Prepared] = {}
    for index, (name, comparison) in enumerate(comparisons.items()):
        begin = awake()
        try:
            ready[name] = _prepared(comparison, settings, dataclasses.replace(asked, seed=asked.seed + index))
        except LatlabError as error:
            out.failed[name] = error  # the time that it took is not that of the others
            continue
        spent_s += awake() - begin
        one = ready[name]
        out.plans[name] = one.plan
        if comparison.earlier is None:
            for number, pair in enumerate(one.pairs):
                for side, sample in sorted(zip("AB", pair, strict=True), key=lambda both: both[1].position):
                    recorder.add(Row(name, number, sample.position, side, sample))
        if planned is not None:
            found = {"smallest_effect": one.effect, "smallest_effect_why": one.effect_why}
            found |= {"declared": one.declared, "refused": refused, "placement": one.placement}
            planned(name, {**found, "plan": dataclasses.asdict(one.plan)})
    names = list(ready)
    if not names:
        return out
    trials = [_trial(name, ready[name], asked, recorder) for name in names]
    family.run(
        trials,
        seconds=asked.seconds * len(trials) - spent_s,
        alpha=asked.alpha,
        failures=LatlabError,
        clock=awake,
        told=None if told is None else lambda index, left: told(names[index], left, _so_far(trials[index])),
    )
    for name, trial in zip(names, trials, strict=True):
        if isinstance(trial.failed, LatlabError):
            out.failed[name] = trial.failed
            continue
        one = ready[name]
        out.judged[name] = _judge.judge_pairs(
            one.pairs,
            smallest_effect=one.effect,
            smallest_effect_why=one.effect_why,
            alpha=asked.alpha,
            block_pairs=one.plan.block_pairs,
            refused=refused,
            declared=one.declared,
            over=asked.over,
            placement=one.placement,
            displaced=one.plan.displaced,
        )
    return out


def run_ab(
    a: Target, b: Target, settings: Settings, asked: Asked, recorder: Recorder, *, control: bool = True
) -> tuple[Judgement, Plan]:
    """One comparison alone, as `run_suite`.

    Raises:
        LatlabError: a side failed.
    """
    name = f"{a.name} / {b.name}"
    suite = run_suite({name: Comparison(a, b)}, settings, asked, recorder, control=control)
    if suite.failed:
        raise suite.failed[name]
    return suite.judged[name], suite.plans[name]


def _prepared(comparison: Comparison, settings: Settings, asked: Asked) -> _Prepared:
    earlier, declared = comparison.earlier, asked.smallest_effect is not None
    kept: list[tuple[Sample, Sample]] = []
    if earlier is None:
        plan, effect, why, settings, placement, kept = _planned(comparison.a, comparison.b, settings, asked)
    else:
        plan, effect, why = earlier.plan, earlier.effect, earlier.effect_why
        declared = declared or earlier.declared
        settings, _ = conditions_for(comparison.a, comparison.b, settings)
        settings, placement = _placing(comparison.a, comparison.b, settings, asked)
        if asked.smallest_effect is not None:
            effect, why = _declared(asked.smallest_effect)
        kept = list(earlier.pairs)
    settings = with_plan(settings, plan)
    return _Prepared(comparison, plan, effect, why, settings, declared, asked.seed, placement, kept)


def _placing(a: Target, b: Target, settings: Settings, asked: Asked) -> tuple[Settings, float]:
    """(settings, what the placement of two builds of compiled code may do to their times).

    What is built anew is placed anew by that; of what isn't, copies are placed anew where they can be.
    """
    same = (a.path, a.command[:1], a.fixture) == (b.path, b.command[:1], b.fixture)
    if same or asked.build is not None or compiled(a) is None or compiled(b) is None:
        return settings, 0.0
    placed, everywhere = draws_places(a, b, settings)
    return dataclasses.replace(settings, moved=placed), DRAWN_PLACEMENT if everywhere else PLACEMENT


def _so_far(trial: family.Trial) -> float:
    return math.expm1(float(np.median([d.log_ratios[0] for d in trial.seen])))


def _trial(name: str, one: _Prepared, asked: Asked, recorder: Recorder) -> family.Trial:
    targets = {"A": one.comparison.a, "B": one.comparison.b}

    def measure(order: tuple[paired.Side, paired.Side]) -> paired.Difference:
        if asked.build is not None and len(one.pairs) % one.plan.block_pairs == 0:
            _rebuild(asked.build, len(one.pairs) // one.plan.block_pairs, asked)
        place = len(one.pairs)
        samples = measure_pair(targets[order[0]], targets[order[1]], one.settings, place)
        for position, (side, sample) in enumerate(zip(order, samples, strict=True)):
            recorder.add(Row(name, len(one.pairs), position, side, sample))
        one.pairs.append(samples if order[0] == "A" else (samples[1], samples[0]))
        return _judge.difference(*one.pairs[-1], _judge.measured(one.pairs[:1]))

    return family.Trial(
        measure,
        _judging(one, asked),
        one.effect,
        one.seed,
        one.plan.block_pairs,
        asked.max_pairs,
        asked.early,
        one.differences(),
    )


def _judging(one: _Prepared, asked: Asked) -> Callable[[Sequence[paired.Difference], bool], PairedResult]:
    def judged(seen: Sequence[paired.Difference], final: bool) -> PairedResult:
        names = ("typical", "mean", "tail")[: 1 + len(seen[0].others)] if seen else ("typical",)
        measures = judge_measures(
            seen,
            names,
            smallest_effect=one.effect,
            declared=one.declared,
            alpha=asked.alpha,
            block_pairs=one.plan.block_pairs,
            final=final,
            pooled=pooled_mean(one.pairs),
            placement=one.placement,
            displaced=one.plan.displaced,
        )
        return combined(measures, alpha=asked.alpha, declared=asked.over)[0]

    return judged


def _planned(
    a: Target, b: Target, settings: Settings, asked: Asked
) -> tuple[Plan, float, str, Settings, float, list[tuple[Sample, Sample]]]:
    """Run the pilot; (plan, smallest effect, why that, the conditions that suit both, as in `_placing`, pairs
    that count already)."""
    settings, call_s = conditions_for(a, b, settings)
    settings, placement = _placing(a, b, settings, asked)
    begin = awake()
    command = a.apart or b.apart
    fixed = command or asked.iterations is not None
    if asked.iterations is not None:
        settings = dataclasses.replace(settings, iterations=asked.iterations)
    elif command:
        count = min(own_iterations(a) or 1, own_iterations(b) or 1)
        settings = dataclasses.replace(settings, iterations=count, warmup=0, batch=1)
    pilot = run_pilot(
        a,
        b,
        settings,
        fixed_iterations=fixed,
        budget_s=asked.seconds,
        rebuild=None if asked.build is None else lambda n: _rebuild(str(asked.build), n, asked),
        call_s=call_s,
        seed=asked.seed,
    )
    if asked.smallest_effect is None:
        effect, why = default_smallest_effect()
    else:
        effect, why = _declared(asked.smallest_effect)
    plan = make_plan(
        pilot,
        smallest_effect=effect,
        alpha=asked.alpha,
        power=asked.power,
        fixed_iterations=fixed,
        budget_s=max(0.0, asked.seconds - (awake() - begin)),
        max_pairs=asked.max_pairs,
    )
    return plan, effect, why, settings, placement, counting(pilot, plan)


def _declared(effect: float) -> tuple[float, str]:
    return effect, f"{relative(effect)}, as declared"


def run_aa(
    target: Target,
    settings: Settings,
    asked: Asked,
    *,
    comparisons: int,
    on_comparison: Callable[[int, PairedResult], None] | None = None,
) -> Control:
    """Compare a fixture with itself, again and again, exactly as `run_ab` compares two.

    One pilot serves all comparisons. Each is judged as `run_ab` would judge it, and spends its whole budget
    where no verdict stops it.

    Args:
        target: with its fixture settled.
        settings: how a process measures.
        asked: budget of each comparison.
        comparisons: how many.
        on_comparison: told of each (its number, what came out).
    """
    if comparisons < 1:
        raise LatlabError("a null control needs at least one comparison")
    one = _prepared(Comparison(target, target), settings, asked)
    called = 0
    for index in range(comparisons):
        again = dataclasses.replace(one, pairs=[], seed=asked.seed + 1 + index)
        trial = _trial(target.name, again, asked, Recorder())
        (result,) = family.run([trial], seconds=asked.seconds, alpha=asked.alpha, clock=awake)
        if result is None:
            continue  # nothing is caught here, so none
        called += result.verdict in (Ruling.FASTER, Ruling.SLOWER, Ruling.MIXED)
        if on_comparison is not None:
            on_comparison(index, result)
    return _control.control_of(comparisons, called, asked.alpha)


def _rebuild(command: str, number: int, asked: Asked) -> None:
    build_anew(command, number, asked.seed if asked.padding else None)
