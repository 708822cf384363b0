"""When each message is due: the load's shape, as gaps between messages or as bursts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from latlab.errors import UsageError
from latlab.model.messaging.results import Settings
from latlab.words import duration

# A gap is stored in 32 bits, so that a message costs 20 bytes at most: two stamps and its gap.
LONGEST_GAP_NS = 2**32 - 1


@dataclass(frozen=True)
class SendSchedule:
    """Either bursts at a fixed period, or gaps from each message to the next; neither for "max"."""

    period_ns: float = 0.0
    burst: int = 1
    gaps_ns: npt.NDArray[np.uint32] | None = None

    @property
    def paced(self) -> bool:
        """Whether messages are due at times of their own."""
        return self.period_ns > 0.0 or self.gaps_ns is not None

    def due_ns(self, total: int) -> npt.NDArray[np.float64]:
        """When each message is due, in ns after the first: the doubles of the native loop."""
        if self.gaps_ns is not None:
            due = np.zeros(total)
            np.cumsum(self.gaps_ns[: total - 1], dtype=np.float64, out=due[1:])
            return due
        return (np.arange(total) // self.burst).astype(np.float64) * self.period_ns


def schedule(settings: Settings) -> SendSchedule:
    """The schedule that a run's settings ask for.

    Raises:
        UsageError: for a load without a rate, or a rate without sense.
    """
    if settings.load == "max":
        return SendSchedule()
    if settings.load == "file":
        return SendSchedule(gaps_ns=_gaps_of_file(settings))
    if settings.load == "steps":
        return SendSchedule(gaps_ns=_gaps_of_steps(settings))
    if settings.load == "bursts":
        if settings.burst < 1 or settings.burst_period_ns <= 0:
            raise UsageError(
                "bursts need a number of messages and a period", remedy="say --burst 100 --every 10ms"
            )
        return SendSchedule(period_ns=float(settings.burst_period_ns), burst=settings.burst)
    if not settings.rate_hz > 0.0 or settings.rate_hz > 1e9:
        raise UsageError("a paced load needs a rate in messages a second", remedy="say --rate 10000")
    mean_ns = 1e9 / settings.rate_hz
    if mean_ns * 20 > LONGEST_GAP_NS and settings.load == "poisson":
        raise UsageError(
            "a Poisson load needs a rate of at least 5 messages a second", remedy="say --rate 10"
        )
    if settings.load == "poisson":
        random = np.random.default_rng(settings.seed)
        gaps = np.rint(random.exponential(mean_ns, settings.total))
        return SendSchedule(gaps_ns=np.minimum(gaps, LONGEST_GAP_NS).astype(np.uint32))
    return SendSchedule(period_ns=mean_ns)


def sizes_of(settings: Settings) -> npt.NDArray[np.int64] | None:
    """The size of each message of a run whose sizes are drawn; None where all have the same."""
    if not settings.sizes:
        return None
    sizes, weights = np.array([one for one, _ in settings.sizes]), np.array([w for _, w in settings.sizes])
    # Not the arrivals' own seed: what is large is not also late.
    random = np.random.default_rng([settings.seed, 1])
    drawn: npt.NDArray[np.int64] = random.choice(sizes, settings.total, p=weights / weights.sum())
    return drawn


def patience_s(settings: Settings) -> float:
    """How long nothing may arrive before a run ends: its timeout, or more where messages are due less often.

    A sender that waits for its time is told from one that a broker keeps waiting by nothing else.
    """
    rate_hz = settings.rate_hz or math.inf
    gap_s = {
        "rate": 1 / rate_hz,
        "poisson": 20 / rate_hz,  # a longer one comes once in 500 million
        "bursts": settings.burst_period_ns / 1e9,
        "steps": 1 / min((rate for rate, _ in settings.steps), default=math.inf),
        "file": LONGEST_GAP_NS / 1e9,
    }.get(settings.load, 0.0)
    return max(settings.timeout_s, 3 * gap_s)


def _gaps_of_steps(settings: Settings) -> npt.NDArray[np.uint32]:
    """Each step's messages at its own pace; times are rounded once, so that no step drifts."""
    at, begin = [], 0.0
    for rate_hz, seconds in settings.steps:
        at.append(begin + np.arange(round(rate_hz * seconds)) * 1e9 / rate_hz)
        begin += seconds * 1e9
    due = np.rint(np.concatenate(at))
    if due.size < 2:
        raise UsageError("the steps have fewer than two messages", remedy="let them last longer")
    # One of a fraction of a message less or more: what is missing follows at the last pace.
    gaps = np.append(np.diff(due), 1e9 / settings.steps[-1][0])
    return np.pad(gaps, (0, max(0, settings.total - gaps.size)), mode="edge")[: settings.total].astype(
        np.uint32
    )


def _gaps_of_file(settings: Settings) -> npt.NDArray[np.uint32]:
    """A market-data file's own gaps, over and over where it is shorter than the run."""
    from latlab.messaging.running.feed import arrival_ns

    if settings.load_file is None:
        raise UsageError("a load from a file needs the file", remedy="say --load-file FEED")
    if not settings.speed > 0.0:
        raise UsageError("the speed of a replay is above 0", remedy="say --speed 10")
    at = arrival_ns(settings.load_file, settings.total)
    gaps = np.rint(np.diff(at) / settings.speed)
    if gaps.size == 0:
        raise UsageError(f"{settings.load_file}: one message has no timing", remedy="choose a longer file")
    if gaps.max() > LONGEST_GAP_NS:
        raise UsageError(
            f"{settings.load_file}: a pause of {duration(gaps.max())}, and a run waits for 4.2 s at most",
            remedy=f"say --speed {gaps.max() / LONGEST_GAP_NS * settings.speed + 1:.0f}",
        )
    return np.resize(gaps, settings.total).astype(np.uint32)
