"""What would it buy: the captured schedule with a part of it made faster, in every simulation that fits.

Virtual speed-ups of a schedule rather than of the running program (Coz: Curtsinger and Berger, SOSP 2015;
waiting as well as working, as in BCOZ: Ahn et al., OSDI 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

import numpy as np

from latlab.model.diagnosis.answer import Interval
from latlab.model.schedule import Schedule, Wait
from latlab.model.simulation import Scenario, ScenarioPoint, ScheduleForecast, Simulated
from latlab.schedule.code.names import called
from latlab.schedule.simulation.simulate import OVER, Fit, fits_of, run_steps, total_of, unwatched
from latlab.schedule.simulation.steps import Deed, Steps, word_of
from latlab.words import share

__all__ = ["SPEEDUPS", "forecast", "jittered", "kind_of"]

Array = np.ndarray[Any, Any]

SPEEDUPS = (0.2, 0.5, 0.8, 1.0)
_LEAST = 0.03  # of the whole time; a smaller gain is none
_SLOPE = 0.5  # of the first gain, left at the end: it pays all the way
_MARGIN = 1.4  # by which a kind is away from its border
_SEEDS = 4
_FITS = 6  # of those that fit best, so many answer
_JITTER = 0.05  # of each piece of work
_UNMODELLED = 0.05  # of what is saved, and a little of what is not: caches, and how readily CPUs wake
_OPEN = 0.06  # of the whole time: simulations that fit alike and differ by more forecast nothing
_LEAST_POINTS = 2  # that are worth a forecast whose end is open
_DISK = (int(Wait.DISK), int(Wait.SYNC), int(Wait.FAULT))


def forecast(
    schedule: Schedule,
    scenarios: Sequence[Scenario],
    *,
    speedups: Sequence[float] = SPEEDUPS,
    seeds: int = _SEEDS,
    locks: Collection[int] = (),
    over: Callable[[], bool] = lambda: False,
) -> tuple[Simulated, tuple[ScheduleForecast, ...]]:
    """What each scenario would buy, of the program's whole time.

    Args:
        locks: the words of locks (see `word_of`) that are handed over when whoever takes them first comes.
        over: asked before each simulation; True leaves out the scenarios that are not done yet.
    """
    base, fits = fits_of(schedule, over)
    if not fits:
        return base, tuple(_nothing(one, base.withheld) for one in scenarios)
    chosen = [unwatched(schedule, fit) for fit in _chosen(fits)]
    variants = []
    for place, fit in enumerate(chosen):
        for seed in range(seeds if place == 0 else 1):
            if over():
                return base, tuple(_nothing(one, OVER) for one in scenarios)
            variants.append(_Variant(fit, jittered(fit.steps, seed) if seed else fit.steps))
    return base, tuple(_one(schedule, variants, base, one, speedups, locks, over) for one in scenarios)


def _nothing(scenario: Scenario, why: str) -> ScheduleForecast:
    return ScheduleForecast(scenario, why, None, None, (), 0.0, None, None)


def _chosen(fits: Sequence[Fit]) -> list[Fit]:
    """The best, and of both ways to wait the next best."""
    ways = [[fit for fit in fits if fit.meets == meets][: _FITS // 2] for meets in (False, True)]
    return sorted((fit for way in ways for fit in way), key=lambda fit: fit.misfit)


class _Variant:
    """A simulation that is asked, and its time as it is."""

    def __init__(self, fit: Fit, steps: Steps) -> None:
        self.fit, self.steps = fit, steps
        self.plain = max(1, total_of(run_steps(steps), fit.watched))


def jittered(steps: Steps, seed: int) -> Steps:
    """Other turns of the same program: each piece of work a little longer or shorter."""
    random = np.random.default_rng(seed)
    factor = np.exp(random.normal(0.0, _JITTER, len(steps.work)) - _JITTER**2 / 2)
    return steps.changed(work=np.rint(steps.work * factor).astype(np.int64))


def _one(
    schedule: Schedule,
    variants: Sequence[_Variant],
    base: Simulated,
    scenario: Scenario,
    speedups: Sequence[float],
    locks: Collection[int],
    over: Callable[[], bool],
) -> ScheduleForecast:
    own = base.recorded_ns
    if scenario.kind == "lock":
        return _nothing(scenario, "how long it is held while no thread waits for it is not seen from outside")
    parts = [_part(schedule, one.steps, scenario) for one in variants]
    if scenario.kind == "function" and not parts[0][2]:
        return _nothing(scenario, "no sample of these threads is in it")
    asked = speedups if scenario.kind != "cpus" else (1.0,)
    rows = []
    for one, (weight, naps, _) in zip(variants, parts, strict=True):
        if over():
            return _nothing(scenario, OVER)
        rows.append([_share(one, weight, naps, speedup, scenario) for speedup in asked])
    shares = np.array(rows)
    middle = shares[0]
    low, high = shares.min(axis=0), shares.max(axis=0)
    if locks:
        weight, naps, _ = parts[0]
        sooner = [_share(variants[0], weight, naps, speedup, scenario, locks) for speedup in asked]
        low, high = np.minimum(low, sooner), np.maximum(high, sooner)
    slack = (
        abs(base.error)
        + _UNMODELLED * (1.2 - middle)
        + np.std(shares[[one.fit is variants[0].fit for one in variants]], axis=0)
    )
    points = tuple(
        ScenarioPoint(
            speedup,
            Interval(float(own * value), max(0.0, float(own * (a - more))), float(own * (b + more))),
        )
        for speedup, value, a, b, more in zip(asked, middle, low, high, slack, strict=True)
    )
    told_to = int(np.argmin(np.append(high - low <= _OPEN, False)))
    if not told_to or (told_to < _LEAST_POINTS and told_to < len(asked)):
        why = (
            "ways to wait that explain what was recorded equally well differ by "
            f"{share(float((high - low).max()))} of its time"
        )
        return _nothing(scenario, why)
    at = [0.0, *asked]
    told = [1.0, *middle.tolist()]
    kind = kind_of(at, told)
    unlike = any(one != kind for row in shares.tolist() for one in _kinds(at, [1.0, *row]))
    if told_to < len(asked) or unlike:
        # As far as all ways agree; where they don't, or not on how far it pays, the end is open.
        last = min(told_to, len(asked) - 1)
        if not _pays(shares[:, :last]):
            return _nothing(
                scenario,
                "of the simulations that fit what was seen, some say that making it faster pays, others not",
            )
        own_ns = Interval(float(own))
        return ScheduleForecast(scenario, "", "open", own_ns, points[:last], parts[0][2], None, None)
    knee = _knee(at, told) if kind == "limited" else None
    takes_over = None
    best, (weight, naps, spent) = variants[0], parts[0]
    if kind != "total":
        out = run_steps(_faster(best.steps, weight, naps, 1.0))
        takes_over = _takes_over(out, best.steps, weight, best.fit.watched)
    return ScheduleForecast(scenario, "", kind, Interval(float(own)), points, spent, knee, takes_over)


def _pays(shares: Array) -> bool:
    """Whether all ways agree that the least speed-ups gain something; of none of them nothing is told."""
    return bool(shares.shape[1]) and bool((shares[:, -1] <= 1 - _LEAST).all())


def _share(
    one: _Variant, weight: Array, naps: Array, speedup: float, scenario: Scenario, locks: Collection[int] = ()
) -> float:
    """Of its whole time, with the part so much faster; and locks that are handed over sooner."""
    changed = _faster(one.steps, weight, naps, speedup)
    if locks:
        changed = _handed_over(changed, scenario.threads, locks, speedup)
    cpus = changed.cpus + 1 if scenario.kind == "cpus" else None
    return total_of(run_steps(changed, cpus=cpus), one.fit.watched) / one.plain


def _handed_over(steps: Steps, threads: Sequence[int], locks: Collection[int], speedup: float) -> Steps:
    """The same where these threads are given locks the sooner, the faster they are.

    A woken thread takes its time to run. Meanwhile whoever comes first may take a lock, since most mutexes
    are no queues. A thread with less to do comes back sooner, and then does not wait for a wake-up at all.
    """
    waits = (steps.deed == Deed.WAIT) & (steps.wait == int(Wait.FUTEX)) & np.isin(steps.thread, threads)
    waits &= np.isin(word_of(steps.object), list(locks))
    delay = np.rint(np.where(steps.delay < 0, steps.wake_ns, steps.delay) * (1.0 - speedup)).astype(np.int64)
    return steps.changed(delay=np.where(waits, delay, steps.delay))


def _kinds(speedups: Sequence[float], shares: Sequence[float]) -> list[str]:
    """The kind by thresholds a little lower and higher: one that is near to its border is not known."""
    if len(speedups) < 3:
        return [kind_of(speedups, shares)]
    return [kind_of(speedups, shares, _LEAST * by, _SLOPE * by) for by in (1 / _MARGIN, _MARGIN)]


def kind_of(
    speedups: Sequence[float], shares: Sequence[float], least: float = _LEAST, slope: float = _SLOPE
) -> Literal["total", "limited", "none"]:
    """Which kind of gain: shares of the whole time at growing speed-ups, from (0, 1) on."""
    if shares[0] - min(shares) < least:
        return "none"
    first = (shares[0] - shares[1]) / (speedups[1] - speedups[0])
    last = (shares[-2] - shares[-1]) / (speedups[-1] - speedups[-2])
    return "total" if last >= slope * first else "limited"


def _knee(speedups: Sequence[float], shares: Sequence[float]) -> float:
    """Where the line of the first gains meets the least time."""
    slope = (shares[0] - shares[1]) / (speedups[1] - speedups[0])
    return min(1.0, (shares[0] - min(shares)) / slope) if slope > 0 else 1.0


def _part(schedule: Schedule, steps: Steps, scenario: Scenario) -> tuple[Array, Array, float]:
    """By step the share of its work that gets faster, and whether its nap does; and their time in all."""
    work, naps = np.zeros(len(steps.work)), np.zeros(len(steps.work), bool)
    thread = steps.thread
    mine = np.isin(thread, scenario.threads) if scenario.threads else thread < steps.own
    nap = np.isin(steps.deed, (Deed.SLEEP, Deed.UNTIL))
    if scenario.kind == "role":
        work = mine.astype(float)
    elif scenario.kind == "function":
        work = np.where(mine, _share_of_function(schedule, scenario.function, len(steps.born))[thread], 0.0)
    elif scenario.kind == "disk":
        naps = nap & np.isin(steps.wait, _DISK) & mine
    elif scenario.kind == "timer":
        naps = nap & (steps.wait == int(Wait.TIMER)) & mine
    slept = np.where(steps.deed == Deed.SLEEP, steps.argument, 0)
    return work, naps, float((steps.work * work).sum() + slept[naps].sum())


def _faster(steps: Steps, weight: Array, naps: Array, speedup: float) -> Steps:
    work = np.rint(steps.work * (1.0 - speedup * weight)).astype(np.int64)
    # A sleep's length, or the time since the beginning at which a period ends: both shrink alike.
    shorter = np.rint(steps.argument * (1.0 - speedup)).astype(np.int64)
    return steps.changed(work=work, argument=np.where(naps, shorter, steps.argument))


def _share_of_function(schedule: Schedule, function: str, threads: int) -> Array:
    """By thread: the share of its running samples that have the function on their stack."""
    shares = np.zeros(threads)
    names = [called(frame) for frame in schedule.frames]
    within = np.array(
        [any(names[frame] == function for frame in stack) for stack in schedule.stacks],
        bool,
    )
    samples = schedule.samples[(schedule.samples["running"] == 1) & (schedule.samples["stack"] >= 0)]
    if not len(samples):
        return shares
    for thread in np.unique(samples["thread"]).tolist():
        mine = samples["stack"][samples["thread"] == thread]
        shares[thread] = float(np.mean(within[mine]))
    return shares


def _takes_over(
    out: dict[str, Any], steps: Steps, weight: Array, watched: Sequence[int]
) -> int | Literal["cpus"] | None:
    """What limits when the thing takes no time at all."""
    whole = max(total_of(out, watched), 1)
    ran = np.zeros(len(steps.born))
    np.add.at(ran, steps.thread, steps.work * (1.0 - weight))
    waited = float(out["ready_ns"][: steps.own].sum())
    if ran.sum() / whole > 0.95 * steps.cpus and waited > 0.2 * whole:
        return "cpus"
    best = int(np.argmax(ran[: steps.own]))
    return best if ran[best] > 0.5 * whole else None
