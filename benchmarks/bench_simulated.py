"""The verdict's rates on simulated machines, whose truth is known: `python -m benchmarks.bench_simulated`.

`[--comparisons N] [--pairs N]`

Every comparison is judged as `latlab bench ab` judges it: looked at while it grows, stopped where it is
settled, over the typical time and the mean. The machines: one that is steady, one with heavy tails, with a
level that wanders (AR(1)), with two speeds between which it switches for a while, with processes of two
states, with a drift, with layouts that differ by more than the change, with an advantage of the side that
begins, and with rare slow runs. Bars: identical code called different in at most 2 %, +2 % found in 90 % on
steady machines and +5 % on all of them, none reversed; of a suite of 20 with two that changed 90 % of
what each has alone, false discoveries at most 5 %.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks._bars import Bar, report
from latlab.bench.judging.measures import combined, judge_measures
from latlab.model.statistics.paired import PairedResult
from latlab.stats.experiments import family, paired
from latlab.stats.experiments.multiple import benjamini_hochberg

Random = np.random.Generator
# The log-time of the next process: (state that lasts, random, whether it is the second of its pair).
Machine = Callable[[dict[str, float], Random, bool], float]
PAIR_S = 0.05
DIFFERENT = ("faster", "slower", "mixed")


def steady(_: dict[str, float], random: Random, __: bool) -> float:
    return 0.01 * random.normal()


def tails(_: dict[str, float], random: Random, __: bool) -> float:
    return 0.01 * float(random.standard_t(2))


def wandering(state: dict[str, float], random: Random, _: bool) -> float:
    state["level"] = 0.95 * state.get("level", 0.0) + 0.01 * random.normal()
    return state["level"] + 0.005 * random.normal()


def speeds(state: dict[str, float], random: Random, _: bool) -> float:
    if random.random() < 0.1:
        state["speed"] = 0.4 - state.get("speed", 0.0)
    return state.get("speed", 0.0) + 0.01 * random.normal()


def states(_: dict[str, float], random: Random, __: bool) -> float:
    return (0.037 if random.random() < 0.3 else 0.0) + 0.004 * random.normal()


def drifting(state: dict[str, float], random: Random, _: bool) -> float:
    state["at"] = state.get("at", 0.0) + 0.002
    return state["at"] + 0.01 * random.normal()


def layouts(_: dict[str, float], random: Random, __: bool) -> float:
    return float(random.choice([0.0, 0.0, 0.03, -0.02])) + 0.004 * random.normal()


def beginning(_: dict[str, float], random: Random, second: bool) -> float:
    return (0.03 if second else 0.0) + 0.01 * random.normal()


def rare(_: dict[str, float], random: Random, __: bool) -> float:
    return 0.01 * random.normal() + (1.0 if random.random() < 0.05 else 0.0)


MACHINES: dict[str, tuple[Machine, bool]] = {
    "steady": (steady, True),
    "heavy tails": (tails, False),
    "wandering": (wandering, False),
    "two speeds": (speeds, False),
    "two states": (states, False),
    "drifting": (drifting, True),
    "layouts": (layouts, False),
    "beginning": (beginning, False),
    "rare slow runs": (rare, False),
}


class Clock:
    """Time that only measuring takes."""

    def __init__(self) -> None:
        self.now = 0.0

    def trial(self, machine: Machine, change: float, seed: int, pairs: int) -> family.Trial:
        random, state = np.random.default_rng(seed), dict[str, float]()

        def measure(order: tuple[paired.Side, paired.Side]) -> paired.Difference:
            self.now += PAIR_S
            first, second = machine(state, random, False), machine(state, random, True)
            ratio = (second - first if order[0] == "A" else first - second) + change
            mean = ratio + 0.005 * random.normal()
            return paired.Difference((ratio,), (0.0,), (mean,))

        def judge(seen: Sequence[paired.Difference], final: bool) -> PairedResult:
            found = judge_measures(
                seen, ("typical", "mean"), smallest_effect=0.01, declared=False, alpha=0.05,
                block_pairs=2, final=final,
            )  # fmt: skip
            return combined(found, alpha=0.05)[0]

        return family.Trial(measure, judge, 0.01, seed, block_pairs=2, max_pairs=pairs)


def verdicts(machine: Machine, change: float, comparisons: int, pairs: int, seed: int) -> Counter[str]:
    out: Counter[str] = Counter()
    for number in range(comparisons):
        clock = Clock()
        trial = clock.trial(machine, float(np.log1p(change)), seed + number, pairs)
        (result,) = family.run([trial], seconds=1e9, clock=lambda clock=clock: clock.now)  # type: ignore[misc]
        out[str(result.verdict.value) if result else "failed"] += 1
    return out


def suite(changes: Sequence[float], seed: int, pairs: int) -> list[bool]:
    """Which of a suite are called different among all."""
    clock = Clock()
    trials = [clock.trial(steady, float(np.log1p(c)), 100 * seed + i, 10_000) for i, c in enumerate(changes)]
    results = family.run(trials, seconds=PAIR_S * pairs * len(trials), clock=lambda: clock.now)
    seen = [r for r in results if r is not None]
    adjusted = benjamini_hochberg([r.p_value for r in seen])
    return [r.verdict.value in DIFFERENT and p <= 0.05 for r, p in zip(seen, adjusted, strict=True)]


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--comparisons", type=int, default=25)
    parser.add_argument("--pairs", type=int, default=150)
    parser.add_argument("--suites", type=int, default=10)
    parser.add_argument("--seed", type=int, default=20_000)
    asked = parser.parse_args([] if __name__ != "__main__" else None)
    alarms, reversed_, compared, undecided = 0, 0, 0, 0
    found = {2: [0, 0], 5: [0, 0]}
    for name, (machine, is_steady) in MACHINES.items():
        for change in (0, 2, 5):
            seen = verdicts(machine, change / 100, asked.comparisons, asked.pairs, asked.seed)
            print(f"{name:16} +{change} %: {dict(seen)}", flush=True)
            if change == 0:
                alarms += sum(seen[v] for v in DIFFERENT)
                undecided += seen["inconclusive"]
                compared += asked.comparisons
            else:
                reversed_ += seen["faster"] + seen["mixed"]
            if change == 5 or (change == 2 and is_steady):
                found[change][0] += seen["slower"]
                found[change][1] += asked.comparisons
    alone = sum(suite([0.03], 500 + i, 40)[0] for i in range(2 * asked.suites)) / (2 * asked.suites)
    among = [suite([0.03] * 2 + [0.0] * 18, i, 40) for i in range(asked.suites)]
    power = sum(sum(one[:2]) for one in among) / (2 * asked.suites)
    false = float(np.mean([sum(one[2:]) / max(1, sum(one)) for one in among]))
    return report(
        [
            Bar("identical code called different", 100 * alarms / compared, 2, "%"),
            Bar("identical code undecided", 100 * undecided / compared, 20, "%"),
            Bar("+2 % found on steady machines", 100 * found[2][0] / found[2][1], 90, "%", at_least=True),
            Bar("+5 % found on all", 100 * found[5][0] / found[5][1], 90, "%", at_least=True),
            Bar("changes called the other way", reversed_, 0),
            Bar("power in a suite of that alone", 100 * power / max(alone, 1e-9), 90, "%", at_least=True),
            Bar("false discoveries in suites", 100 * false, 5, "%"),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
