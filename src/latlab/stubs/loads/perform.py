"""Performance without function: chosen amounts of CPU time, sleep, memory, I/O and load.

What each achieves on this machine is what `calibrate` measures.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from latlab._core import stubs as native
from latlab.errors import LatlabError, UsageError
from latlab.words import plural

CLOCKS = ("cpu", "wall")
SLEEPS = {
    "corrected": native.SleepMode.CORRECTED,
    "plain": native.SleepMode.PLAIN,
    "spin-end": native.SleepMode.SPIN_END,
}


def _length(ns: float, what: str = "a stub's time") -> int:
    if not math.isfinite(ns) or ns < 0:
        raise UsageError(f"{what} can't be {ns}")
    return round(ns)


def busy(ns: float, *, clock: str = "cpu", released: bool = False) -> native.SpinResult:
    """Hold the CPU: a busy stub, which takes the CPU from others as real work does.

    Args:
        ns: how long.
        clock: "cpu", until the thread got that much CPU time (preemption isn't counted as work), or "wall",
            until a time-stamp deadline.
        released: let go of the GIL meanwhile, as an extension module may; "cpu" only.

    Returns:
        ``requested_ns``, ``wall_ns``, ``cpu_ns``, ``preempted`` and ``longest_gap_ns``.

    Raises:
        UsageError: the time is negative, or there is no such clock.
    """
    if clock not in CLOCKS or (released and clock != "cpu"):
        raise UsageError(f"unknown clock '{clock}'", remedy=f"one of {', '.join(CLOCKS)}")
    length = _length(ns)
    if clock == "wall":
        return native.spin_wall(length)
    return native.spin_cpu_released(length) if released else native.spin_cpu(length)


def instructions(count: float) -> native.SpinResult:
    """Execute this many instructions; the time is the CPU's (``requested_ns`` by calibration).

    Raises:
        UsageError: the count is negative.
    """
    return native.spin_instructions(_length(count, "a number of instructions"))


def idle(ns: float, *, mode: str = "corrected") -> native.SleepResult:
    """Leave the CPU: an idle stub, which leaves it to others.

    Args:
        ns: how long.
        mode: "corrected" wakes earlier by the median overshoot of the sleeps before it, "plain" is the
            kernel's own, "spin-end" holds the CPU for the last of it (``burned_ns``).

    Returns:
        ``requested_ns``, ``wall_ns`` and ``burned_ns``.

    Raises:
        UsageError: the time is negative, or there is no such mode.
    """
    if mode not in SLEEPS:
        raise UsageError(f"unknown sleep '{mode}'", remedy=f"one of {', '.join(SLEEPS)}")
    return native.sleep(_length(ns), SLEEPS[mode])


def cache(
    working_set_bytes: int, *, stride_bytes: int = 64, write_fraction: float = 0.0, seed: int = 1
) -> native.CacheStub:
    """A working set, walked in an order that the prefetcher can't guess.

    Args:
        working_set_bytes: at least two strides; the level that holds it sets the time of an access.
        stride_bytes: distance of two cells, at least 8.
        write_fraction: part of the accesses that also write.

    Returns:
        a stub with ``run(accesses)``, ``run_for(ns)`` and ``run_counted(accesses)`` (with misses, -1 where
        the CPU has no counter for us); each returns ``accesses``, ``wall_ns`` and ``misses``.

    Raises:
        UsageError: the set or the stride is too small, or the fraction isn't one.
    """
    if not 0 <= write_fraction <= 1:
        raise UsageError(f"a share of the accesses must be between 0 and 1, not {write_fraction}")
    try:
        return native.CacheStub(working_set_bytes, stride_bytes, write_fraction, seed)
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"a cache stub of {plural(working_set_bytes, 'byte')}: {str(error).splitlines()[0]}"
        ) from None


def memory(steps: Sequence[tuple[float, int, int]]) -> native.MemoryResult:
    """Grow and release heap and stack over time.

    Args:
        steps: (ns after the start, bytes of heap, bytes of stack), in order of time.

    Returns:
        ``wall_ns``, ``peak_heap_bytes``, ``peak_stack_bytes``, ``page_faults`` and ``worst_lateness_ns``.

    Raises:
        UsageError: a step is negative, or earlier than the one before it.
        LatlabError: the memory can't be had.
    """
    plan = [(_length(at), heap, stack) for at, heap, stack in steps]
    if any(heap < 0 or stack < 0 for _, heap, stack in plan) or plan != sorted(plan, key=lambda s: s[0]):
        raise UsageError("steps are (ns, heap bytes, stack bytes), in order of time and never negative")
    try:
        return native.run_memory_plan(plan)
    except RuntimeError as error:
        raise LatlabError(str(error)) from error


def io(
    path: str | os.PathLike[str],
    *,
    read_bytes: int = 0,
    write_bytes: int = 0,
    block_bytes: int = 4096,
    pattern: str = "sequential",
    fsync_every: int = 0,
    delay_ns: float = 0,
    seed: int = 1,
) -> native.IoResult:
    """Read and write a file, and wait as a slower device would let one wait.

    Args:
        path: of the file, which is made where it is missing and grows to what is read.
        pattern: "sequential" or "random".
        fsync_every: after this many writes; 0: never.
        delay_ns: asleep, after the transfers.

    Returns:
        ``wall_ns``, ``reads``, ``writes``, ``fsyncs``, ``read_bytes`` and ``written_bytes``.

    Raises:
        UsageError: a size is negative, or there is no such pattern.
        LatlabError: the file can't be read or written.
    """
    if pattern not in ("sequential", "random"):
        raise UsageError(f"unknown pattern '{pattern}'", remedy="one of sequential, random")
    try:
        return native.run_io(
            os.fspath(path), read_bytes, write_bytes, block_bytes, pattern == "random", fsync_every,
            _length(delay_ns, "a delay"), seed,
        )  # fmt: skip
    except ValueError as error:
        raise UsageError(str(error)) from None
    except RuntimeError as error:
        raise LatlabError(str(error)) from error


def network(
    size_bytes: int, *, bytes_per_s: float = 0.0, delay_ns: float = 0, chunk_bytes: int = 16384
) -> native.NetworkResult:
    """Send bytes over loopback TCP.

    Args:
        bytes_per_s: 0 is as fast as it goes.
        delay_ns: before the first chunk.

    Returns:
        ``wall_ns`` (to the last byte received), ``bytes`` and ``first_byte_ns``.

    Raises:
        UsageError: a size or rate is negative.
        LatlabError: there is no loopback.
    """
    if size_bytes < 0 or chunk_bytes <= 0 or not 0 <= bytes_per_s < math.inf:
        raise UsageError("bytes and rates can't be negative, nor a chunk 0")
    try:
        return native.run_network(size_bytes, bytes_per_s, _length(delay_ns, "a delay"), chunk_bytes)
    except RuntimeError as error:
        raise LatlabError(str(error)) from error


@contextmanager
def load(
    *,
    cpus: int | Sequence[int] = 0,
    duty: float = 1.0,
    period_ns: float = 10e6,
    memory: float | None = None,
    disk: str | os.PathLike[str] | None = None,
    disk_bytes_per_s: float = 0.0,
) -> Iterator[native.GlobalLoad]:
    """Load the whole system for as long as the block lasts: global stubs.

    Args:
        cpus: how many CPUs (the last of those allowed) or which.
        duty: part of each period in which they are busy.
        memory: bytes a second, read and written, beyond every cache; 0 is as fast as it goes, None is none.
        disk: folder for a file that is written and synced over and over, and removed in the end.
        disk_bytes_per_s: 0 is as fast as it goes.

    Returns:
        ``busy_ns``, ``memory_bytes`` and ``disk_bytes``: what it has achieved so far.

    Raises:
        UsageError: there is no such CPU, or a rate is negative.
        LatlabError: the disk took no more, at the block's end.
    """
    allowed = sorted(os.sched_getaffinity(0))
    chosen = allowed[len(allowed) - cpus :] if isinstance(cpus, int) and 0 < cpus <= len(allowed) else cpus
    numbers = [] if chosen == 0 else chosen
    if isinstance(numbers, int) or any(number not in allowed for number in numbers):
        raise UsageError(
            f"there are no CPUs {cpus}", remedy=f"these are allowed: {', '.join(map(str, allowed))}"
        )
    path = "" if disk is None else str(Path(disk) / f"latlab-load-{os.getpid()}")
    try:
        found = native.GlobalLoad(
            list(numbers), duty, _length(period_ns, "a period"), int(memory is not None),
            memory_bytes_per_s=memory or 0.0, disk_path=path, disk_bytes_per_s=disk_bytes_per_s,
        )  # fmt: skip
    except ValueError as error:
        raise UsageError(str(error)) from None
    found.start()
    try:
        yield found
    finally:
        found.stop()
        if path:
            Path(path).unlink(missing_ok=True)
    if found.disk_error:
        raise LatlabError(f"the disk load ended early: {found.disk_error}")
