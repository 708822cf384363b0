"""Who filled the gaps: joins each gap to what the kernel did on that core meanwhile. Pure.

Disturbances nest (a softirq runs inside of an interrupt, an interrupt inside of a thread): time belongs to
the innermost one. Entering and leaving cost time that no tracepoint covers; up to `_EDGE_NS` and once more
what is covered goes to the disturbance that filled most of the gap.

What remains is told by exclusion: where every interrupt that the core took is traced, the trace lost
nothing and the kernel did not schedule another thread, nothing of this kernel ran, so that the time went to
a layer below: the hypervisor, or the firmware where there is none. Where that can't be told it is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from latlab.model.machine.jitter import CoreJitter, Source
from latlab.system.kernel.samples import Events, name_of

__all__ = ["Attribution", "KernelDisturbance", "attribute", "below_kernel", "count_only", "disturbances"]

_EDGE_NS = 4_000.0  # interrupt entry and exit, two context switches and cold caches after them
_SLACK_NS = 300.0  # between the counter's line through the run and the kernel's clock
_PF_KTHREAD = 0x0020_0000
SOFTIRQS = ("hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu")
_KERNEL_THREADS = ("kworker/", "ksoftirqd/", "migration/", "rcu", "cpuhp/", "kcompactd", "kswapd", "jbd2/",
                   "watchdog/",
                   "kthreadd", "khugepaged", "kdamond", "irq/", "idle_inject/")  # fmt: skip
UNKNOWN = ("unknown", "hypervisor or firmware", "hypervisor, firmware or unknown")
OWN = "own"  # the kind of latlab's own threads, which don't disturb this machine without it
IDLE = ("waiting", "unknown", "idle: our thread waited, no quota counted")
HYPERVISOR = ("hypervisor", "hypervisor", "nothing ran in this kernel")
FIRMWARE = ("firmware or hardware", "firmware", "nothing ran in the kernel")
# Under a real-time class the kernel takes 50 ms of each second for others: that is not jitter of the machine.
LIMIT = ("throttling", "kernel", "real-time limit or fair server: 50 ms for others")
LIMIT_NS = (40e6, 60e6)
# What /proc/interrupts calls the interrupts that are traced (DISTURBANCES), or that are the hypervisor's own.
_TRACED = ("local timer", "rescheduling", "function call", "tlb shootdown", "irq work", "thermal event",
           "platform interrupts", "hypervisor callback")  # fmt: skip
_UNTRACED_SHARE = 0.01  # of the unexplained gaps: fewer interrupts that no trace shows can't explain them


@dataclass(frozen=True)
class KernelDisturbance:
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
        share: of all gap time, how much has a known source: joined, or below the kernel by exclusion.
        joined: of all gap time, how much was joined to what the kernel did.
        named: for each core the names of what filled each kept gap, the most time first; unknown has none.
        came: for each core when each source came (ns, CLOCK_MONOTONIC), by its name.
        filled: for each core, by the name of a source, the kept gaps that it had a part in (their indices),
            and how large that part of each was; unknown among them.
        own_ns: gap time that latlab's own threads took, left out of the sources.
        ours: for each core which kept gaps are mostly theirs.
    """

    sources: tuple[Source, ...]
    layers_ns: Mapping[str, float]
    share: float
    joined: float
    named: Mapping[int, tuple[tuple[str, ...], ...]]
    came: Mapping[int, Mapping[str, np.ndarray[Any, Any]]]
    filled: Mapping[int, Mapping[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]]
    own_ns: float
    ours: Mapping[int, np.ndarray[Any, Any]]


def is_kernel_thread(tid: int, comm: str, proc: Path = Path("/proc")) -> bool:
    """Whether a thread is the kernel's own: by its flags, or (when it is gone) by its name."""
    try:
        # The name is in parentheses and may hold some itself; the flags are the 7th word after it.
        flags = int((proc / str(tid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[6])
    except (OSError, IndexError, ValueError):
        return comm.startswith(_KERNEL_THREADS)
    return bool(flags & _PF_KTHREAD)


def disturbances(
    events: Events,
    cpu: int,
    own: str,
    end_ns: int,
    *,
    throttled: bool = True,
    own_tids: frozenset[int] = frozenset(),
) -> list[KernelDisturbance]:
    """Everything that ran on a CPU besides the threads named `own`, by start.

    Args:
        own_tids: latlab's other threads, which are of the kind `OWN`.
        throttled: a quota may have stopped us; else an idle core beside our thread has no known reason.
    """
    found = [*_threads(events, cpu, own, end_ns, throttled, own_tids)]
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


def _threads(
    events: Events, cpu: int, own: str, end_ns: int, throttled: bool, own_tids: frozenset[int]
) -> list[KernelDisturbance]:
    if "sched:sched_switch" not in events:
        return []
    rows = _on(events, "sched:sched_switch", cpu)
    ends = np.append(rows["time_ns"][1:], end_ns) if len(rows["time_ns"]) else rows["time_ns"]
    found, kernel = [], {}
    tids = rows["next_pid"].tolist()
    # Somebody else may measure here, too. In a container our numbers aren't those of the trace: then by name.
    comms = rows["next_comm"].tolist()
    spinning = {tid for tid, comm in zip(tids, comms, strict=True) if name_of(comm) == own}
    spinning = spinning & own_tids or spinning
    for start, end, tid, comm in zip(rows["time_ns"].tolist(), ends.tolist(), tids, comms, strict=True):
        name = name_of(comm)
        if tid in spinning and name == own:
            continue
        if tid == 0:
            # Our spinning thread always wants to run: an idle core beside it means that it was not let.
            what = ("throttling", "kernel", "idle: throttled, or paused")
            found.append(KernelDisturbance(start, end, *(what if throttled else IDLE)))
            continue
        if tid in own_tids:
            found.append(KernelDisturbance(start, end, OWN, "latlab", name))
            continue
        if tid not in kernel:
            kernel[tid] = is_kernel_thread(tid, name)
        layer = "kernel" if kernel[tid] else "other threads"
        found.append(KernelDisturbance(start, end, "thread", layer, name))
    return found


def _pairs(events: Events, cpu: int, name: str, group: str, event: str) -> list[KernelDisturbance]:
    entry, leave = _on(events, name, cpu), _on(events, f"{name[:-6]}_exit", cpu)
    at = np.searchsorted(leave["time_ns"], entry["time_ns"])
    found = []
    for i, start in enumerate(entry["time_ns"].tolist()):
        if at[i] >= len(leave["time_ns"]):
            continue  # the trace ended inside
        kind, layer, label = _label(group, event, entry, i)
        found.append(KernelDisturbance(start, int(leave["time_ns"][at[i]]), kind, layer, label))
    return found


def _points(events: Events, cpu: int, name: str, group: str, event: str) -> list[KernelDisturbance]:
    rows = _on(events, name, cpu)
    found = []
    for i, start in enumerate(rows["time_ns"].tolist()):
        kind, layer, label = _label(group, event.removesuffix("_entry"), rows, i)
        found.append(KernelDisturbance(start, start + 1, kind, layer, label))
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
            f"{name_of(rows['name'][i])} (irq {int(rows['irq'][i])})",
        )
    return "interrupt", "hardware" if "thermal" in event else "kernel", event


def below_kernel(
    interrupts: Mapping[str, int], unexplained: int, *, hypervisor: bool
) -> tuple[str, str, str]:
    """What gaps are in which nothing of this kernel was seen.

    Args:
        interrupts: how often each line of /proc/interrupts counted up on the core.
        unexplained: the number of those gaps.
        hypervisor: whether there is one.
    """
    numbered = {name: count for name, count in interrupts.items() if not _is_device(name)}
    unseen = sum(count for name, count in numbered.items() if not name.lower().startswith(_TRACED))
    if unseen > _UNTRACED_SHARE * unexplained:
        return UNKNOWN
    return HYPERVISOR if hypervisor else FIRMWARE


def _is_device(line: str) -> bool:
    """Whether it is a device's line (its chip comes first): the irq tracepoints show those."""
    return any(word in line for word in ("-edge", "-fasteoi", "-level", "MSI", "IO-APIC", "GIC"))


def attribute(
    cores: Sequence[CoreJitter],
    events: Events,
    own: str,
    seconds: float,
    *,
    interrupts: Mapping[int, Mapping[str, int]] | None = None,
    hypervisor: bool = False,
    real_time: bool = False,
    throttled: bool = True,
    own_tids: frozenset[int] = frozenset(),
) -> Attribution:
    """Join every kept gap of every core to its disturbances.

    Args:
        interrupts: how often each line of /proc/interrupts counted up on each core; None: not known, and
            nothing is told by exclusion.
        hypervisor: whether there is one.
        real_time: whether the measuring threads were of a real-time class: their gaps of about 50 ms are the
            kernel's limit, whoever ran in them.
        throttled: whether a quota may have stopped us.
        own_tids: latlab's own threads.
    """
    sources: list[Source] = []
    layers: dict[str, float] = defaultdict(float)
    named: dict[int, tuple[tuple[str, ...], ...]] = {}
    came: dict[int, dict[str, np.ndarray[Any, Any]]] = {}
    parts: dict[int, dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]] = {}
    ours: dict[int, np.ndarray[Any, Any]] = {}
    known = joined = whole = own_ns = 0.0
    for core in cores:
        end = core.start_ns + int(core.ns(core.wall_ticks)) + 1
        ran = disturbances(events, core.cpu, own, end, throttled=throttled, own_tids=own_tids)
        filled = _filled(core, ran)
        rest = UNKNOWN
        if interrupts is not None and core.cpu in interrupts and not events.lost:
            unexplained = sum(not any(key != UNKNOWN for key in one) for one in filled)
            rest = below_kernel(interrupts[core.cpu], unexplained, hypervisor=hypervisor)
        totals: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        times: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        ran_each: dict[tuple[str, str, str], float] = defaultdict(float)
        gaps_each: dict[tuple[str, str, str], float] = defaultdict(float)
        ours[core.cpu] = np.zeros(len(core.gap_each_ns), dtype=bool)
        names = []
        part: dict[str, tuple[list[int], list[float]]] = defaultdict(lambda: ([], []))
        rows = zip(filled, core.gap_each_ns.tolist(), core.preempted, strict=True)
        for gap, (one, length, preempted) in enumerate(rows):
            whole += length
            if real_time and LIMIT_NS[0] < length < LIMIT_NS[1] and UNKNOWN not in one:
                first = min(min(starts) for _, starts, _ in one.values())
                one = {LIMIT: (length, [first], 0.0)}
            # The kernel scheduled something in the whole gap, and no event says what: not below the kernel.
            hidden = preempted == 1 and len(one) == 1 and UNKNOWN in one
            order = sorted(one, key=lambda key: one[key][0], reverse=True)
            seen = [key for key in order if key[0] != OWN]
            if rest == UNKNOWN or hidden:
                seen = [key for key in seen if key != UNKNOWN]
            names.append(tuple((rest if key == UNKNOWN else key)[2] for key in seen))
            ours[core.cpu][gap] = sum(ns for key, (ns, _, _) in one.items() if key[0] == OWN) > length / 2
            gaps_each[rest if order[0] == UNKNOWN and not hidden else order[0]] += length
            for key, (ns, starts, ran_ns) in one.items():
                if key[0] == OWN:
                    own_ns, known, joined = own_ns + ns, known + ns, joined + ns
                    continue
                label = rest if key == UNKNOWN and not hidden else key
                ran_each[label] += ran_ns
                totals[label].append(ns)
                times[label] += starts
                layers[label[1]] += ns
                if key[0] != "fault":
                    part[label[2]][0].append(gap)
                    part[label[2]][1].append(ns / length if length > 0 else 0.0)
                known += 0.0 if label == UNKNOWN else ns
                joined += 0.0 if key == UNKNOWN else ns
        named[core.cpu] = tuple(names)
        parts[core.cpu] = {name: (np.array(gaps), np.array(share)) for name, (gaps, share) in part.items()}
        for label, each in totals.items():
            count = len(times[label])
            own_time = (gaps_each[label], None if label in (UNKNOWN, rest) else ran_each[label])
            sources.append(Source(*label, core.cpu, count, sum(each), max(each), count / seconds, *own_time))
        # A fault is what a thread does: the thread keeps the beat.
        came[core.cpu] = {
            key[2]: np.array(each) for key, each in times.items() if key != UNKNOWN and key[0] != "fault"
        }
    sources.sort(key=lambda one: -(one.total_ns or 0.0))
    shares = (known / whole, joined / whole) if whole else (1.0, 1.0)
    return Attribution(tuple(sources), dict(layers), *shares, named, came, parts, own_ns, ours)


def _filled(
    core: CoreJitter, ran: Sequence[KernelDisturbance]
) -> list[dict[tuple[str, str, str], tuple[float, list[float], float]]]:
    """For each kept gap how its time divides, when each source came in it, and how long it ran itself."""
    starts = np.array([one.start_ns for one in ran], dtype=np.float64)
    # A disturbance may have begun long before: look back to the first that still ran.
    ends = np.array([one.end_ns for one in ran], dtype=np.float64)
    reach = np.maximum.accumulate(ends) if ran else starts
    low = np.searchsorted(reach, core.gap_start_ns - _SLACK_NS)
    high = np.searchsorted(starts, core.gap_start_ns + core.gap_each_ns + _SLACK_NS)
    gaps = zip(
        core.gap_start_ns.tolist(), core.gap_each_ns.tolist(), low.tolist(), high.tolist(), strict=True
    )
    return [_fill(start, length, ran[first:last]) for start, length, first, last in gaps]


def _fill(
    start: float, length: float, ran: Sequence[KernelDisturbance]
) -> dict[tuple[str, str, str], tuple[float, list[float], float]]:
    """How the time of one gap divides (the times sum to its length).

    And when each source came in it, and how long it ran there itself, without the edges.
    """
    end = start + length
    shares: dict[tuple[str, str, str], float] = defaultdict(float)
    came: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    edges = sorted(
        {start, end, *(t for one in ran for t in (float(one.start_ns), float(one.end_ns)) if start < t < end)}
    )
    inside = [one for one in ran if one.end_ns >= start - _SLACK_NS and one.start_ns <= end + _SLACK_NS]
    for one in inside:
        shares[one.kind, one.layer, one.name] += 0.0
        came[one.kind, one.layer, one.name].append(float(one.start_ns))
    covered = 0.0
    # `inside` is by start: of those that are open the last one is the innermost. An ended one is dropped
    # when it comes to the top: a gap may hold thousands of page faults.
    opened: list[KernelDisturbance] = []
    following = 0
    for low, high in pairwise(edges):
        while following < len(inside) and inside[following].start_ns <= low:
            opened.append(inside[following])
            following += 1
        while opened and opened[-1].end_ns < high:
            opened.pop()
        if opened:
            one = opened[-1]
            shares[one.kind, one.layer, one.name] += high - low
            covered += high - low
    ran_ns = dict(shares)
    rest = length - covered
    if shares and rest > 0:
        best = max(shares, key=lambda key: shares[key])
        edge = min(rest, _EDGE_NS + covered)
        shares[best] += edge
        rest -= edge
    if rest > 0:
        shares[UNKNOWN] += rest
        came[UNKNOWN].append(start)
    return {key: (ns, came[key], ran_ns.get(key, 0.0)) for key, ns in shares.items() if ns > 0}


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
