"""The pilot: what a process costs and how it varies, and so how long each should measure."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from latlab.bench._judge import log_ratio, turn_ratios
from latlab.bench._process import measure_once, measure_pair
from latlab.bench._targets import Target
from latlab.model.bench import Plan, Sample, Settings
from latlab.stats import paired
from latlab.stats.variance import Components, best_iterations, components, midmean

__all__ = ["cycle_ns", "default_smallest_effect", "make_plan"]

PILOT_PAIRS, PILOT_TURNS, PILOT_BUILDS = 4, 16, 3
PILOT_SHARE = 0.2  # of the budget: beyond it the other way to run a pair isn't tried
WORTH_IT = 0.5  # four pairs don't tell smaller differences of cost
FEWEST_PAIRS = 30  # must fit into the budget: twice as many as a clear difference needs
# A processor's frequency wanders by 0.2 % within 0.1 ms and by 1 % within 10 (measured on a shared machine),
# so turns are short; what the other side left in the caches is displaced in some tens of microseconds.
TURN_S, COLD_S = 100e-6, 30e-6
# Measuring for more than twice what starting a pair costs would gain a third at best, were the pilot's few
# pairs alike by luck; it loses more than that where they are not.
MOST_MEASURING = 2.0
# A smallest effect of one cycle says that changes of an operation of some cycles don't matter before they are
# tens of percent, which no user of a loop of such operations believes.
LARGEST_DEFAULT = 0.0025
FEWEST_TURNS, FEWEST_ITERATIONS, MOST_ITERATIONS = 8, 20, 20_000


def cycle_ns() -> float:
    """One cycle of this processor at its nominal rate, which is what the kernel states first in cpuinfo."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("cpu MHz"):
            return 1e3 / float(line.partition(":")[2])
    return 1.0 / 3.0


def default_smallest_effect(typical_ns: float) -> tuple[float, str]:
    """The larger of one cycle and one instruction an operation, relative to the operation's time.

    An instruction takes no more than a cycle where any work is done in parallel, so that the cycle decides.

    Returns:
        (relative change, why).
    """
    cycle = cycle_ns()
    effect = cycle / typical_ns
    if effect > LARGEST_DEFAULT:
        return LARGEST_DEFAULT, (
            f"{LARGEST_DEFAULT:.2%}: one cycle ({cycle:.2f} ns) would be {effect:.2%} of an operation of "
            f"{typical_ns:.4g} ns, so the cap holds; declare your own by --effect"
        )
    return (
        effect,
        f"one cycle ({cycle:.2f} ns) an operation of {typical_ns:.4g} ns; declare yours by --effect",
    )


def make_plan(
    a: Target,
    b: Target,
    settings: Settings,
    *,
    smallest_effect: float | None,
    alpha: float,
    fixed_iterations: bool,
    budget_s: float = math.inf,
    rebuild: Callable[[int], None] | None = None,
) -> tuple[Plan, Settings, float, str]:
    """Run the pilot and choose the batch, the turns and the iterations of a process.

    Args:
        a: one side.
        b: the other, or the same once more.
        settings: what was asked for. A batch of 0 is settled here, the same for both sides, since the clock's
            reading weighs more in a smaller one.
        smallest_effect: declared, or None for the default.
        alpha: level of the plan.
        fixed_iterations: keep the asked iterations, as for commands and where the user said so.
        rebuild: makes both sides anew, as before each block of the experiment; None leaves them.
        budget_s: what measuring may take in all; so much is left for each pair that `FEWEST_PAIRS` fit.

    Returns:
        (plan, settings to measure with, smallest effect, why that).
    """
    begin = time.monotonic()
    command = "command" in (a.kind, b.kind)
    first = [
        measure_once(target, dataclasses.replace(settings, iterations=min(20, settings.iterations)))
        for target in ((a,) if a == b else (a, b))
    ]
    batch = max(sample.batch for sample in first)
    iteration_s = max(_iteration_s(s) * batch / s.batch for s in first)
    apart = dataclasses.replace(settings, batch=batch)
    if command:
        pilot = _pilot(a, b, apart, rebuild)
    else:
        turn, unmeasured = turn_of(iteration_s)
        if fixed_iterations:
            turn = max(1, min(turn, settings.iterations // FEWEST_TURNS))
        else:
            apart = _with_iterations(apart, turn * PILOT_TURNS, settings.warmup)
        pilot = _pilot(a, b, dataclasses.replace(apart, turn=turn, unmeasured=unmeasured), rebuild)
        # Where the luck of a process's pages decides, two that are alive at once have more of it than two
        # that follow each other into the same pages; where the processor's frequency does, turns take it out.
        if time.monotonic() - begin < PILOT_SHARE * budget_s:
            alone = _pilot(a, b, apart, rebuild)
            if alone.cost < WORTH_IT * pilot.cost:
                pilot = alone
    settled = pilot.settings
    if not command and not fixed_iterations:
        left = budget_s - (time.monotonic() - begin)
        most = min(MOST_MEASURING * pilot.overhead_s, left / FEWEST_PAIRS - pilot.overhead_s) / pilot.unit_s
        units = min(best_iterations(pilot.parts, pilot.overhead_s, pilot.unit_s), int(max(most, 0)))
        length = settled.turn or 1
        units = min(
            max(units, FEWEST_TURNS if settled.turn else FEWEST_ITERATIONS), MOST_ITERATIONS // length
        )
        settled = _with_iterations(settled, units * length, settings.warmup)
    units = settled.iterations // (settled.turn or 1)
    pair_s = pilot.overhead_s + units * pilot.unit_s
    if smallest_effect is None:
        smallest_effect, effect_why = default_smallest_effect(pilot.typical_ns)
    else:
        effect_why = f"{smallest_effect:.3%}, as declared"
    deviation = pilot.block_deviation(units)
    pairs = paired.needed_pairs(max(deviation, 1e-9), math.log1p(smallest_effect), alpha=alpha)
    seconds = None if pairs is None else pairs * pair_s
    parts = pilot.parts
    plan = Plan(
        settled.iterations, batch, settled.turn, parts.between, parts.within, parts.effective_share,
        pilot.build_deviation, pairs, seconds, "",
    )  # fmt: skip
    why = _why(plan, settled, pair_s, smallest_effect, alpha)
    why += f"; {', '.join(pilot.context) or 'plain scheduling'}"
    return dataclasses.replace(plan, why=why), settled, smallest_effect, effect_why


@dataclasses.dataclass(frozen=True)
class _Pilot:
    """What some pairs under the same settings showed; the unit is an iteration, or a turn of both sides."""

    settings: Settings
    parts: Components
    pair_deviation: float  # robust, of the log-ratio
    build_deviation: float | None
    overhead_s: float  # of a pair
    unit_s: float
    typical_ns: float
    context: tuple[str, ...]

    @property
    def cost(self) -> float:
        """Seconds for a given precision: time of a pair times its variance."""
        units = self.settings.iterations / (self.settings.turn or 1)
        return (self.overhead_s + units * self.unit_s) * self.pair_deviation**2

    def block_deviation(self, units: int) -> float:
        """Standard deviation of the mean log-ratio of a block of two pairs, of so many units each."""
        parts = self.parts
        own = parts.between**2 + 1.2 * parts.within**2 / max(1.0, parts.effective_share * units)
        # Two sides that are independent and two pairs make that of one process; a pair's is halved by two.
        return math.sqrt(own / 2) if self.settings.turn else math.sqrt(own)


def _pilot(a: Target, b: Target, settings: Settings, rebuild: Callable[[int], None] | None) -> _Pilot:
    pairs = []
    for index in range(PILOT_PAIRS if rebuild is None else 2 * PILOT_BUILDS):
        if rebuild is not None and index % 2 == 0:
            rebuild(index // 2)
        pairs.append(measure_pair(a, b, settings))
    samples = [sample for pair in pairs for sample in pair]
    logs = np.array([log_ratio(*pair) for pair in pairs])
    # The mean distance from the median: of four values it scatters less than the median one.
    deviation = 1.2533 * float(np.abs(logs - np.median(logs)).mean())
    of_builds = None
    if rebuild is not None:  # two pairs a build: one-way random effects
        builds = logs.reshape(-1, 2)
        own = float(np.diff(builds, axis=1).var() + np.diff(builds, axis=1).mean() ** 2) / 2
        of_builds = math.sqrt(max(0.0, float(builds.mean(axis=1).var(ddof=1)) - own / 2))
    if settings.turn:
        parts = components([np.exp(turn_ratios(*pair)) for pair in pairs])
        measuring_s = float(np.median([max(s.measuring_s for s in pair) for pair in pairs]))
        units, whole_s = settings.iterations // settings.turn, [pair[0].process_s for pair in pairs]
    else:
        sides = [[pair[i].times_ns for pair in pairs] for i in (0, 1)]
        parts = components([x / midmean([midmean(t) for t in side]) for side in sides for x in side])
        measuring_s = float(np.median([sum(s.measuring_s for s in pair) for pair in pairs]))
        units, whole_s = settings.iterations, [sum(s.process_s for s in pair) for pair in pairs]
    return _Pilot(
        settings, parts, deviation, of_builds, max(float(np.median(whole_s)) - measuring_s, 1e-4),
        max(measuring_s, 1e-7) / max(1, units), float(np.median([midmean(s.times_ns) for s in samples])),
        samples[0].context,
    )  # fmt: skip


def _iteration_s(sample: Sample) -> float:
    """Typical seconds of an iteration, with the set-up and tear-down that aren't measured."""
    own_ns = sample.times_ns * sample.operations * sample.batch
    return midmean(own_ns) * 1e-9 * max(1.0, sample.measuring_s / (float(own_ns.sum()) * 1e-9))


def turn_of(iteration_s: float) -> tuple[int, int]:
    """(measured iterations of a turn, unmeasured ones before them), for iterations of so many seconds."""
    length = max(1, math.ceil(TURN_S / iteration_s))
    return length, math.ceil(COLD_S / iteration_s) if iteration_s < 10 * COLD_S else 0


def _with_iterations(settings: Settings, iterations: int, warmup: int) -> Settings:
    return dataclasses.replace(settings, iterations=iterations, warmup=min(warmup, iterations))


def _why(plan: Plan, settings: Settings, pair_s: float, effect: float, alpha: float) -> str:
    if plan.turn:
        what = (
            f"{PILOT_PAIRS} pilot pairs: their ratios vary by {plan.process_deviation:.3%} from pair to pair "
            f"and by {plan.iteration_deviation:.3%} from turn to turn, of which {plan.effective_share:.0%} "
            f"count as independent; a pair takes {pair_s * 1e3:.3g} ms with {settings.iterations} iterations "
            f"a process, in turns of {plan.turn} after {settings.unmeasured} unmeasured"
        )
    else:
        what = (
            f"{PILOT_PAIRS} pilot pairs: {plan.process_deviation:.3%} between processes, "
            f"{plan.iteration_deviation:.3%} between iterations, of which {plan.effective_share:.0%} count "
            f"as independent; a pair takes {pair_s * 1e3:.3g} ms, one process of {settings.iterations} "
            "iterations after the other"
        )
    if plan.build_deviation is not None:
        what += (
            f"; {plan.build_deviation:.3%} from build to build, of which each block of "
            f"{paired.BLOCK_PAIRS} pairs has its own"
        )
    if plan.pairs is not None and plan.seconds is not None:
        what += (
            f"; {effect:.3%} at level {alpha:g} and power 0.9 needs {plan.pairs} pairs ({plan.seconds:.3g} s)"
        )
    return what
