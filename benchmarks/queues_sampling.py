"""What sampling costs: the time of a sweep, and of counting in Python.

Bars: 165 queues in 4 µs, and 25 ns each as a call from Python; 10,000 in 50 µs with one stamp a batch and
150 µs with one each; Python's queue.Queue with counts at most 120 ns above its own put +
get. `python -m benchmarks.queues_sampling`
"""

import queue
import sys
import time
import timeit

from benchmarks._scratch import own_counters


def sweep_us(queues: int, stamp_every: int, sweeps: int = 300) -> tuple[float, float]:
    """The median sweep over idle queues: by the sampler's own stamps, and as a call from Python."""
    import numpy as np

    from latlab._core import clock, counting
    from latlab._core import queues as core

    slots = [counting.Slot(name=f"q{i}") for i in range(queues)]
    reader = core.Reader(counting.counter_file())
    sampler = core.Sampler(stamp_every=stamp_every, chunk_samples=1 << 15, chunks=4)
    seen = {i: found for i in range(reader.queue_count) if (found := reader.queue(i)) is not None}
    live = [i for i, found in seen.items() if found["state"] == 2][-queues:]
    parts = [(0, slot, seen[slot]["generation"]) for slot in live]
    sampler.set_plan([reader], [reader.topology_version], [(i, False, [p], [p]) for i, p in enumerate(parts)])
    reference = clock.reference()[:2]
    calls = []
    for _ in range(sweeps):
        began = time.perf_counter_ns()
        sampler.sweep()
        calls.append(time.perf_counter_ns() - began)
    sampler.flush()
    later = clock.reference()[:2]
    hz = (later[0] - reference[0]) * 1e9 / max(1, later[1] - reference[1])
    durations = np.concatenate([s["duration_ns"] for _, s, _ in sampler.drain(*reference, hz)])
    del slots
    return float(np.median(durations[20:])) / 1e3, float(np.median(calls[20:])) / 1e3


def put_get_ns(make: object) -> float:
    q = make()  # type: ignore[operator]

    def both() -> None:
        q.put(1)
        q.get()

    # Short stretches, of which some pass undisturbed also on a busy machine.
    return min(timeit.repeat(both, number=1000, repeat=60)) / 1000 * 1e9


def main() -> int:
    own_counters()
    from latlab.queues.count.standard import Queue

    missed = 0

    def say(what: str, value: float, bar: float, unit: str) -> None:
        nonlocal missed
        missed += value > bar
        print(f"{what}: {value:.2f} {unit}, bar {bar:g} {'met' if value <= bar else 'MISSED'}", flush=True)

    native_us, called_us = sweep_us(165, 4)
    say("165 queues, a stamp for 4", native_us, 4, "µs")
    say("the same as a call from Python, a queue", called_us * 1e3 / 165, 25, "ns")
    say("10,000 queues, a stamp for 64", sweep_us(10_000, 64)[0], 50, "µs")
    say("10,000 queues, a stamp each", sweep_us(10_000, 1)[0], 150, "µs")
    rounds = [(put_get_ns(queue.Queue), put_get_ns(Queue)) for _ in range(20)]
    plain, counted = (min(column) for column in zip(*rounds, strict=True))
    print(f"queue.Queue put + get: {plain:.0f} ns, counted {counted:.0f} ns")
    say("counting a queue.Queue", counted - plain, 120, "ns")
    return missed


if __name__ == "__main__":
    sys.exit(main())
