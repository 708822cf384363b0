"""Stall certificate: a broker that stands still must show in the percentiles as the closed form says.

Messages are due every T. The broker stands still for D when message s arrives. Message n (n >= s, due less
than D
later) then arrives D - (n - s) T after it was due, plus what a message takes without a stall. A percentile
of rank r
among N messages is the (N - r)-th largest of these values wherever the stall reached that many messages.

    python -m benchmarks.messaging_stall [transport ...]
"""

from __future__ import annotations

import sys

import numpy as np

from latlab.messaging import every_transport, measure, missing
from latlab.model.messaging import Settings
from latlab.stats.quantiles import nearest_rank, rank

BAR = 0.02
STALLS_MS = (1, 5, 20, 100, 500)
QUANTILES = (0.5, 0.9, 0.99, 0.999)


def worst_error(name: str, stall_ns: int) -> tuple[float, int]:
    """(largest relative error of a reached percentile, percentiles checked) of one run."""
    messages, at = 160, 20
    period_ns = stall_ns / 125  # the stall reaches 125 of the 160 messages: p50 to p99.9
    settings = Settings(
        name, messages=messages, load="rate", rate_hz=1e9 / period_ns, stalls=((at, stall_ns),), warmup=0
    )  # fmt: skip
    m = measure(settings)
    assert m.intended_ns is not None
    assert m.partial is None
    late = m.received_ns - m.intended_ns
    usual = float(np.median(late[:at]))
    errors = []
    for q in QUANTILES:
        above = messages - rank(q, messages)
        expected = stall_ns - above * period_ns + usual
        if expected > usual + 0.05 * stall_ns:
            errors.append(abs(float(nearest_rank(late, q)) - expected) / expected)
    return max(errors), len(errors)


def main() -> int:
    """Exit status 1 when a transport misses the bar."""
    known = every_transport()
    names = sys.argv[1:] or [
        n for n, f in known.items() if f.lossless and f.loop == "native" and not missing(f)
    ]
    failed = 0
    for name in names:
        shown = []
        for stall in STALLS_MS:
            # The best of three: a foreign process on a machine of two cores is a stall that nobody planted.
            error = min(worst_error(name, stall * 1_000_000)[0] for _ in range(3))
            failed += error > BAR
            shown.append(f"{stall} ms {error:.2%}")
        print(f"{name:<16} worst error of p50..p99.9 (bar {BAR:.0%}): {', '.join(shown)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
