"""What limited a run, and why its figures may not be trusted: pure, from what was measured.

A part is saturated when its busiest thread used nearly a whole core while it worked. Threads that poll always
do, so of a polling run through a ring the fill of the ring is taken instead: by Little's law (Operations
Research 9 (1961)) as many messages are under way on average as the throughput times the mean latency.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab.messaging.judging.periods import find_period
from latlab.model.messaging.results import SATURATED, Doubt, Limiting, Measurement, RunVerdict

__all__ = ["cause_of", "judge"]

Integers = npt.NDArray[np.int64]
_SHORTEST_NS = 30_000_000  # the scheduler's own counts of a running thread are a tick old: 4 ms at 250 Hz
_OTHERS_SHORTEST_NS = 100_000_000  # the machine's counts come in steps of 10 ms
# Others took so much of one CPU at least, and we waited for CPUs for so much of the run or of the latency.
_TAKEN, _HARM = 0.2, 0.1
# ... or for less of the run, where the same share of the messages took this multiple of the median.
_TOUCHED, _LATE = 0.02, 3.0
_CROWDED = 0.5  # of the whole machine, used by others: no figure is our own
_THROTTLED = 0.01  # of the run
_STANDS_NS = 1_000_000_000  # between two looks, which are 50 to 100 ms apart
_BACKLOG = 0.02  # of the time, by which latencies have grown
_LAG_NS = 5_000_000


def judge(
    m: Measurement,
    *,
    numbers: Integers,
    waited: Integers,
    due: Integers,
    stability: str,
    clock_steps: int,
) -> RunVerdict:
    """The verdict on a run.

    Args:
        numbers: of the measured messages that arrived.
        waited: their latencies, from the intended time where there is one, ns.
        due: when each was due, or sent, ns.
        stability: of these latencies.
        clock_steps: time stamps that run backwards.
    """
    spans = _spans(m)
    shares = _shares(m, spans)
    limiting = _limit(m, spans, shares, waited, stability)
    return RunVerdict(
        limiting=limiting[0],
        parts=limiting[1],
        shares=shares,
        why=limiting[2] if len(limiting) > 2 else "",
        doubts=_doubts(m, waited, due, stability, clock_steps),
        # Of several that take turns, the slow one's messages have a period.
        period=find_period(numbers, waited, due) if m.settings.senders + m.settings.receivers == 2 else None,
    )


def _spans(m: Measurement) -> dict[str, int]:
    """From the first message to the last, as the sender, the receiver and both saw it; ns."""
    sent, received = m.sent_ns[m.sent_ns >= 0], m.received_ns[m.received_ns >= 0]
    if sent.size < 2 or received.size < 2:
        return {"sender": 0, "receiver": 0, "all": 0}
    first, last = int(sent.min()), int(received.max())
    if m.settings.topology == "pingpong":
        return dict.fromkeys(("sender", "receiver", "all"), last - first)
    return {
        "sender": int(sent.max()) - first,
        # A receiver waits for what was sent before it began to count.
        "receiver": last - first,
        "all": last - first,
    }


def _shares(m: Measurement, spans: Mapping[str, int]) -> dict[str, float]:
    found = {}
    for name in ("sender", "broker", "receiver", "library"):
        part = m.parts.get(name)
        span = spans.get(name, spans["all"])
        if part is None or span < _SHORTEST_NS:
            continue
        used = part.busiest_ns
        several = {"sender": m.settings.senders, "receiver": m.settings.receivers}.get(name, 1) > 1
        if m.facts.loop == "python" and name in ("sender", "receiver") and not several:
            # One lock for all threads of an interpreter: together they have one core.
            used = max(used, {"sender": m.sender, "receiver": m.receiver}[name].cpu_ns)
        found[name] = min(1.0, used / span)
    return found


_Limit = tuple[Limiting, tuple[str, ...]] | tuple[Limiting, tuple[str, ...], str]


def _limit(
    m: Measurement, spans: Mapping[str, int], shares: dict[str, float], waited: Integers, stability: str
) -> _Limit:
    s, span = m.settings, spans["all"]
    if s.topology == "pingpong":
        return Limiting.ROUND_TRIP, ()
    if span < _SHORTEST_NS or not m.parts or waited.size < 100:
        return Limiting.UNKNOWN, (), "short"
    stopped = [one for one in m.throttled if one.time_ns > 0.05 * span]
    if m.intended_ns is not None and not _behind(m) and stability != "rising":
        # What a paced sender spins until a message is due is no work.
        shares.pop("sender", None)
        if m.wait == "poll":
            shares.clear()
        return Limiting.NOTHING, tuple(sorted(shares, key=lambda name: -shares[name])[:1])
    if stopped:
        return Limiting.QUOTA, tuple(one.who for one in stopped)
    if m.intended_ns is not None and not _behind(m):
        shares.pop("sender", None)  # it kept to its schedule: whatever limits stands behind it
    if m.wait == "poll":
        full = _by_fill(m, span, waited)
        shares.clear()
        return (Limiting.UNKNOWN, (), "poll") if full is None else (Limiting.PART, (full,))
    busy = tuple(name for name, share in shares.items() if share >= SATURATED)
    if busy:
        return Limiting.PART, busy
    if wanting := _wanting(m, spans, shares):
        return Limiting.PART, wanting
    shared = _shared_core(m, shares)
    if shared:
        return Limiting.CORE, shared
    used = m.process_cpu_ns + (m.foreign_cpu_ns or 0) + m.stolen_ns
    if m.cpus and used >= SATURATED * m.cpus * max(span, m.elapsed_ns):
        return Limiting.MACHINE, ()
    if s.network == "namespace" or (_has_broker(m) and "broker" not in m.parts):
        return Limiting.ELSEWHERE, ("line",) if s.network == "namespace" else ("broker",)
    if shares and max(shares.values()) > 0.75:
        return Limiting.UNKNOWN, (), "unsure"
    return Limiting.ASLEEP, ()


def _wanting(m: Measurement, spans: Mapping[str, int], shares: Mapping[str, float]) -> tuple[str, ...]:
    """The one part that always ran or wanted to, and ran much more than every other; none where none did."""
    if not shares or m.settings.senders + m.settings.receivers > 2:  # what several waited for is one sum
        return ()
    first, *others = sorted(shares, key=lambda name: -shares[name])
    part, span = m.parts[first], spans.get(first, spans["all"])
    always = part.busiest_ns + part.waited_ns >= SATURATED * span
    alone = all(shares[first] >= 3 * shares[other] for other in others)
    return (first,) if always and alone and shares[first] >= 0.3 else ()


def _has_broker(m: Measurement) -> bool:
    s = m.settings
    return s.broker is not None or s.connect is not None or m.facts.broker is not None


def _behind(m: Measurement) -> bool:
    """Whether the sender itself did not keep to its schedule, and fell back further and further."""
    if m.intended_ns is None:
        return False
    lag = (m.sent_ns - m.intended_ns)[m.sent_ns >= 0]
    if lag.size < 100:
        return False
    part = lag.size // 5
    end, middle = float(np.median(lag[-part:])), float(np.median(lag[2 * part : 3 * part]))
    return end > _LAG_NS and end > 1.3 * max(middle, 1.0)


def _by_fill(m: Measurement, span: int, waited: Integers) -> str | None:
    """Of a polling run through rings, which part limits by how full they are; None where it isn't clear."""
    if m.facts.name not in ("ring", "shm"):
        return None
    stride = -(-m.settings.size // 64) * 64
    slots = max(2, (m.settings.buffer_bytes or max(2 * stride, 65_536)) // stride)
    if slots < 16 or m.settings.batch > slots // 8:
        return None
    latency = (m.received_ns - m.sent_ns)[(m.received_ns >= 0) & (m.sent_ns >= 0)]
    under_way = float(np.mean(latency)) * latency.size / max(span, 1) / slots
    if m.settings.topology == "direct":
        return "receiver" if under_way > 0.5 else "sender" if under_way < 0.1 else None
    if under_way > 1.5:
        return "receiver"
    if 0.6 < under_way < 1.1:
        return "broker"
    return "sender" if under_way < 0.1 else None


def _shared_core(m: Measurement, shares: Mapping[str, float]) -> tuple[str, ...]:
    by_core: dict[int, list[str]] = {}
    for name in shares:
        cpu = m.parts[name].cpu
        if cpu >= 0:
            by_core.setdefault(cpu, []).append(name)
    for names in by_core.values():
        if len(names) > 1 and sum(shares[name] for name in names) >= SATURATED:
            return tuple(names)
    return ()


def _doubts(
    m: Measurement, waited: Integers, due: Integers, stability: str, clock_steps: int
) -> tuple[Doubt, ...]:
    found = []
    if clock_steps:
        found.append(Doubt("clock", float(clock_steps)))
    if not waited.size:
        return (*found, Doubt("nothing"))
    found += (taken := disturbed(m, waited))
    kinds = {one.kind for one in taken}
    if stability == "rising" and m.intended_ns is not None and "standstill" not in kinds:
        found += [Doubt("rising")] if not kinds or _backlog(waited, due) else []
    return tuple(found)


def _backlog(waited: Integers, due: Integers) -> bool:
    """Whether latencies grow by as much of the time as others that take CPUs hardly make them."""
    part = max(1, waited.size // 10)
    grown = float(np.median(waited[-part:])) - float(np.median(waited[:part]))
    return grown > _BACKLOG * float(due[-1] - due[0])


def disturbed(m: Measurement, waited: Integers) -> list[Doubt]:
    """What took CPUs from the run: others, the hypervisor, a quota, or who stopped it.

    Args:
        waited: as for `judge`.
    """
    span = _spans(m)["all"]
    found = _taken(m, span, waited)
    if gaps := _standstills(m):
        found.append(Doubt("standstill", sum(end - begin for begin, end in gaps) / 1e9))
    for one in m.throttled:
        if span > 0 and one.time_ns > _THROTTLED * span:
            found.append(Doubt("quota", one.time_ns / max(m.elapsed_ns, span), one.who))
    return found


def _standstills(m: Measurement) -> list[tuple[int, int]]:
    """When nobody looked and no message was sent or received: the whole run was stopped, or the machine."""
    at = np.asarray(m.looks.get("at_ns", ()), dtype=np.int64)
    if at.size < 3:
        return []
    found = []
    for i in np.flatnonzero(np.diff(at) > _STANDS_NS).tolist():
        begin, end = int(at[i]), int(at[i + 1])
        inside = begin + (end - begin) // 4, end - (end - begin) // 4
        if not any(
            np.any((stamps > inside[0]) & (stamps < inside[1])) for stamps in (m.sent_ns, m.received_ns)
        ):
            found.append((begin, end))
    return found


def _taken(m: Measurement, span: int, waited: Integers) -> list[Doubt]:
    """CPU that others used and that we waited for."""
    elapsed = m.elapsed_ns
    if m.foreign_cpu_ns is None or elapsed < _OTHERS_SHORTEST_NS:
        return []
    others, stolen = m.foreign_cpu_ns / elapsed, m.stolen_ns / elapsed
    kind, amount = ("hypervisor", stolen) if stolen > others else ("others", others)
    cpus = m.cpus or os.cpu_count() or 1
    if others + stolen >= _CROWDED * cpus:
        return [Doubt(kind, amount)]
    if others + stolen < _TAKEN:
        return []
    # We can have waited for others no longer than they ran; the rest was for one another.
    most = int((others + stolen) * elapsed)
    # What a sender waited for between two messages harmed none.
    lag = 0 if m.intended_ns is None else _under_way(m.intended_ns, m.sent_ns)
    waits = {name: part.waited_ns for name, part in m.parts.items()}
    if m.intended_ns is not None and "sender" in waits:
        waits["sender"] = min(waits["sender"], lag)
    lost = min(max(waits.values(), default=0), most)
    # By time, and not by message: of many messages each one that waits has the whole wait in its latency.
    whole = span if m.intended_ns is None else _under_way(m.intended_ns, m.received_ns)
    harmed = lost >= _HARM * max(whole, 1.0)
    if m.intended_ns is not None and lost >= _TOUCHED * span:  # at high rates one is always under way
        harmed |= float(np.mean(waited > _LATE * max(float(np.median(waited)), 1.0))) >= _TOUCHED
    return [Doubt(kind, amount)] if harmed else []


def _under_way(begin: Integers, end: Integers) -> int:
    """For how long at least one message had begun and not ended, ns."""
    there = end >= 0
    first, last = begin[there], end[there]
    if not first.size:
        return 0
    order = np.argsort(first, kind="stable")
    first, last = first[order], last[order]
    until = np.maximum.accumulate(last)
    # Each message adds what it is under way after all before it have ended.
    since = np.maximum(first, np.concatenate([first[:1], until[:-1]]))
    return int(np.maximum(last - since, 0).sum())


def cause_of(m: Measurement, begin: int, end: int, sent: int) -> str | None:
    """What explains a message that was due at `begin`, sent at `sent` and received at `end`; all in ns.

    What is known by looks every 50 to 100 ms has to cover half of the time; without a sure cause: None.
    """
    took = end - begin
    for _, start, stop in m.stalls_ns:
        if min(end, stop) - max(begin, start) >= 0.5 * took:
            return "planted stall"
    if any(min(end, stop) - max(begin, start) >= 0.5 * took for start, stop in _standstills(m)):
        return "standstill"
    looks: dict[str, Any] = {name: np.asarray(values) for name, values in m.looks.items()}
    if took >= 1_000_000 and looks.get("at_ns", np.zeros(0)).size >= 2:
        at = looks["at_ns"]
        first = max(0, int(np.searchsorted(at, begin, side="right")) - 1)
        last = min(at.size - 1, int(np.searchsorted(at, end, side="left")))
        if last > first:
            if looks["stopped"][first : last + 1].any() and took >= 100_000_000:
                return "stopped"
            if looks["throttled"][last] - looks["throttled"][first] >= 0.5 * took:
                return "quota"
            # A window that is much longer than the stall holds waits of other messages, too.
            window = int(at[last] - at[first])
            # A sender without a CPU sends late; it has no part in what happens after the message was sent.
            late = sent - begin >= 0.5 * took
            if took >= 0.02 * window:
                for name in ("sender", "broker", "receiver", "library"):
                    if name not in looks or (name == "sender" and not late):
                        continue
                    grown = int(looks[name][last] - looks[name][first])
                    usual = _usual(at, looks[name], first, last)
                    if 0.5 * took + usual <= grown <= max(3 * took, 0.5 * window) + usual:
                        return name
    if sent - begin >= 0.5 * took and took >= 100_000:
        return "sender late"
    return None


def _usual(at: Any, waited: Any, first: int, last: int) -> float:
    """What a part waits for a CPU in windows as long as that of the looks `first` to `last`, which doesn't
    count: on a machine that others use it always waits. The upper quartile, ns."""
    window = int(at[last] - at[first])
    ends = np.searchsorted(at, at + window)
    begins = np.flatnonzero(ends < at.size)
    ends = ends[begins]
    apart = (ends <= first) | (begins >= last)
    if np.count_nonzero(apart) >= 4:
        return float(np.quantile(waited[ends[apart]] - waited[begins[apart]], 0.75))
    outside = int(at[-1] - at[0]) - window
    rest = int(waited[-1] - waited[0]) - int(waited[last] - waited[first])
    return rest / outside * window if outside > 0 else 0.0
