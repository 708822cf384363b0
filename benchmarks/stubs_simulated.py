"""Studies on simulated machines, with truths that are known: `python -m benchmarks.stubs_simulated`

`[--systems 60] [--rounds 5] [--machines one,equal]` Each system has a start, a component, other work and
waits, and perhaps a path beside them. A machine slows its work: never ("one", and "spikes" in 30 % of runs),
by a part that each process draws ("layout") or that grows ("drift"), or by 55 % in a slow state that comes
and goes. There the truth has the study's own mix of the states ("equal") or one of its own ("unlike"). Truths
are the levels of 400 runs at each speedup: the expected least of four, and the mean. No clock is read; some
ten minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from latlab.stubs import forecast
from latlab.stubs.studies import levels
from latlab.stubs.studies.study import _part, _Rounds, _widened

MACHINES = ("one", "spikes", "layout", "drift", "equal", "unlike")
STEPS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
TRUTH_RUNS = 400
LAB_MS, START_MS = 60.0, 60.0
SEEN = 0.06  # the share of runs in either state from which on a study saw it

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class System:
    """Times in ms; `beside` is a path that runs beside component and work."""

    component: float
    work: float
    waits: float
    beside: float

    def time(
        self, speedup: float, slow: Floats, spikes: float, random: np.random.Generator, lab: float = 0.0
    ) -> Floats:
        """Of as many runs as `slow` tells of."""
        busy = (self.component * (1 - speedup) + self.work) * (1 + 0.55 * slow)
        busy = np.maximum(busy, self.beside * (1 + 0.55 * slow))
        whole = (START_MS + lab) * (1 + 0.15 * slow) + busy + self.waits
        noise = 1 + 0.02 * np.abs(random.normal(size=len(slow)))
        held_up = random.exponential(25, len(slow)) * (random.random(len(slow)) < spikes)
        return np.asarray(whole * noise + held_up)


def states(random: np.random.Generator, machine: str, runs: int, share: float, stay: float) -> Floats:
    """How slow the machine is in each run, in order."""
    if machine in ("one", "spikes"):
        return np.zeros(runs)
    if machine == "layout":
        return random.uniform(0, 0.35, runs)
    if machine == "drift":
        return np.linspace(0, 1, runs) * share / 2

    def those() -> Iterator[float]:
        slow = random.random() < share
        for _ in range(runs):
            if random.random() > stay:
                slow = random.random() < share
            yield float(slow)

    return np.array(list(those()))


def one(machine: str, seed: int, rounds: int) -> tuple[float, ...]:
    """Of one study: held by the least and by the mean, mean error, half width, two told, both seen."""
    random = np.random.default_rng(seed)
    system = System(
        random.uniform(15, 120), random.uniform(5, 120),
        float(random.choice([0, 20, 60, 120])), float(random.choice([0, 0, 90])),
    )  # fmt: skip
    stay = float(random.choice([0.3, 0.9, 0.98]))
    share, later = random.beta(0.8, 0.8, 2)
    spikes = 0.3 if machine == "spikes" else 0.1
    slow = states(random, machine, rounds * 8, share, stay)
    found, runs = _Rounds(), iter(slow)
    for _ in range(rounds):
        points: dict[float, float] = {}
        variants = [("busy", s) for s in STEPS] + [("off", 0.0), ("original", 0.0)]
        random.shuffle(variants)
        for kind, s in variants:
            lab = 0.0 if kind == "original" else LAB_MS
            wall = float(system.time(s, np.array([next(runs)]), spikes, random, lab)[0])
            if kind == "busy":
                points[s] = wall
            else:
                (found.base if kind == "off" else found.original).append(wall)
        found.points.append(points)
    told = forecast(found.points, baseline=found.base, name="")
    part, unsure = _part(found)
    mixed = states(random, machine, TRUTH_RUNS * 11, later if machine == "unlike" else share, stay)
    random.shuffle(mixed)
    times = [system.time(i / 10, each, spikes, random) for i, each in enumerate(np.split(mixed, 11))]
    truths = [
        [1 - level / each[0] for level in each[1:]]
        for each in ([levels.ranked(t, levels.SINGLE) for t in times], [t.mean() for t in times])
    ]
    bounds = [_widened(point, part, unsure) for point in told.curve[1:]]
    held = [np.mean([a <= t <= b for (a, b), t in zip(bounds, each, strict=True)]) for each in truths]
    error = np.mean([abs(p.gain * part - t) for p, t in zip(told.curve[1:], truths[0], strict=True)])
    two = any(str(warning).startswith("the machine ran at two speeds") for warning in told.warnings)
    return (
        float(held[0]), float(held[1]), 100 * float(error), 50 * float(np.mean([b - a for a, b in bounds])),
        float(two), float(SEEN < slow.mean() < 1 - SEEN),
    )  # fmt: skip


def main() -> None:
    """Print a line for each machine."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--systems", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--machines", default=",".join(MACHINES))
    given = parser.parse_args()
    for machine in given.machines.split(","):
        rows = np.array([one(machine, seed, given.rounds) for seed in range(given.systems)])
        least, mean, error, _, two, _ = rows.mean(axis=0)
        both = rows[rows[:, 5] > 0]
        there = f"{both[:, 0].mean():.1%} and {both[:, 1].mean():.1%}" if len(both) else "-"
        print(
            f"{machine:7} held: least {least:.1%}, mean {mean:.1%}; where both states were seen {there}; "
            f"error {error:.2f}, half width {np.median(rows[:, 3]):.2f} points; two told in {two:.0%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
