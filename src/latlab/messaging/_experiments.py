"""More than one run: sweeps, the harness's own cost, and comparisons."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from latlab.errors import UsageError
from latlab.messaging._analysis import latencies
from latlab.messaging._measure import check, measure_and_analyse
from latlab.messaging.judging.verdict import disturbed
from latlab.model.messaging.options import DRIVER_AXIS, SWEPT
from latlab.model.messaging.results import INTERRUPTED, Doubt, Measurement, Result, Settings
from latlab.stats.quantiles import nearest_rank

__all__ = [
    "PercentileChange",
    "calibrate",
    "compare",
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
class PercentileChange:
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


def intended_latencies(m: Measurement) -> Any:
    """Latencies of the measured messages, from the intended time where there is one."""
    if m.intended_ns is None:
        return latencies(m)[1]
    received = m.received_ns[m.settings.warmup :]
    return (received - m.intended_ns[m.settings.warmup :])[received >= 0]


def disturbance(m: Measurement) -> Doubt | None:
    """What took CPUs from a run; None where nothing did."""
    return next(iter(disturbed(m, intended_latencies(m))), None)


def compare(
    a: Measurement, b: Measurement, *, threshold: float = 0.05, seed: int = 1
) -> list[PercentileChange]:
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
        value = intended_latencies(m)
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
            found.append(PercentileChange(name, before, after, 1.0, 1.0, 1.0, "the same recording"))
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
        found.append(PercentileChange(name, before, after, ratio, low, high, verdict))
    return found


def _draws(latency: Any, q: float, random: np.random.Generator, blocks: int = 20, draws: int = 1000) -> Any:
    """The q-quantile of each draw of whole blocks, from each block's counts over a grid of values."""
    edges = np.unique(np.quantile(latency, np.linspace(0, 1, 2001), method="inverted_cdf"))
    parts = np.array_split(latency, blocks)
    counts = np.stack([np.bincount(np.searchsorted(edges, part), minlength=edges.size + 1) for part in parts])
    drawn = counts[random.integers(0, blocks, (draws, blocks))].sum(axis=1).cumsum(axis=1)
    at = (drawn < q * drawn[:, -1:]).sum(axis=1)
    return np.maximum(edges[np.minimum(at, edges.size - 1)].astype(np.float64), 1.0)
