"""Measures a callable in this process, for a test runner whose process it is.

One process is one replicate, whatever its number of rounds: what is said of it against another run presumes
what lies between processes (`judging.compare`).
"""

from __future__ import annotations

import functools
import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from latlab._core import bench as _core
from latlab.model.bench import Sample

__all__ = ["measure_call", "measure_rounds"]

FEWEST_ROUNDS, MOST_ROUNDS = 5, 2000
_WARM_S = 0.1  # of the budget
_QUANTA = 1000  # of the clock, as in the native loop


def measure_call(call: Callable[[], Any], *, seconds: float, fewest: int = 0) -> tuple[Any, Sample]:
    """(what the last call returned, its times) of a callable, for so long.

    The first calls are not measured. One that takes longer than the budget is called twice.

    Args:
        call: without arguments.
        seconds: budget.
        fewest: rounds, whatever the budget.
    """
    result, first_s = None, math.inf
    begin = time.perf_counter()
    for _ in range(1000):
        from_s = time.perf_counter()
        result = call()
        first_s = min(first_s, time.perf_counter() - from_s)
        if time.perf_counter() - begin > _WARM_S * seconds:
            break
    quantum_ticks, _ = _core.clock_grain()
    quantum_s = quantum_ticks * 1e-9  # a tick is a nanosecond or less
    batch = 1 if first_s > _QUANTA * quantum_s else 0
    each_s = max(first_s, _QUANTA * quantum_s)
    least = FEWEST_ROUNDS if FEWEST_ROUNDS * first_s < seconds else max(1, int(seconds / first_s))
    rounds = min(max(MOST_ROUNDS, fewest), max(least, fewest, int((1 - _WARM_S) * seconds / each_s)))
    with _uncollected():
        ticks, _, batch, _, hz, quantum, read, measuring_ns, _ = _core.measure(
            call, rounds, 0, batch, False, None, None, (-1, True, 0, 0)
        )
    times = np.frombuffer(ticks, dtype="<u8") * (1e9 / hz / batch)
    # A clock that steps under it shows an empty call as nothing.
    times = np.maximum(times, quantum * 1e9 / hz / batch)
    return result, Sample(
        times, batch, 1, quantum * 1e9 / hz, read * 1e9 / hz, measuring_s=measuring_ns * 1e-9
    )


def measure_rounds(
    call: Callable[..., Any],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    *,
    rounds: int,
    iterations: int,
    warmup: int,
    set_up: Callable[[], Any] | None,
    tear_down: Callable[..., Any] | None,
) -> tuple[Any, Sample]:
    """(what the last call returned, the times) of so many rounds as asked for, each of so many calls.

    Args:
        call: what is measured.
        arguments: its arguments, unless `set_up` returns others.
        keywords: its keywords, likewise.
        rounds: measured.
        iterations: calls of a round.
        warmup: rounds before them.
        set_up: called before each round, not measured; may return (arguments, keywords).
        tear_down: called after each round with the arguments, not measured.
    """
    result = None
    times = []
    with _uncollected():
        for number in range(-warmup, rounds):
            given, named = tuple(arguments), dict(keywords)
            if set_up is not None and (made := set_up()) is not None:
                given, named = made
            ready = functools.partial(call, *given, **named)
            begin = time.perf_counter_ns()
            for _ in range(iterations):
                result = ready()
            took = time.perf_counter_ns() - begin
            if tear_down is not None:
                tear_down(*given, **named)
            if number >= 0:
                times.append(max(took, 1) / iterations)
    return result, Sample(np.array(times), iterations)


class _uncollected:  # noqa: N801 - used as a context manager, like a function
    """Without the garbage collector, whose work is that of all that ran before."""

    def __enter__(self) -> None:
        self.before = gc.isenabled()
        gc.collect()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self.before:
            gc.enable()
