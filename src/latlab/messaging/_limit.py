"""The highest rate that holds a latency objective, and goes on to."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from latlab import words
from latlab.errors import UsageError
from latlab.messaging._experiments import disturbance, intended_latencies
from latlab.messaging._measure import measure_and_analyse
from latlab.model.messaging.results import INTERRUPTED, Measurement, Settings
from latlab.stats.quantiles import nearest_rank

__all__ = ["RateLimit", "RateObjective", "RateProbe", "find_limit", "parse_objective"]


@dataclass(frozen=True)
class RateObjective:
    """A percentile of the intended-time latency, and what it must stay below."""

    quantile: float
    name: str
    limit_ns: int


def parse_objective(text: str) -> RateObjective:
    """Read "p99.9<200us".

    Raises:
        UsageError: for anything else.
    """
    found = re.fullmatch(r"\s*p(\d+(?:\.\d+)?)\s*<\s*(\d+(?:\.\d+)?)\s*(ns|us|ms|s)\s*", text)
    if found is None or not 0.0 < float(found[1]) < 100.0:
        raise UsageError(f"'{text}' is not an objective", remedy="write p99.9<200us")
    return RateObjective(
        round(float(found[1]) / 100, 12), f"p{found[1]}", words.duration_of(found[2] + found[3])
    )


@dataclass(frozen=True)
class RateProbe:
    """One rate that was tried.

    Attributes:
        disturbed: others took CPUs from the run meanwhile.
        carried_hz: messages a second that came in the later half of the run; None where too few came.
        seconds: how long it was tried for.
    """

    rate_hz: float
    value_ns: int | None
    holds: bool
    reason: str
    disturbed: bool = False
    carried_hz: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class RateLimit:
    """The highest rate that held the objective.

    Attributes:
        rate_hz: None where not even the lowest rate held it.
        fails_at_hz: the lowest rate that didn't; None where every one did.
        held, repeats: how often `rate_hz` held when it was tried again.
        sustained_s: how long it held at a stretch; 0 where it never did for longer than a trial.
        confidence: with what confidence it holds in more than half of all runs: 1 - P(so many successes by
        chance).
    """

    rate_hz: float | None
    fails_at_hz: float | None
    held: int
    repeats: int
    confidence: float
    probes: tuple[RateProbe, ...]
    sustained_s: float = 0.0

    @property
    def trustworthy(self) -> bool:
        """Whether no rate failed while others took CPUs from its last run: it may hold on a quiet machine."""
        last = {one.rate_hz: one for one in self.probes}
        return not any(one.disturbed and not one.holds for one in last.values())


def find_limit(
    settings: Settings,
    objective: RateObjective,
    *,
    low_hz: float = 1000.0,
    high_hz: float = 1e8,
    seconds: float = 0.5,
    precision: float = 0.02,
    repeats: int = 5,
    probe: Callable[[float, float], RateProbe] | None = None,
    told: Callable[[RateProbe], None] = lambda _: None,
) -> RateLimit:
    """Search the highest rate at which the objective holds: double it, then halve the bracket's ratio.

    The found rate has to hold for 20 times as long at a stretch, since what has a store (a token bucket,
    room in a buffer) carries more than it can for as long as that lasts; where it doesn't, the rate that was
    carried then is the next one. It is tried `repeats` more times, and lowered by the precision until it
    holds in most of them: one lucky run is not a limit. A rate that fails while others take CPUs from its run
    is tried again.

    Args:
        probe: runs one rate for so many seconds; injected in tests.
        told: hears of every probe as it ends.
    """
    done: list[RateProbe] = []

    def run(rate: float, long: float = seconds) -> RateProbe:
        for _ in range(1 + (_AGAIN if long == seconds else 1)):
            found = (probe or _prober(settings, objective))(rate, long)
            done.append(found)
            told(found)
            if found.holds or not found.disturbed:
                break
        return found

    passing, failing, rate = None, None, low_hz
    while passing is None or passing < high_hz:
        if not run(rate).holds:
            failing = rate
            break
        passing, rate = rate, min(2 * rate, high_hz)
    if passing is None:
        return RateLimit(None, failing, 0, 1, 0.0, tuple(done))
    while failing is not None and failing / passing > 1 + precision:
        middle = math.sqrt(passing * failing)
        if run(middle).holds:
            passing = middle
        else:
            failing = middle
    held, sustained = 0, 0.0
    for turn in range(20):
        stretch = run(passing, _STRETCH * seconds)
        held = sum(run(passing).holds for _ in range(repeats)) if stretch.holds else 0
        sustained = _STRETCH * seconds if stretch.holds else 0.0
        if held * 2 > repeats or passing <= low_hz:
            break
        lower = passing / (1 + 2 * precision) ** (1 + turn // 3)
        if not stretch.holds and stretch.carried_hz is not None:
            lower = min(lower, stretch.carried_hz / (1 + precision))
        failing, passing = passing, max(low_hz, lower)
    chance = sum(math.comb(repeats, k) for k in range(held, repeats + 1)) / 2**repeats
    if not held:
        passing, failing = None, passing
    return RateLimit(passing, failing, held, repeats, 1.0 - chance, tuple(done), sustained)


def _prober(settings: Settings, objective: RateObjective) -> Callable[[float, float], RateProbe]:
    # A p99.9 takes ten messages above it before it means anything.
    # Fewer than 200 messages don't show whether a queue grows.
    least = max(200, math.ceil(10 / (1.0 - objective.quantile)))

    def probe(rate: float, seconds: float) -> RateProbe:
        found, grows = once(rate, seconds)
        # A start that is slow looks like a queue that grows, and four times as long it doesn't.
        return once(rate, 4 * seconds)[0] if grows and seconds < _LONGEST_S else found

    def once(rate: float, seconds: float) -> tuple[RateProbe, bool]:
        count = max(least, min(int(rate * seconds), 5_000_000))
        load = settings.load if settings.load == "poisson" else "rate"
        one = settings.with_(
            rate_hz=rate, load=load, messages=count, warmup=min(1000, count // 10), duration_s=None
        )
        measurement, result = measure_and_analyse(one)
        if result.partial == INTERRUPTED:
            raise KeyboardInterrupt
        latency = intended_latencies(measurement)
        others = disturbance(measurement) is not None
        if result.partial is not None or result.lost or not latency.size:
            why = result.partial or f"{result.lost} messages lost"
            return RateProbe(rate, None, False, why, others, None, seconds), False
        value, carried = int(nearest_rank(latency, objective.quantile)), _carried(measurement)
        grows = value < objective.limit_ns and (result.stability == "rising" or _behind(measurement, latency))
        why = "holds"
        if value >= objective.limit_ns:
            why = f"{objective.name} is above the objective"
        elif grows:
            why = "a queue grows: it would not hold for longer"
        return RateProbe(rate, value, why == "holds", why, others, carried, seconds), grows

    return probe


_AGAIN = 2
_STRETCH = 20
# Longer than this nobody waits for a rate; a queue that grows by 5 % of the time has then 0.1 s in it.
_LONGEST_S = 2.0
_LEAST_CARRIED = 100
_BACKLOG = 0.02  # of the run's time, beyond the usual latency


def _carried(m: Measurement) -> float | None:
    """Messages a second that came in the later half of a run."""
    came = np.sort(m.received_ns[m.received_ns >= 0])
    later = came[came.size // 2 :]
    if later.size < _LEAST_CARRIED or later[-1] == later[0]:
        return None
    return float((later.size - 1) / (later[-1] - later[0]) * 1e9)


def _behind(m: Measurement, latency: Any) -> bool:
    """Whether the last messages came so late that the rate was not carried."""
    if m.intended_ns is None:
        return False
    part = max(1, latency.size // 10)
    end, begin = float(np.median(latency[-part:])), float(np.median(latency[:part]))
    return end - begin > _BACKLOG * float(m.intended_ns[-1] - m.intended_ns[m.settings.warmup])
