"""Stall certificate: a broker that stands still must show in the percentiles as the closed form says.

Messages are due every T. The broker stands still for D when message s arrives, and then passes the queue on.
Message s + k is due k T later and arrives A(k) after the stall's end, so it is a + D - k T + A(k) late, a
being how late message s was when the stall began, until the queue is empty. A percentile of rank r among
N messages is the (N - r)-th largest of these values wherever the stall reached so many.

a and D are the stall as the broker made it (it says so; it sleeps, and a sleeper wakes up late). A is the
transport's own: the first message wakes a thread up, the others come one by one or, where a broker reads
32 at once, in steps. It comes from pilots, other stalls of the same run. Beside stalls of 100 ms and more
they are half as long: a tool that got D wrong would get A wrong by another amount. Messages are due twice as
often around them, so that as many wait: A depends on that. RabbitMQ reads all that has come before it
delivers much of it: its eighth message came after 2.3 ms from a queue of 15, after 4.0 from one of 30. Beside
shorter stalls pilots are as long, since A depends on D too: a core that slept for 2 ms takes 10 us more than
after 1 ms, which is 1 % of that.
The machine has faster and slower seconds: stalls and pilots take turns, and each percentile's error is the
median over the stalls. There are as many of them as it takes to know it to a quarter of the bar: RabbitMQ
answers 1.5 to 3 ms after a stall of 20 ms, and the medians of 30 stalls and of 30 pilots are 0.1 ms apart by
chance alone. Their number follows from how they scatter, never from how far off they are.

A product's server is stopped and goes on by signals; the first message of its queue is the first that was due
when it had been stopped. The Python loop's own cost is in A.

    python -m benchmarks.messaging_stall [--ms 1 --ms 20 ...] [transport ...]
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from latlab.messaging import every_transport, facts_of, measure, missing
from latlab.model.messaging.results import Measurement, Settings
from latlab.stats.quantiles import nearest_rank

BAR = 0.02
# ms of a stall: how many of them a run holds (and pilots, at least 3). A Python loop takes longer to start
# than to run, and wakes up after 50 to 1,000 us.
STALLS = {
    "native": {1: 20, 5: 10, 20: 5, 100: 2, 500: 1},
    "python": {1: 400, 5: 100, 20: 30, 100: 10, 500: 4},
}
ROUNDS = {"native": 3, "python": 1}  # runs, at least
MOST_ROUNDS = {"native": 6, "python": 8}
SURE = BAR / 4  # standard error of a percentile's median error; runs are added until it is reached
WAKE_UP_NS = {"native": 25_000, "python": 500_000}  # T is at least that
QUANTILES = (0.5, 0.9, 0.99, 0.999)
REACHED, LEAST = 125, 7  # messages that a stall reaches, at most and at least
FEWEST = 1  # where more would be more than the transport carries
MORE = 1.28  # of what it reaches are looked at, so that p50 to p99.9 are values that it reached
WARMUP = 100  # the first message wakes threads up that then catch up for a while
SHORT_NS = 20_000_000  # stalls up to that have pilots as long
CALM_NS, CALM = 10_000_000, (4, 20)  # after a queue: so long, but at least and at most so many messages
EASE = {"native": 1, "python": 3}  # T is at least so many times what a message takes after a stall
SLACK, TIGHT = 30, 4  # T is so many times what the transport takes for a message, and at least


@dataclass(frozen=True)
class Plan:
    """When messages are due, in ns, and which of them stalls begin with."""

    due_ns: tuple[int, ...]
    stalls: tuple[tuple[int, int], ...]
    pilots: tuple[int, ...]
    checked: tuple[int, ...]
    period_ns: int

    @classmethod
    def of(cls, stall_ns: int, reached: int, count: int) -> Plan:
        """So many stalls, each of which reaches so many messages, between pilots that reach as many."""
        period = round(stall_ns / reached)
        half = 1 if stall_ns <= SHORT_NS else 2
        calm = min(max(CALM[0], CALM_NS // period), CALM[1])
        gaps = [period] * WARMUP
        planted: list[tuple[int, int]] = []
        which: tuple[list[int], list[int]] = [], []
        for i in range(max(count, 3)):
            for kind, divisor in enumerate((half, 1)):
                if kind == 0 or i < count:
                    which[kind].append(len(planted))
                    planted.append((len(gaps), stall_ns // divisor))
                    gaps += [period // divisor] * round(1.5 * reached) + [period] * calm
        return cls(
            tuple(itertools.accumulate(gaps)), tuple(planted), tuple(which[0]), tuple(which[1]), period
        )


def stalled(name: str, plan: Plan) -> Measurement:
    """A run of a plan."""
    native = facts_of(name).loop == "native"
    with tempfile.NamedTemporaryFile("w", prefix="latlab-", suffix=".txt") as times:
        times.write("\n".join(str(at) for at in plan.due_ns) + "\n")
        times.flush()
        settings = Settings(
            name,
            messages=len(plan.due_ns) - WARMUP,
            warmup=WARMUP,
            load="file",
            load_file=times.name,
            stalls=plan.stalls,
            # Three threads that spin don't fit on two cores, and real-time ones that spin stop the machine.
            wait="block" if native else "auto",
            priority=10 if native and os.geteuid() == 0 else 0,
        )
        m = measure(settings)
    assert m.partial is None, m.partial
    assert len(m.stalls_ns) == len(plan.stalls)
    return m


def first_of_queue(m: Measurement, which: int) -> int:
    """The message that a stall began with."""
    planted, start, _ = m.stalls_ns[which]
    assert m.intended_ns is not None
    return planted if m.facts.broker is None else int(np.searchsorted(m.intended_ns, start))


def response(m: Measurement, pilots: Sequence[int], length: int) -> npt.NDArray[np.float64]:
    """A(k) for k below `length`: by the pilots' queues, and beyond them at the same rate."""
    assert m.intended_ns is not None
    curves = []
    for which in pilots:
        first, end = first_of_queue(m, which), m.stalls_ns[which][2]
        last = int(np.searchsorted(m.intended_ns, end))
        curves.append(m.received_ns[first:last].astype(np.float64) - end)
    known = int(np.median([curve.size for curve in curves]))
    found = np.array(
        [np.median([curve[k] for curve in curves if curve.size > k]) for k in range(min(known, length))]
    )
    if found.size < length:
        step = float(np.polyfit(np.arange(1, found.size), found[1:], 1)[0]) if found.size > 2 else 0.0
        found = np.append(found, found[-1] + step * np.arange(1, length - found.size + 1))
    return found


def errors(m: Measurement, plan: Plan, reached: int) -> npt.NDArray[np.float64]:
    """How far each percentile of each checked stall is from the closed form; NaN where it isn't reached."""
    assert m.intended_ns is not None
    own = response(m, plan.pilots, round(reached * MORE))
    late = m.received_ns - m.intended_ns
    found = []
    for which in plan.checked:
        first, (_, start, end) = first_of_queue(m, which), m.stalls_ns[which]
        stall, begun = end - start, start - m.intended_ns[first]
        # A product stands still some time before the first message of its queue is due.
        waited = min(reached, float(begun + stall) / plan.period_ns)
        count = max(FEWEST, round(waited * MORE))
        expected = np.maximum(begun + stall - np.arange(count) * plan.period_ns + own[:count], 0.0)
        row = []
        for q in QUANTILES:
            should, shows = nearest_rank(expected, q), nearest_rank(late[first : first + count], q)
            row.append(float(shows) / float(should) - 1 if should > 0.05 * stall else np.nan)
        found.append(row)
    return np.array(found)


@dataclass(frozen=True)
class Pace:
    """ns that a transport takes after a stall: for each message of the queue, and for one of its middle."""

    a_message: float = 1.0
    own: float = 1.0

    def reach(self, stall_ns: int) -> int:
        """How many messages a stall may reach at a rate that leaves the transport its slack.

        A message must have arrived before the next one is due: a queue that no stall made has no closed form.
        """
        few = FEWEST if self.a_message * TIGHT > stall_ns / LEAST else LEAST
        slack = max(few, int(stall_ns / (self.a_message * SLACK)))
        return max(FEWEST, min(REACHED, slack, int(stall_ns / self.own)))


def probed(name: str, stall_ns: int, least: Pace) -> tuple[int, Pace]:
    """The same, and the transport's pace, `least` or more, by trying until a rate fits."""
    reached = max(FEWEST, min(least.reach(stall_ns), stall_ns // WAKE_UP_NS[facts_of(name).loop]))
    while True:
        plan = Plan.of(stall_ns, reached, 3)
        m = stalled(name, plan)
        assert m.intended_ns is not None
        if np.median(m.sent_ns - m.intended_ns) < stall_ns / reached:
            own = response(m, plan.pilots, max(reached, 2))
            a_message = max(float(own[-1] - own[0]) / (own.size - 1), least.a_message)
            pace = Pace(a_message, max(float(own[own.size // 2]) * EASE[facts_of(name).loop], least.own))
            if reached == FEWEST or pace.reach(stall_ns) >= reached:
                return reached, pace
            reached = min(reached - 1, pace.reach(stall_ns))
        elif reached == FEWEST:
            return reached, Pace(max(stall_ns / TIGHT, least.a_message), max(stall_ns, least.own))
        else:
            reached = max(FEWEST, reached // 2)


def certify(name: str, milliseconds: int, count: int, reached: int) -> tuple[float, str]:
    """The largest of the percentiles' median errors, and what to say about them."""
    plan, loop = Plan.of(milliseconds * 1_000_000, reached, count), facts_of(name).loop
    every = np.zeros((0, len(QUANTILES)))
    own = 0.0
    unsure = math.inf
    for done in range(1, MOST_ROUNDS[loop] + 1):
        m = stalled(name, plan)
        every = np.concatenate([every, errors(m, plan, reached)])
        own = max(own, float(response(m, plan.pilots, reached)[reached // 2]))
        unsure = uncertainty(every)
        if done >= ROUNDS[loop] and unsure <= SURE:
            break
    reaches = ~np.isnan(every).all(axis=0)
    middle = np.nanmedian(every[:, reaches], axis=0)
    worst = float(np.abs(middle).max())
    shown = " ".join(f"{value:+.2%}" for value in middle)
    details = f"+-{unsure:.2%}, {len(every)} stalls of {reached}, A {own / 1e3:.0f} us"
    return worst, f"{milliseconds} ms {shown} ({details})"


def uncertainty(every: npt.NDArray[np.float64]) -> float:
    """Standard error of the least certain percentile's median error; as many pilots scatter as much."""
    spread = [column[~np.isnan(column)] for column in every.T]
    return max(
        1.25 * math.sqrt(2 / x.size) * 1.48 * float(np.median(np.abs(x - np.median(x))))
        for x in spread
        if x.size
    )


def main() -> int:
    """Exit status 1 when a transport misses the bar."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # servers and files are taken away then, too
    if os.geteuid() == 0:  # Python loops inherit it; the native ones have a real-time priority
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    known = every_transport()
    parser = argparse.ArgumentParser()
    parser.add_argument("--ms", type=int, action="append", choices=STALLS["native"], help="stalls of so long")
    parser.add_argument("transport", nargs="*")
    asked = parser.parse_args()
    names = asked.transport or [n for n, f in known.items() if f.lossless and not (missing(f) or f.library)]
    failed: list[str] = []
    print(f"median error of p50, p90, p99 and p99.9 from the closed form (bar {BAR:.0%})", flush=True)
    for name in names:
        pace = Pace()
        for milliseconds, count in STALLS[facts_of(name).loop].items():
            if milliseconds <= SHORT_NS // 1_000_000:
                reached, pace = probed(name, milliseconds * 1_000_000, pace)
            else:
                reached = pace.reach(milliseconds * 1_000_000)
            if asked.ms is not None and milliseconds not in asked.ms:
                continue
            worst, text = certify(name, milliseconds, count, reached)
            print(f"{name:<14} {text}", flush=True)
            failed += [f"{name} at {milliseconds} ms"] if worst > BAR else []
    print(f"missed: {', '.join(failed)}" if failed else "all met")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
