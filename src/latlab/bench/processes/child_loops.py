"""The loops that measure a callable: the native one, the interpreter's own, that of coroutines; a sibling of
`child`."""

import os
from typing import Any

Measured = tuple[bytes, int, int, float, int, float, int, bytes]


class Uneven(Exception):
    """run() returned different counts."""


def measure_sync(
    run: Any, set_up: Any, tear_down: Any, config: "dict[str, Any]", *, counted: bool
) -> Measured:
    """The same of a callable, by the native loop where there is one."""
    if config["sys_path"] is None:
        return measure_plain(run, set_up, tear_down, config, counted=counted)
    from latlab._core import bench

    if config["count"]:
        config["costs"] = bench.count(run, config["count"], set_up, tear_down)
    ticks, even, batch, operations, hz, quantum, read, measuring_ns, singles = bench.measure(
        run, config["iterations"], config["warmup"], config["batch"], counted, set_up, tear_down,
        config["turns"], config["cold"],
    )  # fmt: skip
    if not even:
        raise Uneven
    return ticks, batch, operations, hz, quantum, read, measuring_ns, singles


def clock_grain(stamp: Any) -> "tuple[int, float]":
    """(the clock's usual step, cost of a reading) of a clock that counts nanoseconds."""
    readings = [stamp() for _ in range(2000)]
    steps = sorted(b - a for a, b in zip(readings, readings[1:]) if b > a)  # noqa: B905, RUF007
    return (steps[len(steps) // 2] if steps else 1), (readings[-1] - readings[0]) / (len(readings) - 1)


def measure_plain(
    run: Any,
    set_up: Any,
    tear_down: Any,
    config: "dict[str, Any]",
    *,
    counted: bool,
    reported: bool = False,
) -> Measured:
    """The same by the interpreter's own clock and loop, for a Python that has no latlab.

    With `reported`, a call returns how many nanoseconds it wants to have taken.
    """
    from array import array
    from time import perf_counter_ns as stamp

    if config["cold"]:
        raise ValueError("only latlab's own interpreter can empty the caches")
    quantum, read = clock_grain(stamp)
    counts: set[Any] = set()

    def calls(count: int) -> int:
        if reported:
            counts.add(None)
            return sum(max(1, run()) for _ in range(count))
        begin = stamp()
        for _ in range(count):
            result = run()
        end = stamp()
        counts.add(result if counted else None)
        return end - begin

    def once(count: int) -> int:
        if set_up is not None:
            set_up()
        took = calls(count)
        if tear_down is not None:
            tear_down()
        return took

    batch = 1 if set_up is not None or tear_down is not None else config["batch"]
    while not batch or (config["batch"] == 0 and batch > 0 and set_up is None and tear_down is None):
        batch = batch * 2 or 1
        if min(once(batch) for _ in range(3)) >= 1000 * quantum or batch >= 1 << 40:
            break
    for _ in range(config["warmup"] + 1):
        once(batch)
    out, singles = array("Q", bytes(8 * config["iterations"])), array("Q")
    peer, first, length, unmeasured = config["turns"]
    length = length or len(out)
    begin = stamp()
    if peer >= 0 and not first:
        os.write(peer, b"1")
    for at in range(0, len(out), length):
        if peer >= 0 and os.read(peer, 1) == b"":
            del out[at:]
            break
        for _ in range(unmeasured):
            once(batch)
        for i in range(at, min(at + length, len(out))):
            out[i] = once(batch)
            if batch > 1:  # a batch has no tail
                singles.append(max(1, calls(1)))
        if peer >= 0:
            try:
                os.write(peer, b"1")
            except BrokenPipeError:
                pass  # the other side has ended; the next read says so
    if peer >= 0 and first:
        os.read(peer, 1)
    measuring_ns = stamp() - begin
    if len(counts) != 1:
        raise Uneven
    count = counts.pop()
    if count is not None and count <= 0:
        raise ValueError("run() must return a number of operations above 0, or None")
    operations = 1 if count is None else int(count)
    return out.tobytes(), batch, operations, 1e9, quantum, read, measuring_ns, singles.tobytes()


def measure_async(
    run: Any, set_up: Any, tear_down: Any, config: dict[str, Any], *, counted: bool
) -> Measured:
    """The same of a coroutine function: every call is awaited on one loop, whose start is not measured."""
    import asyncio
    from array import array

    from latlab._core import bench, clock

    batch = 1 if config["cold"] else config["batch"] or 1
    out, counts = array("Q", bytes(8 * config["iterations"])), set()
    stamp = clock.ticks_ordered
    peer, first, length, unmeasured = config["turns"]
    length = length or len(out)

    def wait() -> bool:
        return peer < 0 or os.read(peer, 1) != b""

    def hand_over() -> None:
        if peer >= 0:
            try:
                os.write(peer, b"1")
            except BrokenPipeError:
                pass  # the other side has ended; the next wait() says so

    async def once(calls: int) -> int:
        if set_up is not None:
            await set_up() if asyncio.iscoroutinefunction(set_up) else set_up()
        if config["cold"]:
            bench.evict()
        begin = stamp()
        for _ in range(calls):
            result = await run()
        end = stamp()
        counts.add(result if counted else None)
        if tear_down is not None:
            await tear_down() if asyncio.iscoroutinefunction(tear_down) else tear_down()
        return end - begin

    if config["count"]:
        config["costs"] = count_async(run, set_up, tear_down, config["count"])

    async def all_of_it() -> tuple[float, int]:
        for _ in range(config["warmup"] + 1):
            await once(batch)
        begin = clock.reference()
        if not first:
            hand_over()
        for at in range(0, len(out), length):
            if not wait():
                del out[at:]
                break
            for _ in range(unmeasured):
                await once(batch)
            for i in range(at, min(at + length, len(out))):
                out[i] = await once(batch)
            hand_over()
        if first:
            wait()
        end = clock.reference()
        measuring_ns = end[1] - begin[1]
        while end[1] - begin[1] < 200_000:
            end = clock.reference()
        return (end[0] - begin[0]) * 1e9 / (end[1] - begin[1]), measuring_ns

    hz, measuring_ns = asyncio.run(all_of_it())
    if len(counts) != 1:
        raise Uneven
    count = counts.pop()
    if count is not None and count <= 0:
        raise ValueError("run() must return a number of operations above 0, or None")
    quantum, read = bench.clock_grain()
    return out.tobytes(), batch, 1 if count is None else int(count), hz, quantum, read, measuring_ns, b""


def count_async(run: Any, set_up: Any, tear_down: Any, calls: int) -> "list[float]":
    """The costs of awaited calls. Where nothing goes before each, the loop's are spread over them."""
    import asyncio

    from latlab._core import bench

    loop = asyncio.new_event_loop()

    async def awaited(what: Any, times: int = 1) -> None:
        for _ in range(times):
            result = what()
            if asyncio.iscoroutine(result):
                await result

    def through(what: Any, times: int = 1) -> Any:
        return None if what is None else lambda: loop.run_until_complete(awaited(what, times))

    try:
        if set_up is None and tear_down is None:
            return list(bench.count(through(run, calls), 1, None, None))
        return list(bench.count(through(run), calls, through(set_up), through(tear_down)))
    finally:
        loop.close()
