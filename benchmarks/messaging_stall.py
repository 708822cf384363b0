"""Stall certificate: a broker that stands still must show in the percentiles as the closed form says.

Messages are due every T. The broker stands still for D when message s arrives, and then passes the queue on,
one message every c: a server that takes c a message can't catch up faster. Message s + k is due k T later and
arrives u + c k after the stall's end, u being what the first takes to a receiver that has fallen asleep.
So it is a + D + u - k (T - c) late, a being how late message s was when the stall began, until the queue is
empty. A percentile of rank r among N messages is the (N - r)-th largest of these values wherever the stall
reached so many.

a and D are the stall as the broker made it (it says so; it sleeps, and a sleeper wakes up late). u and c are
the machine's, which has faster and slower seconds: they come from other stalls, a moment earlier in the same
run. A transport that is offered more than it carries has a queue that no stall made: T is at least 4 c.

A product's server is stopped and goes on by signals; the first message of its queue is the first that was due
when it had been stopped. The Python loop's own cost is in u and c.

    python -m benchmarks.messaging_stall [transport ...]
"""

from __future__ import annotations

import os
import sys

import numpy as np

from latlab.messaging import every_transport, facts_of, measure, missing
from latlab.model.messaging import Measurement, Settings
from latlab.stats.quantiles import nearest_rank, rank

BAR = 0.02
STALLS_MS = (1, 5, 20, 100, 500)
QUANTILES = (0.5, 0.9, 0.99, 0.999)
REACHED = 125  # messages, at most, and 28 % more that aren't: p50 to p99.9 of them are reached
WARMUP = 100  # the first message wakes threads up that then catch up for a while
PILOTS, PILOT_NS, PILOT_REACHED = 3, 5_000_000, 5
SLACK = 4  # T is at least so many times c
ROUNDS = 5


def stalled(name: str, stall_ns: int, reached: int) -> Measurement:
    """A run whose last stall is the one to be checked. Pilots before it are as long, up to 5 ms or 5 T."""
    period_ns = stall_ns / reached
    pilot_ns = min(stall_ns, max(PILOT_NS, round(PILOT_REACHED * period_ns)))
    apart = 20 + round(pilot_ns / period_ns * SLACK / (SLACK - 1))
    last = WARMUP + PILOTS * apart
    native = facts_of(name).loop == "native"
    settings = Settings(
        name,
        messages=last - WARMUP + round(reached * 1.28),
        warmup=WARMUP,
        load="rate",
        rate_hz=1e9 / period_ns,
        stalls=(*((WARMUP + i * apart, pilot_ns) for i in range(PILOTS)), (last, stall_ns)),
        # Three threads that spin don't fit on two cores, and real-time ones that spin stop the machine.
        wait="block",
        priority=10 if native and os.geteuid() == 0 else 0,
    )
    m = measure(settings)
    assert m.partial is None, m.partial
    assert len(m.stalls_ns) == PILOTS + 1
    return m


def first_of_queue(m: Measurement, which: int) -> int:
    """The message that a stall began with."""
    planted, start, _ = m.stalls_ns[which]
    assert m.intended_ns is not None
    return planted if m.facts.broker is None else int(np.searchsorted(m.intended_ns, start))


def catching_up(m: Measurement) -> tuple[float, float]:
    """(u, c): what the first message after a pilot stall takes, and every other one of the queue."""
    assert m.intended_ns is not None
    found = []
    for which in range(PILOTS):
        first, end = first_of_queue(m, which), m.stalls_ns[which][2]
        queued = np.flatnonzero(m.intended_ns[first:] < end) + first
        arrived = (m.received_ns[queued] - end).astype(np.float64)
        c = float(np.polyfit(np.arange(arrived.size), arrived, 1)[0]) if arrived.size > 2 else 0.0
        found.append((float(np.mean(arrived)) - c * (arrived.size - 1) / 2, c))
    u, c = np.median(found, axis=0)
    return float(u), float(c)


def reachable(name: str, stall_ns: int) -> int:
    """How many messages a stall may reach at a rate that leaves the transport its slack."""
    reached = REACHED
    while reached > 7:
        c = float(np.median([catching_up(stalled(name, stall_ns, reached))[1] for _ in range(3)]))
        if c * SLACK <= stall_ns / reached:
            break
        reached = max(7, min(reached // 2, int(stall_ns / (c * SLACK))))
    return reached


def worst(m: Measurement) -> float:
    """The relative error of the closed form in the worst of the percentiles that the last stall reaches."""
    _, start, end = m.stalls_ns[-1]
    assert m.intended_ns is not None
    first, (u, c) = first_of_queue(m, -1), catching_up(m)
    stall, period, begun = end - start, 1e9 / m.settings.rate_hz, start - m.intended_ns[first]
    late = (m.received_ns - m.intended_ns)[first:]
    found = []
    for q in QUANTILES:
        k = late.size - rank(q, late.size)
        expected = begun + stall + u - k * (period - c)
        if expected > 0.05 * stall:
            found.append(abs(float(nearest_rank(late, q)) / expected - 1))
    return max(found)


def main() -> int:
    """Exit status 1 when a transport misses the bar."""
    known = every_transport()
    names = sys.argv[1:] or [n for n, f in known.items() if f.lossless and not missing(f)]
    failed = 0
    print(
        f"worst error of p50 to p99.9 from the closed form (bar {BAR:.0%}): median and best of {ROUNDS} runs"
    )
    for name in names:
        shown = []
        for milliseconds in STALLS_MS:
            stall = milliseconds * 1_000_000
            if milliseconds <= 20:  # what carries this much carries less
                reached = reachable(name, stall)
            runs = [stalled(name, stall, reached) for _ in range(ROUNDS if milliseconds <= 20 else 2)]
            found = sorted(worst(m) for m in runs)
            # A foreign process on a machine of two cores is a stall that nobody planted: the best run counts.
            failed += found[0] > BAR
            u, c = np.median([catching_up(m) for m in runs], axis=0) / 1e3
            shown.append(
                f"{milliseconds} ms {found[len(found) // 2]:.2%} / {found[0]:.2%} "
                f"(reached {reached}, u {u:.1f} us, c {c:.2f} us)"
            )
        print(f"{name:<16}" + "; ".join(shown), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
