"""The pilot: some pairs measured before the experiment, for what each level of it costs and varies."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from latlab.bench.judging.judge import FEWEST_UNDELAYED, difference, log_ratio, turn_ratios
from latlab.bench.judging.measures import DISPLACED, tail_quantile
from latlab.bench.measuring import turns
from latlab.bench.processes.process import measure_once, measure_pair
from latlab.bench.processes.stops import awake
from latlab.bench.results.targets import Target
from latlab.errors import NotTrustworthyError
from latlab.model.bench import Plan, Sample, Settings
from latlab.stats.experiments.paired import Side, fewest_blocks, interleaving
from latlab.stats.variance import Components, components, midmean, one_way
from latlab.words import duration

__all__ = ["PILOT_BUILDS", "PILOT_PAIRS", "Pilot", "counting", "pilot_pairs", "run_pilot"]

PILOT_PAIRS, PILOT_TURNS, PILOT_BUILDS = 4, 16, 3
FEWEST_PAIRS = fewest_blocks(0.05)
BEYOND = 2.0  # times the budget: then a comparison is not begun
FEWEST_PILOT_PAIRS = 2
# Of the budget. Where it would cost more, the other way to run a pair isn't tried; and where starting
# processes alone does, the pilot is two pairs: the verdict needs the others more than the plan does.
PILOT_SHARE = 0.15
WORTH_IT = 0.2  # four pairs don't tell smaller differences of cost
DEAR_S, WORTH_IT_IF_DEAR = 5e-3, 0.5
LONG = 0.01  # of the budget
FEWEST_TURNS = 8
# Where eight turns are dear. Of fewer the first ones, which a process is still warming up in, are too large a
# part: walks through 16 MB scattered by 10 % from pair to pair in two turns, by 1 to 2 % in four to eight.
FEWEST_LONG_TURNS = 4
FEWEST_LONGEST_TURNS = 2  # where a turn takes so long that what begins a pair is a small part of it
Pair = tuple[Sample, Sample]
_MIDMEAN = 1.2  # its variance over that of a mean


@dataclasses.dataclass(frozen=True)
class Pilot:
    """What some pairs under the same settings showed; the unit is an iteration, or a turn of both sides.

    Attributes:
        settings: under which they were measured.
        parts: relative deviations between processes and between units.
        pair_deviation: of a pair's log-ratio, by the statistic that scatters least.
        build_deviation: of a build's; None where nothing is rebuilt.
        build_s: seconds that both sides' build takes.
        overhead_s: seconds of a pair that aren't measuring.
        unit_s: seconds of a unit of both sides.
        typical_ns: of an operation.
        context: which of "pinned", "fifo", "locked" came about.
        alone_ns: the same in a process that has the processor to itself; 0 where that wasn't measured.
        position: log-ratio of the second process of a pair to the first, whichever side they are; 0 where
            two pairs can't tell it from the effect and the noise.
        pairs: measured.
        kept: those of them whose order was drawn as the experiment's pairs are and that were measured as they
            will be: they count among them.
    """

    settings: Settings
    parts: Components
    pair_deviation: float
    build_deviation: float | None
    build_s: float
    overhead_s: float
    unit_s: float
    typical_ns: float
    context: tuple[str, ...] = ()
    position: float = 0.0
    pairs: int = PILOT_PAIRS
    alone_ns: float = 0.0
    kept: tuple[Pair, ...] = ()

    @property
    def displaced(self) -> float:
        """How many times as long an operation takes beside the other side's process as alone."""
        return self.typical_ns / self.alone_ns if self.alone_ns and self.settings.turn else 1.0

    @property
    def cost(self) -> float:
        """Seconds for a given precision: time of a pair times its variance."""
        units = self.settings.iterations / (self.settings.turn or 1)
        return self.pair_s(units) * self.pair_deviation**2

    def pair_s(self, units: float) -> float:
        """Seconds of a pair of so many units."""
        return self.overhead_s + units * self.unit_s

    def explained(self, units: int) -> float:
        """Standard deviation of a process (pair) that so many units explain.

        Of as many as the pilot had, it is also the least deviation between processes that a few can show.
        """
        return self.parts.within * math.sqrt(_MIDMEAN / max(1.0, self.parts.effective_share * units))

    def block_deviation(self, units: int, pairs: int) -> float:
        """Standard deviation of the mean log-ratio of a block: so many pairs of so many units, one build."""
        own = self.parts.between**2 + self.explained(units) ** 2
        # Where they took turns the parts are those of the ratio; else of either of its two processes.
        own *= 1 if self.settings.turn else 2
        return math.sqrt((self.build_deviation or 0.0) ** 2 + own / pairs)


def run_pilot(
    a: Target,
    b: Target,
    settings: Settings,
    *,
    fixed_iterations: bool,
    budget_s: float,
    rebuild: Callable[[int], None] | None,
    call_s: float = 0.0,
    seed: int = 0,
) -> Pilot:
    """Measure some pairs in turns and some one process after the other, and keep the better of the two ways.

    Args:
        a: one side.
        b: the other, or the same once more.
        settings: what was asked for. A batch of 0 is settled here, the same for both sides, since the clock's
            reading weighs more in a smaller one.
        fixed_iterations: keep the asked iterations.
        budget_s: what the whole experiment may take.
        rebuild: makes both sides anew.
        call_s: seconds of a call, where they are known.
        seed: of the experiment's order. Where processes are dear the pilot's pairs are its first ones: which
            way is better doesn't depend on the coins, so that these stay fair.

    Raises:
        NotTrustworthyError: the fewest pairs that allow a verdict take much longer than the budget.
    """
    begin = awake()
    _check_fits(a.name, call_s, budget_s)
    first = [
        measure_once(target, dataclasses.replace(settings, iterations=_few(settings, call_s, budget_s)))
        for target in ((a,) if a == b else (a, b))
    ]
    batch = max(sample.batch for sample in first)
    iteration_s = max(_iteration_s(s) * batch / s.batch for s in first)
    apart = dataclasses.replace(settings, batch=batch)
    count = pilot_pairs(max(s.process_s for s in first), budget_s)
    drawn = None
    if count == FEWEST_PILOT_PAIRS and rebuild is None:
        drawn = list(itertools.islice(interleaving(seed, block_pairs=1), count))
    if a.apart or b.apart:
        _check_fits(a.name, max(float(s.times_ns.mean()) * 1e-9 for s in first), budget_s)
        return _pairs(a, b, apart, rebuild, count, drawn=drawn)
    probed = turns.probed_length(iteration_s, PILOT_SHARE * budget_s)
    most = max(1, settings.iterations // FEWEST_TURNS) if fixed_iterations else settings.iterations
    affordable = int(PILOT_SHARE * budget_s / (2 * PILOT_PAIRS * max(call_s, 1e-9)))

    def in_turns(turn: int, unmeasured: int) -> Settings:
        found = dataclasses.replace(apart, turn=min(turn, most), unmeasured=unmeasured)
        if fixed_iterations:
            return found
        # What takes long gets fewer turns, down to one, so that the pilot leaves something of the budget.
        iterations = turn * min(PILOT_TURNS, max(1, affordable // (turn + unmeasured)))
        return dataclasses.replace(found, iterations=iterations, warmup=min(settings.warmup, iterations))

    def whole(length: int) -> Settings:
        return dataclasses.replace(usual, iterations=length * turns.PROBED_TURNS, turn=length, unmeasured=0)

    def settled(samples: Pair, order: tuple[Side, Side]) -> tuple[Settings, Pair]:
        length = probed
        while more := turns.longer(samples, length, iteration_s, PILOT_SHARE * budget_s):
            samples, length = _ordered(a, b, whole(more), 0, order), more
        turn, unmeasured = turns.settled_turn(samples, length, iteration_s, most=most)
        one, other = (turns.kept(sample, length, turn, unmeasured) for sample in samples)
        return in_turns(turn, unmeasured), (one, other)

    usual = in_turns(*turns.turn_of(iteration_s))
    pilot = _pairs(
        a, b, whole(probed) if probed else usual, rebuild, count, settled if probed else None, drawn=drawn
    )
    pilot = dataclasses.replace(pilot, alone_ns=max(midmean(s.times_ns) for s in first))
    # Where the luck of a process's pages decides, two that are alive at once have more of it than two
    # that follow each other into the same pages; where the processor's frequency does, turns take it out.
    # So is what takes long in each turn to get its data back.
    dear = pilot.settings.unmeasured * iteration_s > DEAR_S
    quick = 2 * count * max(s.process_s for s in first) < PILOT_SHARE * budget_s
    if 2 * (awake() - begin) < PILOT_SHARE * budget_s or (dear and quick):
        alone = _pairs(a, b, dataclasses.replace(usual, turn=0, unmeasured=0), rebuild, count, drawn=drawn)
        worth = 1.0 if pilot.displaced >= DISPLACED else WORTH_IT_IF_DEAR if dear else WORTH_IT
        if alone.cost < worth * pilot.cost:
            pilot = alone
    return pilot


def _check_fits(name: str, call_s: float, budget_s: float) -> None:
    if call_s * 2 * FEWEST_PAIRS > BEYOND * budget_s:
        raise NotTrustworthyError(
            f"{name}: a call takes {duration(call_s * 1e9)}, so that the fewest pairs that allow a verdict "
            f"({FEWEST_PAIRS}) take {duration(4e9 * FEWEST_PAIRS * call_s)}",
            remedy=f"raise the budget: --seconds {math.ceil(4 * FEWEST_PAIRS * call_s)}",
        )


def counting(pilot: Pilot, plan: Plan) -> list[Pair]:
    """The pilot's pairs that count among the experiment's: whose order was drawn, measured as the plan says.

    What sums up a pair depends on how many iterations it has.
    """

    def alike(sample: Sample) -> bool:
        own, planned = len(sample.times_ns), plan.iterations
        return (
            (sample.turn, sample.batch) == (plan.turn, plan.batch)
            and (own > 1) == (planned > 1)
            and tail_quantile(own) == tail_quantile(planned)
            and (own < FEWEST_UNDELAYED) == (planned < FEWEST_UNDELAYED)
        )

    if plan.block_pairs != 1 or plan.displaced >= DISPLACED:
        return []
    return list(itertools.takewhile(lambda pair: all(map(alike, pair)), pilot.kept))


def pilot_pairs(process_s: float, budget_s: float) -> int:
    """Pairs of a pilot whose processes take so long, of which a part waits for them to start."""
    dear = 2 * PILOT_PAIRS * process_s > PILOT_SHARE * budget_s
    return FEWEST_PILOT_PAIRS if dear else PILOT_PAIRS


def _few(settings: Settings, call_s: float, budget_s: float) -> int:
    """Iterations of the first look at a side; of a call that is a part of the budget, one."""
    if call_s > LONG * budget_s:
        return 1
    return min(20, settings.iterations, max(1, int(PILOT_SHARE * budget_s / max(call_s, 1e-9))))


def _pairs(
    a: Target,
    b: Target,
    settings: Settings,
    rebuild: Callable[[int], None] | None,
    count: int,
    settled: Callable[[Pair, tuple[Side, Side]], tuple[Settings, Pair]] | None = None,
    drawn: Sequence[tuple[Side, Side]] | None = None,
) -> Pilot:
    """The pilot by `count` pairs; by the first of them `settled` chooses how the others are measured.

    The order alternates where it isn't drawn, or what the first of a pair has over the second would look like
    an effect.
    """
    pairs: list[Pair] = []
    build_s = []
    for index in range(count if rebuild is None else 2 * PILOT_BUILDS):
        if rebuild is not None and index % 2 == 0:
            begin = awake()
            rebuild(index // 2)
            build_s.append(awake() - begin)
        order: tuple[Side, Side] = (("A", "B"), ("B", "A"))[index % 2] if drawn is None else drawn[index]
        pairs.append(_ordered(a, b, settings, index, order))
        if settled is not None and index == 0:
            settings, pairs[0] = settled(pairs[0], order)
    timed = pairs if settled is None else pairs[1:]
    samples = [sample for pair in pairs for sample in pair]
    logs = np.array([log_ratio(*pair) for pair in pairs])
    summed = [difference(*pair).log_ratios for pair in pairs]
    both = np.array([ratios[: min(map(len, summed))] for ratios in summed])
    turned = np.where(np.arange(len(logs)) % 2, -1.0, 1.0)
    # The effect falls out of it; so does all scatter where two pairs are all there are.
    position = float((logs * turned).mean()) if len(pairs) > FEWEST_PILOT_PAIRS else 0.0
    both -= position * turned[:, None]  # which blocks of two cancel
    # The mean distance from the median: of four values it scatters less than the median one.
    deviation = 1.2533 * float(np.abs(both - np.median(both, axis=0)).mean(axis=0).min())
    if settings.turn:
        of_turns = [turn_ratios(*pair) for pair in pairs]
        parts = components([np.exp(r - position * s) for r, s in zip(of_turns, turned, strict=True)])
        # The side that is ready first takes its first turn and then waits until the other has started, too.
        measuring_s = float(np.median([min(s.measuring_s for s in pair) for pair in timed]))
        units, whole_s = settings.iterations // settings.turn, [pair[0].process_s for pair in timed]
    else:
        sides = [[pair[i].times_ns for pair in pairs] for i in (0, 1)]
        parts = components([x / midmean([midmean(t) for t in side]) for side in sides for x in side])
        measuring_s = float(np.median([sum(s.measuring_s for s in pair) for pair in pairs]))
        units, whole_s = settings.iterations, [sum(s.process_s for s in pair) for pair in pairs]
    of_builds = None
    if rebuild is not None:
        # What the pairs of one build differ by is the processes' own; the rest of the pairs' is the builds'.
        of_builds, own = one_way(logs.reshape(PILOT_BUILDS, 2))
        own2 = own**2 * (1.0 if settings.turn else 0.5)
        explained = _MIDMEAN * parts.within**2 / max(1.0, parts.effective_share * units)
        parts = dataclasses.replace(parts, between=math.sqrt(max(0.0, own2 - explained)))
    return Pilot(
        settings, parts, deviation, of_builds, float(np.median(build_s)) if build_s else 0.0,
        max(float(np.median(whole_s)) - measuring_s, 1e-4), max(measuring_s, 1e-7) / max(1, units),
        float(np.median([midmean(s.times_ns) for s in samples])), samples[0].context, position, len(pairs),
        kept=() if drawn is None else tuple(pairs),
    )  # fmt: skip


def _ordered(a: Target, b: Target, settings: Settings, place: int, order: tuple[Side, Side]) -> Pair:
    """The samples of A and of B, which were measured in this order."""
    if order[0] == "A":
        return measure_pair(a, b, settings, place)
    second, first = measure_pair(b, a, settings, place)
    return first, second


def _iteration_s(sample: Sample) -> float:
    """Typical seconds of an iteration, with the set-up and tear-down that aren't measured."""
    own_ns = sample.times_ns * sample.operations * sample.batch
    return midmean(own_ns) * 1e-9 * max(1.0, sample.measuring_s / (float(own_ns.sum()) * 1e-9))
