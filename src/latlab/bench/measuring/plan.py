"""The plan: from what the pilot found, how many builds, processes and iterations the wanted effect takes."""

from __future__ import annotations

import dataclasses
import math

from latlab.bench.measuring.pilot import (
    FEWEST_LONG_TURNS,
    FEWEST_LONGEST_TURNS,
    FEWEST_TURNS,
    PILOT_BUILDS,
    Pilot,
)
from latlab.bench.processes.moved import PLACES
from latlab.model.bench import Plan, Settings
from latlab.stats.experiments import paired
from latlab.stats.variance import best_iterations
from latlab.words import duration, relative, share

__all__ = ["default_smallest_effect", "make_plan", "plan_from", "with_plan"]

FEWEST_PAIRS = 30  # must fit into the budget: two to four times as many as a clear difference needs
# Measuring for more than twice what starting a pair costs would gain a third at best, were the pilot's few
# pairs alike by luck; it loses more than that where they are not.
MOST_MEASURING = 2.0
# Nor do they tell well that processes differ by far more than their turns. Measuring for a part of what
# starting a pair costs loses an eighth of the precision at most.
LEAST_MEASURING = 0.25
# Less is seldom worth a line of code, and what an irrelevant edit moves by its layout alone is often more.
DEFAULT_EFFECT = 0.01
WORTH_CANCELLING = 0.75  # deviations of a pair; four pairs don't tell less from none
FEWEST_ITERATIONS, MOST_ITERATIONS = 20, 20_000
BLOCKS = (2, 4, 8, 16, 32, 64)  # pairs of a block that shares a build


def default_smallest_effect() -> tuple[float, str]:
    """What people mean by a change, where they don't say.

    Returns:
        (relative change, why).
    """
    return DEFAULT_EFFECT, (
        f"{share(DEFAULT_EFFECT, digits=0)} by default, up to 5 % where the budget can't tell less; "
        "declare yours with --effect"
    )


def make_plan(
    pilot: Pilot,
    *,
    smallest_effect: float,
    alpha: float,
    power: float,
    fixed_iterations: bool,
    budget_s: float = math.inf,
    max_pairs: int = 100_000,
) -> Plan:
    """Choose the iterations of a process and the pairs of a build, and say how many of each are needed.

    Args:
        pilot: what each level costs and varies.
        smallest_effect: relative, to be found.
        alpha: level.
        power: probability to find it.
        fixed_iterations: keep the pilot's, as for commands and where the user said so.
        budget_s: what is left of the budget.
        max_pairs: the same in pairs.
    """
    length = pilot.settings.turn or 1
    units = pilot.settings.iterations // length
    if not fixed_iterations:
        most = min(MOST_MEASURING * pilot.overhead_s, budget_s / FEWEST_PAIRS - pilot.overhead_s)
        parts = dataclasses.replace(pilot.parts, between=max(pilot.parts.between, pilot.explained(units)))
        units = min(best_iterations(parts, pilot.overhead_s, pilot.unit_s), int(max(most, 0) / pilot.unit_s))
        units = max(units, int(LEAST_MEASURING * pilot.overhead_s / pilot.unit_s))
        turns = FEWEST_TURNS
        if FEWEST_TURNS * pilot.unit_s > max(pilot.overhead_s, budget_s / FEWEST_PAIRS - pilot.overhead_s):
            turns = FEWEST_LONG_TURNS
        if turns * pilot.unit_s > max(pilot.overhead_s, budget_s / (1.5 * FEWEST_PAIRS) - pilot.overhead_s):
            # Then what differs from pair to pair (pages, placement) is told by more of them: a transposition
            # whose placement moves it by 4 % scattered by 0.3 % within its four turns of 8 ms.
            turns = min(turns, FEWEST_LONGEST_TURNS)
        units = max(units, turns if pilot.settings.turn else FEWEST_ITERATIONS)
        units = max(1, min(units, MOST_ITERATIONS // length))
        # A verdict needs a least number of pairs: they are made shorter where fewer would fit.
        each_s = budget_s / paired.fewest_blocks(alpha)
        if pilot.settings.turn and pilot.pair_s(units) > each_s >= pilot.pair_s(1):
            units = max(1, min(units, int((each_s - pilot.overhead_s) / pilot.unit_s)))
    pair_s = pilot.pair_s(units)
    effect = math.log1p(smallest_effect)

    def needed(pairs: int) -> int | None:
        deviation = max(pilot.block_deviation(units, pairs), 1e-9)
        return paired.needed_pairs(deviation, effect, alpha=alpha, block_pairs=pairs, power=power)

    def block_s(pairs: int) -> float:
        return pilot.build_s + pairs * pair_s

    def cost(pairs: int) -> float:
        count = needed(pairs)
        blocks = pilot.block_deviation(units, pairs) ** 2 if count is None else count / pairs
        return blocks * block_s(pairs)

    fewest = paired.fewest_blocks(alpha)

    def fits(pairs: int) -> bool:
        return 2 * fewest * block_s(pairs) <= budget_s and fewest * pairs <= max_pairs

    # Within a pair that took turns no drift is left for a block of two to cancel, and the fewest pairs that a
    # verdict takes are half as many where each has a coin of its own; unless the one that begins has an
    # advantage beyond the noise, of which what earlier pairs teach takes out a part only. Where the budget
    # holds few pairs, half of the coins is more of a loss than drift.
    level = abs(pilot.position) <= WORTH_CANCELLING * pilot.pair_deviation
    block = 1 if level and (pilot.settings.turn or not fits(paired.BLOCK_PAIRS)) else paired.BLOCK_PAIRS
    if pilot.settings.moved and fits(PLACES):
        # One build may gain at one place within a line what it loses at the others: each block has them all.
        block = PLACES
    if pilot.build_deviation is not None:
        block = min((n for n in BLOCKS if n == 2 or fits(n)), key=cost)
    pairs = needed(block)
    held = None
    if math.isfinite(budget_s) or max_pairs < 100_000:
        blocks = budget_s / block_s(block) if math.isfinite(budget_s) else math.inf
        held = block * max(1, int(min(blocks, max_pairs / block)))
    found = None
    if held is not None:
        deviation = pilot.block_deviation(units, block)
        found = paired.found_effect(deviation, held // block, alpha=alpha, power=power)
    rebuilt = pilot.build_deviation is not None
    plan = Plan(
        iterations=units * length if not fixed_iterations else pilot.settings.iterations,
        warmup=min(pilot.settings.warmup, max(units * length, pilot.settings.iterations)),
        batch=pilot.settings.batch,
        turn=pilot.settings.turn,
        unmeasured=pilot.settings.unmeasured,
        process_deviation=pilot.parts.between,
        iteration_deviation=pilot.parts.within,
        effective_share=pilot.parts.effective_share,
        build_deviation=pilot.build_deviation,
        block_pairs=block,
        builds=(None if pairs is None else pairs // block) if rebuilt else 1,
        pairs=pairs,
        seconds=None if pairs is None else pairs // block * block_s(block),
        build_s=pilot.build_s,
        pair_s=pair_s,
        power=power,
        budget_pairs=held,
        budget_effect=None if found is None else math.expm1(found),
        why="",
        displaced=pilot.displaced,
    )
    why = _why(plan, pilot.pairs, smallest_effect, alpha, fixed=fixed_iterations)
    if pilot.settings.moved:
        why += "; each pair has another placement of both files"
    return dataclasses.replace(plan, why=f"{why}; {', '.join(pilot.context) or 'plain scheduling'}")


def with_plan(settings: Settings, plan: Plan) -> Settings:
    """The settings that a plan asks for."""
    return dataclasses.replace(
        settings,
        iterations=plan.iterations,
        warmup=plan.warmup,
        batch=plan.batch,
        turn=plan.turn,
        unmeasured=plan.unmeasured,
    )


def plan_from(document: object) -> Plan | None:
    """A plan as a recording keeps it; None where it is of an older version or damaged."""
    try:
        return Plan(**document)  # type: ignore[arg-type]
    except TypeError:
        return None


def _why(plan: Plan, count: int, effect: float, alpha: float, *, fixed: bool) -> str:
    chosen = "as requested" if fixed else "chosen for the narrowest interval in the time"
    if plan.turn:
        what = (
            f"{count} pilot pairs: their ratios vary by {relative(plan.process_deviation)} "
            f"from pair to pair "
            f"and by {relative(plan.iteration_deviation)} from turn to turn, of which "
            f"{share(plan.effective_share, digits=0)} "
            f"count as independent; {plan.iterations} iterations a process, {chosen}, in turns of "
            f"{plan.turn} after {plan.unmeasured} unmeasured: {duration(1e9 * plan.pair_s)} a pair"
        )
    else:
        what = (
            f"{count} pilot pairs: {relative(plan.process_deviation)} between processes, "
            f"{relative(plan.iteration_deviation)} between iterations, of which "
            f"{share(plan.effective_share, digits=0)} count "
            f"as independent; {plan.iterations} iterations a process, {chosen}, one process after the other: "
            f"{duration(1e9 * plan.pair_s)} a pair"
        )
    if plan.build_deviation is not None:
        what += (
            f"; {relative(plan.build_deviation)} from build to build of {PILOT_BUILDS}, "
            f"each of which takes "
            f"{duration(1e9 * plan.build_s)}: {plan.block_pairs} pairs a build take the least time"
        )
    if plan.pairs is not None and plan.seconds is not None:
        builds = "" if plan.build_deviation is None else f"{plan.builds} builds with "
        what += (
            f"; {_share(effect)} at level {alpha:g} and power {plan.power:g} needs {builds}{plan.pairs} "
            f"pairs ({duration(1e9 * plan.seconds)})"
        )
    if plan.budget_pairs is not None:
        what += f"; the budget allows {plan.budget_pairs} pairs, " + (
            "too few for any verdict"
            if plan.budget_effect is None
            else f"which find {_share(plan.budget_effect)} with that power"
        )
    return what


def _share(effect: float) -> str:
    return f"{relative(effect)}" if effect >= 1e-5 else relative(effect, digits=2)
