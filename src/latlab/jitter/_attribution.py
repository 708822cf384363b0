"""Who filled the gaps: joins each gap to what the kernel did on that core meanwhile. Pure.

Disturbances nest (a softirq runs inside of an interrupt, an interrupt inside of a thread): time belongs to
the innermost
one. Entering and leaving cost time that no tracepoint covers; up to `_EDGE_NS` and once more what is
covered goes to the
disturbance that filled most of the gap. What remains is labelled hypervisor, firmware or unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from latlab.model.jitter import CoreJitter, Source
from latlab.system.tracing import Events

__all__ = ["Attribution", "Disturbance", "attribute", "count_only", "disturbances"]

_EDGE_NS = 4_000.0  # interrupt entry and exit, two context switches and cold caches after them
_SLACK_NS = 300.0  # between the counter's line through the run and the kernel's clock
SOFTIRQS = ("hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu")
_KERNEL_THREADS = ("kworker/", "ksoftirqd/", "migration/", "rcu", "cpuhp/", "kcompactd", "kswapd", "jbd2/",
                   "watchdog/",
                   "kthreadd", "khugepaged", "kdamond", "irq/", "idle_inject/")  # fmt: skip
UNKNOWN = ("unknown", "hypervisor or firmware", "hypervisor, firmware or unknown")


@dataclass(frozen=True)
class Disturbance:
    """Something that ran on a core between two times (ns, CLOCK_MONOTONIC)."""

    start_ns: int
    end_ns: int
    kind: str
    layer: str
    name: str


@dataclass(frozen=True)
class Attribution:
    """The joined sources.

    Attributes:
        share: of all gap time, how much has a known source.
        main: for each core the main source's name of each kept gap, "" where it is unknown.
    """

    sources: tuple[Source, ...]
    layers_ns: Mapping[str, float]
    share: float
    main: Mapping[int, tuple[str, ...]]


def is_kernel_thread(tid: int, comm: str, proc: Path = Path("/proc")) -> bool:
    """Whether a thread is the kernel's own: no memory map.

    Or (when it is gone) a name that only those have.
    """
    try:
        return (proc / str(tid) / "statm").read_text().split()[0] == "0"
    except (OSError, IndexError):
        return comm.startswith(_KERNEL_THREADS)


def disturbances(events: Events, cpu: int, own: str, end_ns: int) -> list[Disturbance]:
    """Everything that ran on a CPU besides the threads named `own`, by start."""
    found = [*_threads(events, cpu, own, end_ns)]
    for name in events.tables:
        group, _, event = name.partition(":")
        if event.endswith("_entry") and f"{name[:-6]}_exit" in events:
            found += _pairs(events, cpu, name, group, event[:-6])
        elif event.endswith("_entry") or group == "exceptions":
            found += _points(events, cpu, name, group, event)
    return sorted(found, key=lambda one: (one.start_ns, -one.end_ns))


def _on(events: Events, name: str, cpu: int) -> dict[str, Any]:
    table = events[name]
    rows = table["cpu"] == cpu
    return {key: value[rows] for key, value in table.columns.items()}


def _threads(events: Events, cpu: int, own: str, end_ns: int) -> list[Disturbance]:
    if "sched:sched_switch" not in events:
        return []
    rows = _on(events, "sched:sched_switch", cpu)
    ends = np.append(rows["time_ns"][1:], end_ns) if len(rows["time_ns"]) else rows["time_ns"]
    found, kernel = [], {}
    for start, end, tid, comm in zip(
        rows["time_ns"].tolist(),
        ends.tolist(),
        rows["next_pid"].tolist(),
        rows["next_comm"].tolist(),
        strict=True,
    ):
        name = comm.decode(errors="replace")
        if name == own:
            continue
        if tid == 0:
            # Our spinning thread always wants to run: an idle core beside it means that it was not let.
            found.append(Disturbance(start, end, "throttling", "kernel", "idle: throttled, or paused"))
            continue
        if tid not in kernel:
            kernel[tid] = is_kernel_thread(tid, name)
        layer = "kernel" if kernel[tid] else "other threads"
        found.append(Disturbance(start, end, "thread", layer, name))
    return found


def _pairs(events: Events, cpu: int, name: str, group: str, event: str) -> list[Disturbance]:
    entry, leave = _on(events, name, cpu), _on(events, f"{name[:-6]}_exit", cpu)
    at = np.searchsorted(leave["time_ns"], entry["time_ns"])
    found = []
    for i, start in enumerate(entry["time_ns"].tolist()):
        if at[i] >= len(leave["time_ns"]):
            continue  # the trace ended inside
        kind, layer, label = _label(group, event, entry, i)
        found.append(Disturbance(start, int(leave["time_ns"][at[i]]), kind, layer, label))
    return found


def _points(events: Events, cpu: int, name: str, group: str, event: str) -> list[Disturbance]:
    rows = _on(events, name, cpu)
    found = []
    for i, start in enumerate(rows["time_ns"].tolist()):
        kind, layer, label = _label(group, event.removesuffix("_entry"), rows, i)
        found.append(Disturbance(start, start + 1, kind, layer, label))
    return found


def _label(group: str, event: str, rows: Mapping[str, Any], i: int) -> tuple[str, str, str]:
    if group == "exceptions":
        return "fault", "kernel", event
    if event == "softirq":
        vector = int(rows["vec"][i])
        return "softirq", "kernel", SOFTIRQS[vector] if vector < len(SOFTIRQS) else f"softirq {vector}"
    if event == "irq_handler":
        return (
            "interrupt",
            "hardware",
            f"{rows['name'][i].decode(errors='replace')} (irq {int(rows['irq'][i])})",
        )
    return "interrupt", "hardware" if "thermal" in event else "kernel", event


def attribute(cores: Sequence[CoreJitter], events: Events, own: str, seconds: float) -> Attribution:
    """Join every kept gap of every core to its disturbances."""
    sources: list[Source] = []
    layers: dict[str, float] = defaultdict(float)
    main: dict[int, tuple[str, ...]] = {}
    known = whole = 0.0
    for core in cores:
        end = core.start_ns + int(core.ns(core.wall_ticks)) + 1
        ran = disturbances(events, core.cpu, own, end)
        starts = np.array([one.start_ns for one in ran], dtype=np.float64)
        # A disturbance may have begun long before: look back to the first that still ran.
        reach = (
            np.maximum.accumulate(np.array([one.end_ns for one in ran], dtype=np.float64)) if ran else starts
        )
        totals: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        names = []
        for start, length in zip(core.gap_start_ns.tolist(), core.gap_each_ns.tolist(), strict=True):
            low = int(np.searchsorted(reach, start - _SLACK_NS))
            high = int(np.searchsorted(starts, start + length + _SLACK_NS))
            shares = _fill(start, length, ran[low:high])
            best = max(shares, key=lambda key: shares[key], default=UNKNOWN)
            names.append("" if best == UNKNOWN else best[2])
            whole += length
            for key, ns in shares.items():
                totals[key].append(ns)
                layers[key[1]] += ns
                known += 0.0 if key == UNKNOWN else ns
        main[core.cpu] = tuple(names)
        for (kind, layer, name), each in totals.items():
            sources.append(
                Source(kind, layer, name, core.cpu, len(each), sum(each), max(each), len(each) / seconds)
            )
    sources.sort(key=lambda one: -(one.total_ns or 0.0))
    return Attribution(tuple(sources), dict(layers), known / whole if whole else 1.0, main)


def _fill(start: float, length: float, ran: Sequence[Disturbance]) -> dict[tuple[str, str, str], float]:
    """How the time of one gap divides; the values sum to its length."""
    end = start + length
    shares: dict[tuple[str, str, str], float] = defaultdict(float)
    edges = sorted(
        {start, end, *(t for one in ran for t in (float(one.start_ns), float(one.end_ns)) if start < t < end)}
    )
    inside = [one for one in ran if one.end_ns >= start - _SLACK_NS and one.start_ns <= end + _SLACK_NS]
    for one in inside:
        shares[one.kind, one.layer, one.name] += 0.0
    covered = 0.0
    for low, high in pairwise(edges):
        # `inside` is by start: the last one that is open is the innermost.
        for one in reversed(inside):
            if one.start_ns <= low and one.end_ns >= high:
                shares[one.kind, one.layer, one.name] += high - low
                covered += high - low
                break
    rest = length - covered
    if shares and rest > 0:
        best = max(shares, key=lambda key: shares[key])
        edge = min(rest, _EDGE_NS + covered)
        shares[best] += edge
        rest -= edge
    if rest > 0:
        shares[UNKNOWN] += rest
    return {key: ns for key, ns in shares.items() if ns > 0}


def count_only(
    cores: Sequence[CoreJitter], interrupts: Mapping[int, Mapping[str, int]], seconds: float
) -> tuple[tuple[Source, ...], dict[str, float]]:
    """Without tracing: the flag of preemption tells threads from the rest.

    And interrupts can only be counted.
    """
    sources = []
    layers: dict[str, float] = defaultdict(float)
    for core in cores:
        labels = {1: ("preemption", "other threads", "preempted by another thread"), 0: UNKNOWN, 2: UNKNOWN}
        for label in dict.fromkeys(labels.values()):
            rows = np.isin(core.preempted, [flag for flag, of in labels.items() if of == label])
            each = core.gap_each_ns[rows]
            if len(each):
                kind, layer, name = label
                if kind == "unknown":
                    name, layer = "interrupt, hypervisor, firmware or unknown", "kernel or below"
                total = float(each.sum())
                layers[layer] += total
                sources.append(
                    Source(
                        kind, layer, name, core.cpu, len(each), total, float(each.max()), len(each) / seconds
                    )
                )
        for name, count in interrupts.get(core.cpu, {}).items():
            sources.append(Source("interrupt", "kernel", name, core.cpu, count, None, None, count / seconds))
    sources.sort(key=lambda one: (-(one.total_ns or 0.0), -one.count))
    return tuple(sources), dict(layers)
