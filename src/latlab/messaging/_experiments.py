"""More than one run: sweeps, the search for a limit, the harness's own cost, and comparisons."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from latlab import words
from latlab.errors import UsageError
from latlab.messaging._analysis import latencies
from latlab.messaging._measure import check, measure_and_analyse
from latlab.messaging.judging.verdict import disturbed
from latlab.model.messaging.options import DRIVER_AXIS, SWEPT
from latlab.model.messaging.results import INTERRUPTED, Doubt, Measurement, Result, Settings
from latlab.stats.quantiles import nearest_rank

__all__ = [
    "Change",
    "Limit",
    "Objective",
    "Probe",
    "calibrate",
    "compare",
    "find_limit",
    "parse_objective",
    "sweep",
]

PERCENTILES = ("p50", "p90", "p99", "p99.9")


def sweep(
    settings: Settings,
    axes: Mapping[str, list[Any]],
    *,
    after: Callable[[Measurement, Result], None] | None = None,
) -> Iterator[tuple[dict[str, Any], Measurement, Result]]:
    """One run for each combination of the values of one axis or two, handed out as it ends.

    An interrupted run is the last one.

    Raises:
        UsageError: for an axis that is none.
    """
    for name in axes:
        if name not in SWEPT and not name.startswith(DRIVER_AXIS):
            these = f"{', '.join(SWEPT)}, and {DRIVER_AXIS}NAME of the transport's client"
            raise UsageError(f"'{name}' can't be swept", remedy=f"these can: {these}")
    if len(axes) > 2:
        raise UsageError("more than two axes", remedy="cross two, and run again for the third")
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        frequency = point.get("frequency")
        changed = settings.with_(
            **{SWEPT[name]: value for name, value in point.items() if name in SWEPT and name != "frequency"}
        )
        driver = {name.removeprefix(DRIVER_AXIS): value for name, value in point.items() if name not in SWEPT}
        changed = changed.with_(driver={**changed.driver, **driver})
        if "rate" in point and changed.load == "max":
            changed = changed.with_(load="rate")
        if "every" in point and changed.load == "max":
            changed = changed.with_(load="bursts")
        with _frequency(frequency):
            measurement, result = measure_and_analyse(changed)
        if after is not None:
            after(measurement, result)
        yield point, measurement, result
        if result.partial == INTERRUPTED:
            return


def _frequency(khz: int | None) -> Any:
    """The clock frequency held for the time of a run, where it can be set."""
    import contextlib
    from pathlib import Path

    if khz is None:
        return contextlib.nullcontext()
    places = sorted(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_max_freq"))
    if not places:
        raise UsageError("the clock frequency can't be set on this machine", remedy="leave that axis out")

    @contextlib.contextmanager
    def held() -> Iterator[None]:
        before = [place.read_text() for place in places]
        try:
            for place in places:
                place.write_text(str(khz))
            yield
        finally:
            for place, value in zip(places, before, strict=True):
                place.write_text(value)

    return held()


@dataclass(frozen=True)
class Objective:
    """A percentile of the intended-time latency, and what it must stay below."""

    quantile: float
    name: str
    limit_ns: int


def parse_objective(text: str) -> Objective:
    """Read "p99.9<200us".

    Raises:
        UsageError: for anything else.
    """
    found = re.fullmatch(r"\s*p(\d+(?:\.\d+)?)\s*<\s*(\d+(?:\.\d+)?)\s*(ns|us|ms|s)\s*", text)
    if found is None or not 0.0 < float(found[1]) < 100.0:
        raise UsageError(f"'{text}' is not an objective", remedy="write p99.9<200us")
    return Objective(round(float(found[1]) / 100, 12), f"p{found[1]}", words.duration_of(found[2] + found[3]))


@dataclass(frozen=True)
class Probe:
    """One rate that was tried. `disturbed`: others took CPUs from the run meanwhile."""

    rate_hz: float
    value_ns: int | None
    holds: bool
    reason: str
    disturbed: bool = False


@dataclass(frozen=True)
class Limit:
    """The highest rate that held the objective.

    Attributes:
        rate_hz: None where not even the lowest rate held it.
        fails_at_hz: the lowest rate that didn't; None where every one did.
        held, repeats: how often `rate_hz` held when it was tried again.
        confidence: with what confidence it holds in more than half of all runs: 1 - P(so many successes by
        chance).
    """

    rate_hz: float | None
    fails_at_hz: float | None
    held: int
    repeats: int
    confidence: float
    probes: tuple[Probe, ...]

    @property
    def trustworthy(self) -> bool:
        """Whether no rate failed while others took CPUs from its last run: it may hold on a quiet machine."""
        last = {one.rate_hz: one for one in self.probes}
        return not any(one.disturbed and not one.holds for one in last.values())


def find_limit(
    settings: Settings,
    objective: Objective,
    *,
    low_hz: float = 1000.0,
    high_hz: float = 1e8,
    seconds: float = 0.5,
    precision: float = 0.02,
    repeats: int = 5,
    probe: Callable[[float], Probe] | None = None,
    told: Callable[[Probe], None] = lambda _: None,
) -> Limit:
    """Search the highest rate at which the objective holds: double it, then halve the bracket's ratio.

    The found rate is tried `repeats` more times, and lowered by the precision until it holds in most of
    them: one lucky run is not a limit. A rate that fails while others take CPUs from its run is tried again.

    Args:
        probe: runs one rate; injected in tests.
        told: hears of every probe as it ends.
    """
    done: list[Probe] = []

    def run(rate: float) -> bool:
        for _ in range(1 + _AGAIN):
            found = (probe or _prober(settings, objective, seconds))(rate)
            done.append(found)
            told(found)
            if found.holds or not found.disturbed:
                break
        return found.holds

    passing, failing, rate = None, None, low_hz
    while passing is None or passing < high_hz:
        if not run(rate):
            failing = rate
            break
        passing, rate = rate, min(2 * rate, high_hz)
    if passing is None:
        return Limit(None, failing, 0, 1, 0.0, tuple(done))
    while failing is not None and failing / passing > 1 + precision:
        middle = math.sqrt(passing * failing)
        if run(middle):
            passing = middle
        else:
            failing = middle
    held = 0
    for _ in range(20):
        held = sum(run(passing) for _ in range(repeats))
        if held * 2 > repeats or passing <= low_hz:
            break
        failing, passing = passing, max(low_hz, passing / (1 + 2 * precision))
    chance = sum(math.comb(repeats, k) for k in range(held, repeats + 1)) / 2**repeats
    return Limit(passing, failing, held, repeats, 1.0 - chance, tuple(done))


def _prober(settings: Settings, objective: Objective, seconds: float) -> Callable[[float], Probe]:
    # A p99.9 takes ten messages above it before it means anything.
    # Fewer than 200 messages don't show whether a queue grows.
    least = max(200, math.ceil(10 / (1.0 - objective.quantile)))

    def probe(rate: float) -> Probe:
        found, grows = once(rate, seconds)
        # A start that is slow looks like a queue that grows, and four times as long it doesn't.
        return once(rate, 4 * seconds)[0] if grows and seconds < _LONGEST_S else found

    def once(rate: float, seconds: float) -> tuple[Probe, bool]:
        count = max(least, min(int(rate * seconds), 5_000_000))
        load = settings.load if settings.load == "poisson" else "rate"
        one = settings.with_(
            rate_hz=rate, load=load, messages=count, warmup=min(1000, count // 10), duration_s=None
        )
        measurement, result = measure_and_analyse(one)
        if result.partial == INTERRUPTED:
            raise KeyboardInterrupt
        latency = _intended(measurement)
        others = disturbance(measurement) is not None
        if result.partial is not None or result.lost or not latency.size:
            why = result.partial or f"{result.lost} messages lost"
            return Probe(rate, None, False, why, others), False
        value = int(nearest_rank(latency, objective.quantile))
        if value >= objective.limit_ns:
            return Probe(rate, value, False, f"{objective.name} is above the objective", others), False
        if result.stability == "rising" or _behind(measurement, latency):
            return Probe(rate, value, False, "a queue grows: it would not hold for longer", others), True
        return Probe(rate, value, True, "holds", others), False

    return probe


_AGAIN = 2
# Longer than this nobody waits for a rate; a queue that grows by 5 % of the time has then 0.1 s in it.
_LONGEST_S = 2.0
_BACKLOG = 0.02  # of the run's time, beyond the usual latency


def _intended(m: Measurement) -> Any:
    """Latencies of the measured messages, from the intended time where there is one."""
    if m.intended_ns is None:
        return latencies(m)[1]
    received = m.received_ns[m.settings.warmup :]
    return (received - m.intended_ns[m.settings.warmup :])[received >= 0]


def _behind(m: Measurement, latency: Any) -> bool:
    """Whether the last messages came so late that the rate was not carried."""
    if m.intended_ns is None:
        return False
    part = max(1, latency.size // 10)
    end, begin = float(np.median(latency[-part:])), float(np.median(latency[:part]))
    return end - begin > _BACKLOG * float(m.intended_ns[-1] - m.intended_ns[m.settings.warmup])


def calibrate(size: int = 64) -> dict[str, Any]:
    """What the harness costs: ns a message and side, the clock, and the floor through a ring."""
    from latlab._core import messaging as core

    settings, _ = check(Settings("ring", topology="direct", messages=50_000, warmup=5000, size=size))
    (sender, receiver, clock), best = core.harness_cost(size, rounds=101)
    _, fast = measure_and_analyse(settings)
    _, paced = measure_and_analyse(
        settings.with_(load="rate", rate_hz=100_000.0, messages=20_000, warmup=2000)
    )
    return {
        "size": size,
        "sender_ns": sender,
        "receiver_ns": receiver,
        "clock_ns": clock,
        "best_ns": dict(zip(("sender", "receiver", "clock"), best, strict=True)),
        "floor_ns": None if paced.latency is None else paced.latency.median,
        "floor_messages_per_s": fast.receiving_throughput.messages_per_s,
    }


@dataclass(frozen=True)
class Change:
    """One percentile of two runs.

    Attributes:
        ratio: after / before. low, high: its 95 % interval, between runs.
        verdict: "slower", "faster", "not decided", or "the same recording".
    """

    name: str
    before_ns: float
    after_ns: float
    ratio: float
    low: float
    high: float
    verdict: str


# Standard deviations of the logarithm of a percentile from run to run of the same workload. One run of each
# doesn't tell them, so these are assumed. Eight runs of a second of tcp, pipe and shm each, on a virtual
# machine of two cores that did little else, had 0.01 for p50, 0.1 to 0.4 for p90, 0.1 to 1.1 for p99 and 0.1
# to 0.6 for p99.9; runs on another day differ by more.
_RUN_SPREAD = {"p50": 0.35, "p90": 0.5, "p99": 1.1, "p99.9": 1.1}


def disturbance(m: Measurement) -> Doubt | None:
    """What took CPUs from a run; None where nothing did."""
    return next(iter(disturbed(m, _intended(m))), None)


def compare(a: Measurement, b: Measurement, *, threshold: float = 0.05, seed: int = 1) -> list[Change]:
    """How the latencies of two runs differ, as far as one run of each can tell.

    Within a run messages that follow one another are alike, so whole blocks of them are drawn (moving-block
    bootstrap, Künsch, Annals of Statistics 17 (1989)): 20 blocks a run, 1,000 draws. From run to run a
    percentile varies by more than that; since one run doesn't show by how much, a spread is assumed that
    most machines stay below. What is smaller than this is not decided: `compare_pairs` decides it. Where
    others took CPUs from one of the runs that spread is exceeded, and nothing is decided.

    Raises:
        UsageError: when a run has too few messages.
    """
    latency = []
    for m in (a, b):
        value = _intended(m)
        if value.size < 100:
            raise UsageError(
                "a run of fewer than 100 received messages can't be compared", remedy="measure longer"
            )
        latency.append(value)
    same = np.array_equal(a.sent_ns, b.sent_ns) and np.array_equal(a.received_ns, b.received_ns)
    random = np.random.default_rng(seed)
    quiet = disturbance(a) is None and disturbance(b) is None
    found = []
    for name in PERCENTILES:
        q = float(name[1:]) / 100
        if min(v.size for v in latency) * (1 - q) < 5:
            continue
        before, after = (float(nearest_rank(v, q)) for v in latency)
        if same:
            found.append(Change(name, before, after, 1.0, 1.0, 1.0, "the same recording"))
            continue
        draws = np.log(_draws(latency[1], q, random)) - np.log(_draws(latency[0], q, random))
        ratio = max(after, 1.0) / max(before, 1.0)
        within = np.quantile(draws, [0.025, 0.975]) - math.log(ratio)
        between = 1.96 * math.sqrt(2) * _RUN_SPREAD[name]
        low, high = (
            ratio * math.exp(sign * math.hypot(float(part), between))
            for sign, part in zip((-1, 1), within, strict=True)
        )
        verdict = "not decided"
        if quiet and low > 1.0 and ratio > 1 + threshold:
            verdict = "slower"
        elif quiet and high < 1.0 and ratio < 1 / (1 + threshold):
            verdict = "faster"
        found.append(Change(name, before, after, ratio, low, high, verdict))
    return found


def _draws(latency: Any, q: float, random: np.random.Generator, blocks: int = 20, draws: int = 1000) -> Any:
    """The q-quantile of each draw of whole blocks, from each block's counts over a grid of values."""
    edges = np.unique(np.quantile(latency, np.linspace(0, 1, 2001), method="inverted_cdf"))
    parts = np.array_split(latency, blocks)
    counts = np.stack([np.bincount(np.searchsorted(edges, part), minlength=edges.size + 1) for part in parts])
    drawn = counts[random.integers(0, blocks, (draws, blocks))].sum(axis=1).cumsum(axis=1)
    at = (drawn < q * drawn[:, -1:]).sum(axis=1)
    return np.maximum(edges[np.minimum(at, edges.size - 1)].astype(np.float64), 1.0)
