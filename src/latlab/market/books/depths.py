"""How deep in the books a feed's events are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from latlab._core.market import Pipeline
from latlab.market.books.passes import Input, absent, refuse, shared_run
from latlab.market.books.selection import MAX_NS, check_period, symbol_list
from latlab.market.wire.source import source_of
from latlab.model.market import Depth

_QUANTILES = {"p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}


def depth(
    path: Input,
    *,
    book: str = "ladder",
    capacity: int = 8192,
    symbols: tuple[str, ...] = (),
    from_ns: int = 0,
    to_ns: int = MAX_NS,
    lenient: bool = False,
    jobs: int = 1,
) -> Depth:
    """How many ticks from the inside each book event is, and how many levels its side has.

    The depth of an event is the number of ticks (a cent, 1/100 cent below a dollar) by which its price is
    worse than the best of its side after it; 0 at the inside, and for one that moved it. A replacement counts
    with its new price. (JayBeams, itch5eventdepth.)

    Args:
        path: as for `census`.
        book, capacity: as for `write_inside`; the result is the same.
        symbols, from_ns, to_ns: what is counted.
        lenient: skip what is damaged.
        jobs: threads that share the symbols, as for `write_inside`.

    Raises:
        InputError: the input is bad.
    """
    check_period(from_ns, to_ns)
    source = source_of(path)
    part = symbol_list(symbols), from_ns, to_ns
    found, pipeline = shared_run(
        source,
        lambda jobs: Pipeline.depth(source.framing, lenient, book, capacity, *part, jobs),
        jobs,
        lenient,
    )
    refuse(source, found, lenient)
    found = replace(found, absent=absent(pipeline, symbols))
    values, counts = pipeline.event_depth()
    return Depth(int(counts.sum()), _quantiles(values, counts), _quantiles(*pipeline.book_depth()), found)


def _quantiles(values: Any, counts: Any) -> dict[str, int]:
    """Nearest-rank quantiles of values, each with how often it occurs."""
    if not len(values):
        return {}
    ends = np.cumsum(counts)
    total = int(ends[-1])
    picked = {}
    for name, q in _QUANTILES.items():
        rank = max(1, -int(-q * total // 1))
        picked[name] = int(values[np.searchsorted(ends, rank)])
    return {"min": int(values[0])} | picked | {"max": int(values[-1])}
