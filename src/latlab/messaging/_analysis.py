"""From a measurement to its meaning: pure, and after the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab.messaging._summaries import CountedSeries, counted, summarise, summarise_rates
from latlab.messaging.judging.humps import hides_a_rare_way, humps_of
from latlab.messaging.judging.stability import stability
from latlab.messaging.judging.verdict import cause_of, judge
from latlab.messaging.running.schedule import sizes_of
from latlab.model.messaging.results import Counter, Cpu, Measurement, Peak, ReceiverGroup, Result, Throughput
from latlab.model.statistics.summary import Summary
from latlab.stats.quantiles import rank
from latlab.words import duration

__all__ = ["analyse", "latencies", "overheads"]

Integers = npt.NDArray[np.int64]


def latencies(m: Measurement) -> tuple[Integers, Integers]:
    """L_n = I_n - O_n of the measured messages that arrived: (n, L), n counted after the warm-up."""
    sent, received = m.sent_ns[m.settings.warmup :], m.received_ns[m.settings.warmup :]
    if sent.size and received.min() >= 0 and sent.min() >= 0:
        return np.arange(sent.size), received - sent
    arrived = np.flatnonzero((received >= 0) & (sent >= 0))
    return arrived, received[arrived] - sent[arrived]


def overheads(at: Integers, window: int) -> Integers:
    """at_n - at_{n-M}: M times the overhead, an integer; empty for the first M messages."""
    return at[window:] - at[:-window] if 0 < window < at.size else at[:0]


def _in_flight(m: Measurement) -> int:
    """Of a run that broke off, the messages that were sent after the last one that arrived."""
    if m.partial is None:
        return 0
    sent, received = m.sent_ns[m.settings.warmup :], m.received_ns[m.settings.warmup :]
    behind = 1 + int(np.flatnonzero(received >= 0).max(initial=-1))
    return int(np.count_nonzero(sent[behind:] >= 0))


def analyse(m: Measurement, *, shapes: bool = True) -> Result:
    """Everything that the run says. Shapes and units are those of the model.

    Args:
        shapes: whether humps are looked for, which takes longer than all else; none without.
    """
    s = m.settings
    numbers, latency = latencies(m)
    if s.half:
        latency = latency // 2
    spread = counted(latency)
    count = int(np.count_nonzero(m.sent_ns[s.warmup :] >= 0)) if m.sender.count < s.total else s.messages
    notes = list(m.notes)
    sizes = sizes_of(s)
    each = s.size if sizes is None else float(sizes[s.warmup :].mean())
    due = None if m.intended_ns is None else m.intended_ns[s.warmup :]
    sent, received = m.sent_ns[s.warmup :], m.received_ns[s.warmup :]
    complete = numbers.size == sent.size
    sent_of = sent if complete else sent[numbers]
    received_of = received if complete else received[numbers]
    sent_order = sent if m.sender.count >= s.total else sent[sent >= 0]
    if s.senders > 1:  # each has a clock of its own to wait for
        sent_order = np.sort(sent_order)
    if s.window >= max(count, 1):
        notes.append(
            f"the window M = {s.window} is not smaller than the {count} messages: overheads are undefined"
        )
    whole = latency if not s.half else received_of - sent_of
    in_order = np.argsort(sent_of, kind="stable") if s.senders > 1 else slice(None)
    rising, falling, violations, steps = _steps(sent_of[in_order], received_of[in_order], whole[in_order])
    if steps:
        notes.append(f"{steps} time stamps run backwards: the clock stepped or the cores' clocks differ")
    straight = m.receiver.reordered == 0 and s.senders == s.receivers == 1
    received_order = received_of if straight else np.sort(received_of)
    apart = [counted(at[s.window :], at[: -s.window]) if s.window < at.size else None
             for at in (sent_order, received_order)]  # fmt: skip
    intended, waited = None, latency
    if due is not None:
        # A sender that is held up hides the queue from its own latency; the intended one shows it.
        waited = received_of - (due if complete else due[numbers])
        intended = summarise(waited)
    due_of = sent_of if due is None else due if complete else due[numbers]
    harness = m.harness_ns[0] + m.harness_ns[1]
    summary = summarise(spread)
    near = summary is not None and summary.median <= 3 * harness
    if near:
        notes.append(f"the median is within 3 x the harness's own {duration(harness)}")
    steadiness, drift = stability(sent_of, waited)
    verdict = judge(m, numbers=numbers, waited=waited, due=due_of, stability=steadiness, clock_steps=steps)
    humps, p_value, too_few = humps_of(waited, m.harness_ns[2]) if shapes else ((), None, False)
    kernel = _kernel(m, numbers, sent_of, received_of)
    confirmed, unconfirmed = _confirmed(m)
    if s.groups > 1:
        notes.append(f"a message is received when the last of {s.groups} groups has it")
    flying = _in_flight(m)
    lost = max(0, count - int(latency.size) - m.receiver.corrupted - flying)
    if flying:
        notes.append(f"{flying} messages were under way when the run broke off: they don't count as lost")
    return Result(
        settings=s,
        facts=m.facts,
        wait=m.wait,
        sent=count,
        received=int(latency.size),
        lost=lost,
        duplicated=m.receiver.duplicated,
        reordered=m.receiver.reordered,
        corrupted=m.receiver.corrupted,
        warmup=_warmup(m),
        latency=summary,
        intended_latency=intended,
        sending_overhead=None if apart[0] is None else summarise(apart[0], per=s.window),
        receiving_overhead=None if apart[1] is None else summarise(apart[1], per=s.window),
        sending_throughput=_throughput(sent_order, apart[0], s.window, each),
        receiving_throughput=_throughput(received_order, apart[1], s.window, each),
        wire_to_kernel=kernel[0],
        kernel_to_application=kernel[1],
        broker_stay=summarise(_stays(m)),
        cpu=_cpu(m),
        cpu_windows=_cpu_windows(m, 0 if summary is None else int(summary.maximum)),
        humps=humps,
        humps_p_value=p_value if latency.size else None,
        humps_unsure=too_few or hides_a_rare_way(humps, verdict.period),
        peaks=_explained(
            m,
            _peaks(
                numbers,
                waited,
                spread if due is None else counted(waited),
                due_of,
                s.messages,
                changes=s.load in ("file", "steps"),
            ),
        ),
        stability=steadiness,
        drift=drift,
        signs={"rising": rising, "falling": falling, "stable": max(0, latency.size - 1) - rising - falling},
        identity_violations=violations,
        clock_steps=steps,
        harness_ns=m.harness_ns,
        near_harness=near,
        page_faults=m.sender.minor_faults
        + m.sender.major_faults
        + m.receiver.minor_faults
        + m.receiver.major_faults,
        sleeps_per_message=(m.sender.voluntary_switches + m.receiver.voluntary_switches) / max(1, s.total),
        network_bytes=m.network_bytes,
        bytes_per_message=m.bytes_per_message,
        partial=m.partial,
        counters={name: _counter(readings) for name, readings in m.counters.items()},
        idle=m.idle,
        stalls_ns=tuple((n, end - start) for n, start, end in m.stalls_ns),
        notes=tuple(notes),
        verdict=verdict,
        confirm_latency=confirmed,
        unconfirmed=unconfirmed,
        groups=_groups(m),
    )


def _confirmed(m: Measurement) -> tuple[Summary | None, int]:
    """From a message's sending until its sender knew that the server has it; how many never were."""
    if m.confirmed_ns is None:
        return None, 0
    sent, confirmed = m.sent_ns[m.settings.warmup :], m.confirmed_ns[m.settings.warmup :]
    both = (sent >= 0) & (confirmed >= 0)
    return summarise((confirmed - sent)[both]), int(np.count_nonzero((sent >= 0) & (confirmed < 0)))


def _groups(m: Measurement) -> tuple[ReceiverGroup, ...]:
    """What each group of several receivers had; its receivers' counts are with the warm-up."""
    s, found = m.settings, []
    if s.receivers == 1:
        return ()
    sent = m.sent_ns[s.warmup :]
    since = sent if m.intended_ns is None else m.intended_ns[s.warmup :]
    for number, delivered in enumerate(m.deliveries_ns or (m.received_ns,)):
        had = delivered[s.warmup :]
        arrived = (had >= 0) & (sent >= 0)
        counts = tuple(side.count for side in m.receivers[number :: s.groups])
        lost = int(np.count_nonzero((sent >= 0) & (had < 0)))
        found.append(ReceiverGroup(counts, lost, summarise((had - since)[arrived])))
    return tuple(found)


def _explained(m: Measurement, peaks: tuple[Peak, ...]) -> tuple[Peak, ...]:
    """The peaks with what stands behind the slowest message of each."""
    warmup, found = m.settings.warmup, []
    due = m.sent_ns if m.intended_ns is None else m.intended_ns
    for peak in peaks:
        part = slice(warmup + peak.first, warmup + peak.last + 1)
        took = np.where(m.received_ns[part] >= 0, m.received_ns[part] - due[part], -1)
        worst = warmup + peak.first + int(took.argmax())
        begin, end, sent = int(due[worst]), int(m.received_ns[worst]), int(m.sent_ns[worst])
        found.append(replace(peak, cause=cause_of(m, begin, end, sent)))
    return tuple(found)


def _steps(sent: Integers, received: Integers, latency: Integers) -> tuple[int, int, int, int]:
    """(L that rise, that fall, violations of RO_n - SO_n = L_n - L_{n-1}, stamps that run backwards)."""
    from latlab._core import messaging as core

    rising, falling, violations, backwards = core.steps(
        *(np.ascontiguousarray(series) for series in (sent, received, latency))
    )
    return rising, falling, violations, backwards


def _throughput(at: Integers, apart: CountedSeries | None, window: int, size: float) -> Throughput:
    """Over the whole run, and by windows: 1 / overhead, undefined (and counted) where the overhead is 0."""
    span = int(at[-1] - at[0]) if at.size > 1 else 0
    rate = (at.size - 1) * 1e9 / span if span > 0 else None
    windows, undefined = (None, 0) if apart is None else summarise_rates(apart, window * 1e9)
    return Throughput(rate, None if rate is None else rate * size, window, windows, undefined)


def _warmup(m: Measurement) -> Summary | None:
    sent, received = m.sent_ns[: m.settings.warmup], m.received_ns[: m.settings.warmup]
    arrived = (sent >= 0) & (received >= 0)
    return summarise(received[arrived] - sent[arrived])


def _kernel(m: Measurement, numbers: Integers, sent: Integers, received: Integers) -> tuple[Any, Any]:
    if m.kernel_ns is None:
        return None, None
    kernel = m.kernel_ns[m.settings.warmup :][numbers]
    known = kernel >= 0
    return summarise((kernel - sent)[known]), summarise((received - kernel)[known])


def _stays(m: Measurement) -> Integers:
    stays = m.receiver_samples
    return (
        stays[(stays[:, 3] > 0) & (stays[:, 0] >= m.settings.warmup), 3]
        if stays.size
        else np.zeros(0, np.int64)
    )


def _cpu(m: Measurement) -> Cpu:
    """CPU ns per message, warm-up included, since the clocks ran during it."""
    count = m.sender.count
    if count == 0:
        return Cpu(None, None, None, None, None, None)
    parts = m.sender.cpu_ns + m.receiver.cpu_ns + (m.broker_cpu_ns or 0)
    return Cpu(
        sender=m.sender.cpu_ns / count,
        broker=None if m.broker_cpu_ns is None else m.broker_cpu_ns / count,
        receiver=m.receiver.cpu_ns / count,
        total=m.process_cpu_ns / count,
        other=max(0, m.process_cpu_ns - parts) / count,  # the parts are read by finer clocks
        foreign=None if m.foreign_cpu_ns is None else m.foreign_cpu_ns / count,
    )


def _counter(readings: tuple[tuple[int, int, int], ...]) -> Counter:
    """A counter's growth over the run, and a second between neighbouring readings."""
    messages, at, value = np.array(readings, dtype=np.int64).T
    grown, apart = np.diff(value), np.diff(at)
    total, received = int(value[-1] - value[0]), int(messages[-1] - messages[0])
    rates = grown[apart > 0] * 1_000_000_000 // apart[apart > 0]
    return Counter(total, total / received if received else None, summarise(rates))


def _cpu_windows(m: Measurement, longest_stay_ns: int) -> dict[str, Summary]:
    """(U_n - U_{n-k}) / (T_n - T_{n-k}), in millionths of a CPU (so that the series is integer).

    The window is as many samples wide as the longest stay of a message asks for.
    """
    found = {}
    columns = {"sender": (m.sender_samples, 2), "receiver": (m.receiver_samples, 2)}
    if m.receiver_samples.size and m.receiver_samples[:, 4].any():
        columns["broker"] = (m.receiver_samples[m.receiver_samples[:, 4] > 0], 4)
    for name, (samples, column) in columns.items():
        at, used = samples[:, 1], samples[:, column]
        if at.size < 2:
            continue
        step = max(1, int(np.median(np.diff(at))))
        width = min(max(1, -(-longest_stay_ns // step)), at.size - 1)
        apart = at[width:] - at[:-width]
        share = (used[width:] - used[:-width])[apart > 0] * 1_000_000 // apart[apart > 0]
        if (summary := summarise(share)) is not None:
            found[name] = summary
    return found


def _peaks(
    numbers: Integers,
    latency: Integers,
    spread: CountedSeries,
    due: Integers,
    total: int,
    *,
    changes: bool,
) -> tuple[Peak, ...]:
    """The ten highest groups of messages above p99.9 that stand at least ten robust deviations out.

    A group has the neighbours of its messages that stand out, too: of a stall all that it delayed.

    Args:
        changes: whether the load changes by its schedule; what a sender does that is held up is no change of
            the load.
    """
    if latency.size < 10:
        return ()
    # A stall that delays more than every tenth message reaches into p90, and would hide itself.
    for q in (0.9, 0.75):
        middle, high, highest = spread.at([rank(x, latency.size) for x in (0.5, q, 0.999)])
        stands_out = max(middle + 10 * (high - middle), middle + 1)
        out = np.flatnonzero(latency >= max(highest, stands_out))
        if out.size:
            break
    else:
        return ()
    near = max(1, total // 1000)
    groups = np.split(out, np.flatnonzero(np.diff(numbers[out]) > near) + 1)
    groups = _with_neighbours(groups, latency >= stands_out)
    groups = sorted(groups, key=lambda g: -int(latency[g].max()))[:10]
    found = []
    for group in sorted(groups, key=lambda g: int(g[0])):
        first, last = int(numbers[group[0]]), int(numbers[group[-1]])
        if first < near:
            where = "start"
        elif last >= total - near:
            where = "end"
        else:
            where = "load change" if changes and _changed(due, int(group[0])) else "middle"
        found.append(Peak(first, last, int(group.size), int(latency[group].max()), where))
    return tuple(found)


def _with_neighbours(groups: list[Integers], high: npt.NDArray[np.bool_]) -> list[Integers]:
    """The groups of places, each with the places beside it that are high; those that meet are one."""
    edges = np.flatnonzero(np.diff(high, prepend=False, append=False))
    begins, ends = edges[::2], edges[1::2]  # of each run of high places
    spans: list[tuple[int, int]] = []
    for group in groups:
        begin = int(begins[np.searchsorted(begins, group[0], side="right") - 1])
        end = int(ends[np.searchsorted(begins, group[-1], side="right") - 1])
        if spans and begin < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((begin, end))
    return [begin + np.flatnonzero(high[begin:end]) for begin, end in spans]


_AROUND = 50  # messages


def _changed(due: Integers, at: int) -> bool:
    """Whether messages are due more than four times as often from here on, or as rarely, as before."""
    before, after = due[max(0, at - _AROUND) : at + 1], due[at : at + _AROUND + 1]
    if min(before.size, after.size) < 10:
        return False
    rates = [(part.size - 1) / max(int(part[-1] - part[0]), 1) for part in (before, after)]
    return max(rates) > 4 * min(rates)
