"""What observing costs: the demonstration's pipeline unobserved and at several periods, interleaved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latlab.errors import LatlabError, UnavailableError
from latlab.formats.event_traces.files import FINISHED
from latlab.formats.recording import RecordingWriter
from latlab.lab.trading.demo import DemoOptions, feeds_for
from latlab.lab.trading.plan import RunSettings, plan_text
from latlab.lab.trading.processes import PipelineProcesses
from latlab.lab.trading.traces import trace_files
from latlab.model.diagnosis.layout import Layout
from latlab.model.evidence.pipeline import OverheadDoubt
from latlab.model.evidence.said import said
from latlab.model.queues.overhead import Overhead, QueueCost, SampleTime, WatchedRuns
from latlab.queues import Recorder, sample_times, trace_columns
from latlab.stats.quantiles import median, median_bounds, quantiles
from latlab.system import clock
from latlab.system.environment import capture
from latlab.system.kernel.counters import CacheCount, CacheCounter
from latlab.system.scratch import scratch
from latlab.words import duration

__all__ = ["OverheadRun", "compared", "measure_overhead"]

_SETTLES = 0.1  # share of a run's events that is left out: threads start and caches fill

Times = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OverheadRun:
    """One run of the pipeline.

    Attributes:
        period_ns: 0: unobserved.
        times: of traced events, in ns, by queue; "" is the whole way.
        achieved_p99_ns: of the period; None where unobserved.
        cache: None without counters.
        dropped: events that the pipeline lost.
    """

    period_ns: int
    times: dict[str, Times]
    achieved_p99_ns: float | None = None
    cache: CacheCount | None = None
    dropped: int = 0


def measure_overhead(
    layout: Layout,
    periods: Sequence[int],
    *,
    rounds: int,
    seconds: float,
    seed: int,
    output: Path | None,
    tell: Callable[[str], None],
) -> Overhead:
    """Run the pipeline `rounds` times at every period and as often unobserved, and compare.

    The order within a round is drawn, and every other round takes that of the round before backwards, so
    that what drifts cancels. Unobserved, nothing reads the pipeline's counters; its own traces tell the
    latencies.

    Args:
        periods: of the sampler, in ns.
        seconds: that the feeds are played in each run.
        seed: of the feeds and of the order.
        output: folder of a recording that keeps every run's figures, or None.
        tell: takes a line on what is being done.

    Raises:
        LatlabError: the pipeline can't be run; the output can't be written.
    """
    conditions = [0, *sorted(set(periods), reverse=True)]
    order = np.random.default_rng(seed)
    runs: list[list[OverheadRun]] = []
    unavailable = ""
    with ExitStack() as stack:
        unkept = stack.enter_context(scratch("overhead"))
        options = DemoOptions(layout=layout, seconds=seconds, output=unkept / "unused", seed=seed)
        feeds = feeds_for(options, unkept, tell)
        parameters = {
            "periods_ns": conditions[1:],
            "rounds": rounds,
            "seconds": seconds,
            "layout": asdict(layout),
        }
        writer = stack.enter_context(
            RecordingWriter(
                output if output is not None else unkept / "kept",
                "queues-overhead",
                parameters=parameters,
                environment=capture(),
                seed=seed,
            )
        )
        drawn: list[int] = []
        for number in range(rounds):
            drawn = drawn[::-1] if number % 2 else order.permutation(len(conditions)).tolist()
            made = {}
            for index in drawn:
                period = conditions[index]
                name = f"sampled every {duration(period)}" if period else "unobserved"
                tell(f"round {number + 1} of {rounds}: {name}")
                made[index], unavailable = _run(layout, feeds, seconds, period)
                _keep(writer, number, made[index])
            runs.append([made[index] for index in range(len(conditions))])
        tell("timing one sample of each queue")
        looks = _look_times(layout, feeds, seconds)
        found = compared(runs, seconds, looks, unavailable)
        writer.put("overhead", found.to_json())
    return found


def _run(layout: Layout, feeds: Sequence[Path], seconds: float, period_ns: int) -> tuple[OverheadRun, str]:
    with scratch("run", shared=True) as folder:
        traces, plan = folder / "traces", folder / "plan"
        plan.write_text(plan_text(layout, RunSettings(feeds, seconds, folder / "link", traces)))
        with PipelineProcesses(plan) as processes, ExitStack() as stack:
            pids = list(processes.pids.values())
            # Makes the names of the queues known; unless it is entered it reads nothing later.
            recorder = Recorder(pids, period_ns=period_ns or 1_000_000)
            recorder.look()
            counter, why = _counter(pids)
            start = clock.reference()
            if period_ns:
                stack.enter_context(recorder)
            outcomes = processes.play(seconds, failed=lambda: recorder.failed)
            cache = None if counter is None else counter.now()
        died = [outcome.role for outcome in outcomes if outcome.died]
        if died:
            raise LatlabError(f"the {died[0]} process died in a run", remedy="see --layout and --seconds")
        line = clock.calibrate(start, clock.reference())
        summary = next(o.summary for o in outcomes if o.role == "trading") or {}
        files, lanes = trace_files(traces, layout)
        at = {"ticks": start.ticks, "ns": start.ns, "hz": line.rate_hz}
        columns, _ = trace_columns(files, recorder.observation(), at, lanes)
        names = [queue.name for queue in recorder.queues]
        achieved = recorder.achieved["period_p99_ns"] if period_ns else None
        dropped = sum(feed["dropped"] for feed in summary.get("feeds", ()))
        return OverheadRun(period_ns, _times(columns, names), achieved, cache, dropped), why


def _counter(pids: Sequence[int]) -> tuple[CacheCounter | None, str]:
    try:
        return CacheCounter(pids), ""
    except UnavailableError as error:
        return None, str(error)


def _times(columns: dict[str, NDArray[np.generic]], names: Sequence[str]) -> dict[str, Times]:
    """The traced times by queue, and of the whole way as "", without those of the settling."""
    push, pop = columns["push_ns"].astype(np.int64), columns["pop_ns"].astype(np.int64)
    hops = columns["end"] == 0
    if not hops.any():
        return {}
    begin, end = int(push[hops].min()), int(pop[hops].max())
    settled = push >= begin + _SETTLES * (end - begin)
    waits = pop - push
    found = {name: waits[hops & settled & (columns["queue"] == number)] for number, name in enumerate(names)}
    events, index = np.unique(columns["event"], return_inverse=True)
    born = np.full(len(events), np.iinfo(np.int64).max)
    np.minimum.at(born, index[hops], push[hops])
    ended = np.flatnonzero((columns["end"] == FINISHED) & (born[index] >= begin + _SETTLES * (end - begin)))
    ended = ended[born[index[ended]] < np.iinfo(np.int64).max]
    found[""] = pop[ended] - born[index[ended]]
    return {name: times for name, times in found.items() if len(times)}


def _keep(writer: RecordingWriter, number: int, run: OverheadRun) -> None:
    rows = [
        (name, len(times), float(times.mean()), float(times.std()), *quantiles(times, (0.01, 0.5, 0.99)))
        for name, times in run.times.items()
    ]
    if not rows:
        return
    heads = ("queue", "events", "mean_ns", "deviation_ns", "p1_ns", "p50_ns", "p99_ns")
    columns: dict[str, object] = {
        "round": np.full(len(rows), number, "u4"),
        "period_ns": np.full(len(rows), run.period_ns, "i8"),
    }
    for head, column in zip(heads, zip(*rows, strict=True), strict=True):
        columns[head] = list(column) if head == "queue" else np.array(column)
    writer.append("runs", columns)


def _look_times(layout: Layout, feeds: Sequence[Path], seconds: float) -> tuple[SampleTime, ...]:
    with scratch("run", shared=True) as folder:
        plan = folder / "plan"
        plan.write_text(plan_text(layout, RunSettings(feeds, seconds, folder / "link", folder / "traces")))
        with PipelineProcesses(plan) as processes:
            processes.go()
            found = sample_times(list(processes.pids.values()), 0.8 * seconds)
            processes.stop()
            processes.outcomes()
            return found


def compared(
    runs: Sequence[Sequence[OverheadRun]], seconds: float, looks: tuple[SampleTime, ...], unavailable: str
) -> Overhead:
    """From runs to figures.

    Args:
        runs: by round; in each the unobserved run first, and then one a period in the same order.
        seconds: of each run.
        looks: how long a look at each queue took.
        unavailable: why there are no hardware counters, or "".
    """
    names = dict.fromkeys(name for row in runs for run in row for name in run.times)
    watched = []
    for index, first in enumerate(runs[0]):
        mine = [row[index] for row in runs]
        costs = [cost for name in names if (cost := _cost(name, mine, [row[0] for row in runs])) is not None]
        cache = [run.cache for run in mine if run.cache is not None]
        kept = [run.achieved_p99_ns for run in mine if run.achieved_p99_ns is not None]
        watched.append(
            WatchedRuns(
                period_ns=first.period_ns,
                runs=len(mine),
                achieved_p99_ns=median(kept) if kept else None,
                llc_loads=sum(one.loads for one in cache) / len(cache) if cache else None,
                llc_misses=sum(one.misses for one in cache) / len(cache) if cache else None,
                queues=tuple(costs),
            )
        )
    return Overhead(len(runs), seconds, tuple(watched), unavailable, looks, tuple(_warnings(runs, watched)))


def _cost(name: str, mine: Sequence[OverheadRun], unobserved: Sequence[OverheadRun]) -> QueueCost | None:
    parts = [run.times[name] for run in mine if name in run.times]
    if not parts:
        return None
    times = np.concatenate(parts)
    p1, p50, p99 = (int(value) for value in quantiles(times, (0.01, 0.5, 0.99)))
    slowdown, bounds = None, None
    pairs = list(zip(mine, unobserved, strict=True))
    if mine[0].period_ns and all(name in a.times and name in b.times for a, b in pairs):
        ratios = [float(a.times[name].mean() / b.times[name].mean()) - 1 for a, b in pairs]
        slowdown, bounds = median(ratios), median_bounds(ratios)
    low, high = bounds or (None, None)
    return QueueCost(
        name, len(times), float(times.mean()), float(times.std()), p1, p50, p99, slowdown, low, high
    )


def _warnings(runs: Sequence[Sequence[OverheadRun]], watched: Sequence[WatchedRuns]) -> list[str]:
    found: list[str] = []
    lost = sum(run.dropped for row in runs for run in row)
    if lost:
        found.append(said(OverheadDoubt.DROPPED, dropped=lost))
    for one in watched:
        if one.achieved_p99_ns is not None and one.achieved_p99_ns > 5 * one.period_ns:
            asked, achieved = one.period_ns, one.achieved_p99_ns
            found.append(said(OverheadDoubt.STARVED, period_ns=asked, achieved_ns=achieved))
    return found
