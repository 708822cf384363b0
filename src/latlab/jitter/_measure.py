"""Collects jitter: chooses cores, runs the native collector, traces beside it, and hands on plain results.

Over 400 lines: one measurement from the choice of its cores to its last trace, which an interrupt may end
anywhere.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from latlab import words
from latlab._core import clock as native_clock
from latlab._core import jitter as native
from latlab.errors import UnavailableError, UsageError
from latlab.model.evidence.jitter import JitterSaid, TraceStop
from latlab.model.evidence.said import said
from latlab.model.machine.jitter import CoreJitter, JitterWarning, WarningKind
from latlab.stats.quantum import detect_quantum
from latlab.system.cpus import OthersBusy, cpu_list, online_cpus, own_threads, parse_cpu_list, threads_off
from latlab.system.environment import kernel_hz
from latlab.system.kernel.samples import Events
from latlab.system.kernel.tracefs import tracefs
from latlab.system.kernel.tracing import Tracer
from latlab.system.quota import Throttling, cpu_throttling

__all__ = [
    "MeasuredRun",
    "Throttling",
    "allowed_cpus",
    "cpu_throttling",
    "disturbance_tracer",
    "interrupt_counts",
    "measure",
]

# What fills gaps. irq_vectors one by one: the kernel refuses a few of them, irq_work's exit among them.
DISTURBANCES: tuple[str, ...] = (
    "sched:sched_switch",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "irq_vectors:local_timer_*",
    "irq_vectors:reschedule_*",
    "irq_vectors:call_function_*",
    "irq_vectors:thermal_apic_*",
    "irq_vectors:x86_platform_ipi_*",
    "irq_vectors:irq_work_entry",
    "exceptions:page_fault_*",
)
# A loaded core sees 10 MB/s of events. The drain thread may wait 50 ms for its turn, and many times that
# where twenty others want the core; with many cores the rings together stay below 64 MiB, or 2 MiB each.
_RING_BYTES, _RINGS_BYTES, _LEAST_RING_BYTES = 8 << 20, 64 << 20, 2 << 20
_LOOKS_S = 0.05  # between two looks whether a gap has ended the run
_GAP_FLOOR_NS = 1_000  # below, a delta is the memory system's or the hypervisor's business, not a disturber's


@dataclass(frozen=True)
class MeasuredRun:
    """A run's raw outcome, for the analysis.

    Attributes:
        own_tids: the threads of this process.
        interrupts: how often each line of /proc/interrupts counted up on each CPU.
        fifo: whether the measuring threads were of a real-time class.
        throttled: how often, and for how long, the CPU quota of our cgroup stopped us; None where there is
            none.
        hypervisor: whether we run under one.
        tick_hz: the rate of the kernel's tick; None where it does not publish it.
        others_busy: how many CPUs other processes used meanwhile; None where the kernel does not tell.
        whole: the run was not broken off.
        stopped_cpu: the core whose gap was over the threshold that ends a run; None where none was.
        trace_stopped: what became of the kernel's own trace then.
    """

    cores: tuple[CoreJitter, ...]
    events: Events | None
    trace_refused: str | None
    interrupts: dict[int, dict[str, int]]
    throttled: Throttling | None
    fifo: bool
    warnings: tuple[JitterWarning, ...] = field(default=())
    hypervisor: bool = False
    tick_hz: int | None = None
    own_tids: frozenset[int] = frozenset()
    others_busy: float | None = None
    whole: bool = True
    stopped_cpu: int | None = None
    trace_stopped: str = ""


def allowed_cpus(root: Path = Path("/")) -> list[int]:
    """The CPUs that we may use: our cpuset's, and isolated ones with them.

    Not only those of the inherited mask.
    """
    allowed = set(os.sched_getaffinity(0))
    try:
        status = (root / "proc/self/status").read_text()
    except OSError:
        status = ""
    online = set(online_cpus(root))
    cpuset = _cpuset(root)
    if cpuset is None:
        cpuset = set(parse_cpu_list(_read(root / "sys/devices/system/cpu/isolated"))) | allowed
    allowed |= cpuset
    for line in status.splitlines():
        if line.startswith("Cpus_allowed_list:"):
            allowed |= set(parse_cpu_list(line.partition(":")[2]))
    return sorted(allowed & online) or sorted(os.sched_getaffinity(0))


def _cpuset(root: Path) -> set[int] | None:
    """The CPUs of our own cpuset, of either version; None where there is none."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, name = root / "sys/fs/cgroup", "cpuset.cpus.effective"
        elif "cpuset" in controllers.split(","):
            base, name = root / "sys/fs/cgroup/cpuset", "cpuset.effective_cpus"
        else:
            continue
        # In a container the path is the host's, and its own group is mounted as the topmost.
        for folder in (base / path.strip("/"), base):
            if text := _read(folder / name).strip():
                return set(parse_cpu_list(text))
    return None


def interrupt_counts(text: str) -> dict[int, dict[str, int]]:
    """``/proc/interrupts`` as counts by CPU and line; a line's name is its description, or its label."""
    lines = text.splitlines()
    cpus = [int(word[3:]) for word in lines[0].split()] if lines else []
    counts: dict[int, dict[str, int]] = {cpu: {} for cpu in cpus}
    for line in lines[1:]:
        label, _, rest = line.partition(":")
        words = rest.split()
        numbers = words[: len(cpus)]
        if len(numbers) < len(cpus) or not all(word.isdigit() for word in numbers):
            continue  # ERR and MIS have one number for all
        name = " ".join(words[len(cpus) :]) or label.strip()
        for cpu, number in zip(cpus, numbers, strict=True):
            counts[cpu][name] = counts[cpu].get(name, 0) + int(number)
    return counts


def _interrupts() -> dict[int, dict[str, int]]:
    try:
        return interrupt_counts(Path("/proc/interrupts").read_text())
    except OSError:
        return {}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def disturbance_tracer(cpus: Sequence[int]) -> Tracer:
    """A tracer of everything that may fill a gap on `cpus`; enter it to start.

    Raises:
        UnavailableError: no rights, or no tracepoints.
        UsageError: none of `cpus` is online.
    """
    online = online_cpus()
    traced = [cpu for cpu in cpus if cpu in online]
    ring = max(_LEAST_RING_BYTES, min(_RING_BYTES, _RINGS_BYTES // max(1, len(traced))))
    return Tracer(DISTURBANCES, cpus=traced, ring_bytes=ring)


def measure(
    cpus: Sequence[int],
    seconds: float,
    *,
    threshold_ticks: int = 0,
    ring: int = 10_000,
    pause_ms: int = 0,
    fifo_priority: int = 0,
    trace: bool = True,
    stop_above_ns: int = 0,
    stop: threading.Event | None = None,
    tracer: Tracer | None = None,
) -> MeasuredRun:
    """Spin on every one of `cpus` for `seconds`, and note who disturbs.

    Args:
        threshold_ticks: deltas above are gaps; 0 chooses 10 times the median delta, at least 1 µs.
        ring: how many gaps a core keeps, the latest ones.
        pause_ms: sleep before each block of readings.
        fifo_priority: SCHED_FIFO at this priority; 0 keeps the scheduling class.
        trace: join kernel tracepoints, where they may be read.
        stop_above_ns: the first gap that is longer ends the run, and stops the kernel's own trace (ftrace)
            with a marker in it; 0: none does.
        stop: ends the run early when it is set, from another thread; Ctrl-C does the same in the main thread.
        tracer: a running one of `disturbance_tracer`, for run after run: to open one takes the kernel up to
            seconds on a busy machine.

    Raises:
        UsageError: no CPU, or no time.
        UnavailableError: every one of the CPUs refused us.
    """
    if not cpus:
        raise UsageError("no CPU is named to measure on", remedy="give --cpus, for example --cpus 0-3,7")
    if not seconds > 0:
        raise UsageError(f"a run of {words.seconds(seconds)} measures nothing", remedy="give -r more than 0")
    hz = _counter_hz()
    threshold = threshold_ticks or native.automatic_threshold(hz, _GAP_FLOOR_NS)
    refused: str | None = said(JitterSaid.NOT_REQUESTED)
    lost_before = 0
    with ExitStack() as stack:
        # The drain thread is started here, and inherits it.
        stack.enter_context(threads_off(cpus))
        marker, switch, trace_stopped = stack.enter_context(_kernel_trace(stop_above_ns > 0))
        collector = native.Collector(
            list(cpus), int(seconds * 1e9), threshold, ring, pause_ms * 1_000_000, fifo_priority,
            max(threshold, int(stop_above_ns * hz / 1e9)) if stop_above_ns else 0, marker, switch,
        )  # fmt: skip
        if trace and tracer is None:
            try:
                tracer = stack.enter_context(disturbance_tracer(cpus))
                refused = None
            except (UnavailableError, UsageError) as error:
                refused = str(error)
        elif tracer is not None:
            tracer.take()  # what came between two runs
            refused, lost_before = None, tracer.lost
        throttled_before, interrupts_before, busy_before = cpu_throttling(), _interrupts(), OthersBusy.look()
        own_tids, interrupted = _run(collector, seconds, stop or threading.Event(), watched=stop_above_ns > 0)
        interrupts_after, throttled_after, busy_after = _interrupts(), cpu_throttling(), OthersBusy.look()
        own_tids |= own_threads()
    raw = collector.join()
    cores = tuple(_core(one) for one in raw if one["affinity_error"] == 0)
    warnings = [
        *_refusals(raw),
        *([_INTERRUPTED] if interrupted else []),
    ]
    if not cores:
        raise UnavailableError(
            warnings[0].text, remedy="`latlab system show` lists the CPUs that are allowed"
        )
    events = None if tracer is None else tracer.take()
    stopped = next((one["cpu"] for one in raw if one["stopped"]), None)
    return MeasuredRun(
        cores,
        None if events is None else replace(events, lost=events.lost - lost_before),
        refused,
        _difference(interrupts_before, interrupts_after, cpus),
        None if throttled_after is None else throttled_after.since(throttled_before),
        _real_time(fifo_priority, raw),
        tuple(warnings),
        bool(native_clock.hypervisor()),
        kernel_hz(),
        own_tids=own_tids,
        others_busy=None if busy_before is None or busy_after is None else busy_after.since(busy_before),
        whole=not interrupted and stopped is None and not any(one["migrations"] for one in raw),
        stopped_cpu=stopped,
        trace_stopped=trace_stopped,
    )


@contextmanager
def _kernel_trace(wanted: bool) -> Iterator[tuple[int, int, str]]:
    """The kernel's trace_marker and tracing_on, open for the collector, and what a stop does to the trace."""
    if not wanted:
        yield -1, -1, ""
        return
    try:
        root = tracefs()
        running = (root / "tracing_on").read_text().strip() == "1"
        marker = os.open(root / "trace_marker", os.O_WRONLY | os.O_CLOEXEC)
    except UnavailableError as error:
        yield -1, -1, said(TraceStop.REFUSED, why=error)
        return
    except OSError as error:
        yield -1, -1, said(TraceStop.REFUSED, why=f"{error.filename}: {error.strerror}")
        return
    try:
        switch = os.open(root / "tracing_on", os.O_WRONLY | os.O_CLOEXEC)
    except OSError as error:
        os.close(marker)
        yield -1, -1, said(TraceStop.REFUSED, why=f"{error.filename}: {error.strerror}")
        return
    try:
        mounted = not root.is_relative_to("/proc")
        where = said(TraceStop.IN_FOLDER, folder=root) if mounted else said(TraceStop.IN_MOUNT)
        yield marker, switch, said(TraceStop.STOPPED, where=where) if running else said(TraceStop.WAS_OFF)
    finally:
        os.close(marker)
        os.close(switch)


def _real_time(fifo_priority: int, raw: Sequence[dict[str, Any]]) -> bool:
    """Whether the measuring threads were of a real-time class: asked for, or inherited (`chrt`)."""
    if fifo_priority > 0 and not any(one["scheduling_error"] for one in raw):
        return True
    return os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)


def _run(
    collector: native.Collector, seconds: float, stop: threading.Event, *, watched: bool
) -> tuple[frozenset[int], bool]:
    """Until it ends: our threads while the measuring ones were among them, and whether somebody stopped it.

    Args:
        watched: a gap may end it at any time, and is waited for.
    """
    collector.start()
    own = frozenset[int]()
    try:
        own = own_threads()
        while watched and not collector.finished():
            if stop.wait(_LOOKS_S):
                collector.stop()
                return own, True
        if watched:
            return own, False
        # One long sleep: a waiting loop here would be a disturbance on somebody's core.
        if stop.wait(seconds + 0.005):
            collector.stop()
            return own, True
        while not collector.finished():
            time.sleep(0.01)
    except KeyboardInterrupt:
        collector.stop()
        return own, True
    return own, False


def _counter_hz() -> float:
    first = native_clock.reference()
    time.sleep(0.005)
    second = native_clock.reference()
    return (second[0] - first[0]) * 1e9 / (second[1] - first[1])


_INTERRUPTED = JitterWarning(WarningKind.INTERRUPTED, said(JitterSaid.INTERRUPTED))


def _refusals(raw: Sequence[dict[str, Any]]) -> list[JitterWarning]:
    warnings = []
    # A line a reason and not a core: `--cpus 0-99` on two cores is one mistake.
    for key, kind, text, were in (
        ("affinity_error", WarningKind.CPU_REFUSED, JitterSaid.CPU_REFUSED, (" was", " were")),
        ("scheduling_error", WarningKind.PRIORITY_REFUSED, JitterSaid.PRIORITY_REFUSED, ("", "")),
    ):
        for error in sorted({one[key] for one in raw} - {0}):
            cpus = [one["cpu"] for one in raw if one[key] == error]
            which = f"CPU{'s' * (len(cpus) > 1)} {cpu_list(cpus)}{were[len(cpus) > 1]}"
            warnings.append(JitterWarning(kind, said(text, cpus=which, why=os.strerror(error))))
    return warnings + [
        JitterWarning(WarningKind.CPU_WENT_AWAY, said(JitterSaid.CPU_WENT_AWAY, cpu=one["cpu"]))
        for one in raw
        if one["migrations"]
    ]


def _difference(
    before: dict[int, dict[str, int]], after: dict[int, dict[str, int]], cpus: Sequence[int]
) -> dict[int, dict[str, int]]:
    return {
        cpu: {
            name: count - before.get(cpu, {}).get(name, 0)
            for name, count in after.get(cpu, {}).items()
            if count > before.get(cpu, {}).get(name, 0)
        }
        for cpu in cpus
    }


def _core(one: dict[str, Any]) -> CoreJitter:
    begin, end = one["begin"], one["end"]
    hz = (end[0] - begin[0]) * 1e9 / max(1, end[1] - begin[1])
    linear, log = one["linear"], one["log"]
    exact, coarse = np.nonzero(linear)[0], np.nonzero(log)[0]
    uppers = np.array([native.log_bin_upper(int(at)) for at in coarse], dtype=np.int64)
    values = np.concatenate([exact.astype(np.int64), np.minimum(uppers, one["max_ticks"])])
    counts = np.concatenate([linear[exact], log[coarse]]).astype(np.int64)
    length = one["gap_ticks_each"].astype(np.float64)
    start = (one["gap_end_ticks"] - np.uint64(begin[0])).astype(np.float64) - length
    return CoreJitter(
        cpu=one["cpu"],
        deltas=one["deltas"],
        wall_ticks=one["last_ticks"] - one["first_ticks"],
        pure_ticks=one["pure_ticks"],
        bridge_ticks=one["bridge_ticks"],
        gap_ticks=one["gap_ticks"],
        paused_ticks=one["paused_ticks"],
        threshold_ticks=one["threshold_ticks"],
        counter_hz=hz,
        quantum_ticks=detect_quantum(exact, linear[exact]),
        start_ns=begin[1] + int((one["first_ticks"] - begin[0]) * 1e9 / hz),
        values_ticks=values,
        counts=counts,
        outliers=one["gaps"],
        max_ticks=one["max_ticks"],
        gap_start_ns=begin[1] + start * 1e9 / hz,
        gap_each_ns=length * 1e9 / hz,
        preempted=one["gap_preempted"],
        migrations=one["migrations"],
    )
