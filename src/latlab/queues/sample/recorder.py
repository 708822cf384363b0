"""The recorder: follows an application, drives the sampler, and hands over what it saw, chunk by chunk.

Over 400 lines: the columns of each series stand beside what fills them.

The schema of what it writes is in `docs/reference/queue-recording.md`; every series' columns are the tables
below. Times are CLOCK_MONOTONIC in nanoseconds, computed from the time-stamp counter by one line through two
references, which stands in the recording's document ``clock``.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from latlab._core import clock as core_clock
from latlab._core import queues as core
from latlab.errors import LatlabError, UsageError
from latlab.formats.documents import dumps
from latlab.model.queues.observation import Observation, Queue, named
from latlab.queues.sample.follow import Event, Follower, Target, require
from latlab.queues.sample.scheduler import SchedulerWatch
from latlab.queues.sample.sockets import SocketFollower
from latlab.words import duration

__all__ = ["COLUMNS", "Memory", "Recorder", "Sink"]

# The columns of every series, with their types. `topology` is columns of text beside these.
COLUMNS: dict[str, dict[str, str]] = {
    "samples": {
        "t_ns": "i8",
        "t_end_ns": "i8",
        "queue": "u4",
        "in": "u8",
        "out_low": "u8",
        "out_high": "u8",
        "dropped": "u8",
        "blocked": "u8",
        "empty": "u8",
        "skipped": "u4",
    },
    "sweeps": {"t_ns": "i8", "duration_ns": "u4", "read": "u4"},
    "gaps": {"from_ns": "i8", "to_ns": "i8", "periods": "u4", "cause": "u4"},
    "stages": {
        "t_ns": "i8",
        "stage": "u4",
        "busy_ns": "i8",
        "blocked_ns": "i8",
        "idle_ns": "i8",
        "events": "u8",
        "state": "u4",
        "transitions": "u4",
    },
    "threads": {
        "t_ns": "i8",
        "pid": "u4",
        "tid": "u4",
        "cpu_ns": "u8",
        "wait_ns": "u8",
        "voluntary": "u8",
        "involuntary": "u8",
    },
    "sockets": {
        "t_ns": "i8",
        "socket": "u4",
        "fill_bytes": "u8",
        "capacity_bytes": "u8",
        "dropped": "u8",
    },
    "scheduler": {"t_ns": "i8", "event": "u4", "tid": "u4", "other": "u4", "value": "u8", "cpu": "u4"},
}
_STEP_S = 0.02
_LONGEST_STEP_S = 0.25
_OF_BUDGET = (
    0.8  # what is aimed at: threads that only wait for the recorder take a little too, and load varies
)
_CALIBRATION_S = 0.05
_SCHEDULER_NS = 250_000_000  # between two looks at its events, which the kernel keeps meanwhile
NOT_RECORDED = "no scheduler events were recorded: record with --scheduler"
_BINS_PER_OCTAVE = 64  # of the achieved period: 1.1 % wide


class Sink(Protocol):
    """Where chunks go: a `RecordingWriter`, or `Memory`."""

    def append(self, series: str, batch: Mapping[str, Any]) -> None:
        """Keep one chunk of a series."""

    def put(self, name: str, document: Mapping[str, Any]) -> None:
        """Keep a document."""


class Memory:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.chunks: dict[str, list[Mapping[str, Any]]] = {}
        self.documents: dict[str, Mapping[str, Any]] = {}

    def append(self, series: str, batch: Mapping[str, Any]) -> None:
        """Keep one chunk."""
        self.chunks.setdefault(series, []).append(batch)

    def put(self, name: str, document: Mapping[str, Any]) -> None:
        """Keep a document."""
        self.documents[name] = document

    def columns(self, series: str) -> dict[str, NDArray[Any]]:
        """All rows of a numeric series."""
        chunks = self.chunks.get(series, [])
        return {
            name: np.concatenate([np.asarray(c[name]) for c in chunks]) if chunks else np.empty(0, kind)
            for name, kind in COLUMNS[series].items()
        }


class Recorder:
    """Records the queues of one application (or several), from outside.

    A context manager: recording begins when the block is entered and ends when it is left. In between a
    thread of Python drains the sampler (by default fifty times a second); the sampler itself is native.

    Args:
        targets: a process id, the name of an application, or several of them. All processes of that name are
            followed, also those that start later.
        sink: where the chunks go; by default memory, for `observation()`.
        readers: of queues by address, recorded beside those that are published.
        period_ns: between two sweeps.
        step_seconds: between two looks of the recorder's thread at what the sampler has and what has changed.
        stage_period_ns: between two looks at the stages' own times.
        thread_period_ns: between two looks at what the kernel says of the threads and of the sockets.
        longest_skip: with adaptive sampling, the most periods that a queue without activity is not looked at.
        budget: share of one CPU that sampling and writing may use together; the period grows until it
            holds. None: no limit.
        stamp_every: queues between two readings of the clock (0: one for the whole sweep).
        scheduler: record what the kernel's scheduler does to the processes' threads, too; where that is not
            allowed, the document "scheduler" says why.
        cpu: to pin the sampler to, or -1.
        priority: SCHED_FIFO priority of the sampler, or 0.

    Raises:
        InputError: when the block is entered and nothing matches the targets.
        UsageError: for a period below 1 µs.
    """

    def __init__(
        self,
        targets: Target | Sequence[Target],
        sink: Sink | None = None,
        *,
        readers: Sequence[core.Reader] = (),
        period_ns: int = 100_000,
        step_seconds: float = _STEP_S,
        stage_period_ns: int = 20_000_000,
        thread_period_ns: int = 100_000_000,
        longest_skip: int = 0,
        budget: float | None = None,
        stamp_every: int = 4,
        scheduler: bool = False,
        cpu: int = -1,
        priority: int = 0,
    ) -> None:
        if period_ns < 1000:
            raise UsageError(f"a period of {duration(period_ns)} is too short", remedy="give at least 1us")
        self.targets: tuple[Target, ...] = (targets,) if isinstance(targets, int | str) else tuple(targets)
        self.sink: Sink = Memory() if sink is None else sink
        self.period_ns = period_ns
        self._stage_period_ns = stage_period_ns
        self._thread_period_ns = thread_period_ns
        self._budget = budget
        self._by_address = bool(readers)
        self._follower = Follower(self.targets, readers=readers)
        self._sockets = SocketFollower(self._follower)
        self._scheduler: SchedulerWatch | None = None
        self.scheduler_missing = NOT_RECORDED
        if scheduler:
            try:
                self._scheduler = SchedulerWatch()
                self.scheduler_missing = ""
            except LatlabError as error:
                self.scheduler_missing = str(error)
        self._sampler = core.Sampler(
            period_ns=period_ns,
            stamp_every=stamp_every,
            longest_skip=longest_skip,
            cpu=cpu,
            priority=priority,
        )
        self._seen: list[Event] = []  # by look(), and not written yet
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._reference = (0, 0)
        self._hz = 1e9
        self._next_stages = self._next_threads = self._next_scheduler = self._next_budget = 0
        self._budget_from = (0, 0, 0)
        self._step_s = step_seconds
        self._phases: list[tuple[int, int, str]] = []
        self._started_ns = 0
        self._intervals = np.zeros(64 * _BINS_PER_OCTAVE, np.int64)
        self._last_sweep_ns = 0
        self.on_event: Callable[[Event], None] | None = None

    def look(self) -> None:
        """See what matches the targets, before anything is sampled or written.

        Raises:
            InputError: when nothing does; it says what there is.
        """
        if self._by_address:
            return
        self._seen += self._follower.refresh()
        require(self._follower, self.targets)

    def __enter__(self) -> Self:
        first = core_clock.reference()[:2]
        time.sleep(_CALIBRATION_S)
        self._reference = core_clock.reference()[:2]
        self._hz = (self._reference[0] - first[0]) * 1e9 / (self._reference[1] - first[1])
        self._started_ns = self._reference[1]
        self.sink.put("clock", {"schema": 1, **self.clock})
        events = [*self._seen, *self._follower.refresh()]
        require(self._follower, self.targets)
        self._write_events(events)
        self._sampler.set_plan(*self._follower.plan())
        self._read_slow(time.monotonic_ns())
        if self._scheduler is not None:
            self._scheduler.start()
        self._sampler.start()
        self._thread = threading.Thread(target=self._run, name="latlab-recorder", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._sampler.stop()
        self._write_events(self._follower.refresh())
        self._read_slow(time.monotonic_ns(), last=True)
        self._drain()
        if self._scheduler is not None:
            self._scheduler.stop()
            self._read_scheduler()
            names = {str(tid): name for tid, name in self._scheduler.names.items()}
            said = {"lost": self._scheduler.lost, "futex": self._scheduler.futex, "names": names}
            self.sink.put("scheduler", {"schema": 1, **said})
        elif self.scheduler_missing != NOT_RECORDED:
            self.sink.put("scheduler", {"schema": 1, "missing": self.scheduler_missing})
        end = core_clock.reference()
        rate = (end[0] - self._reference[0]) * 1e9 / max(1, end[1] - self._reference[1])
        self.sink.put("clock", {"schema": 1, **self.clock, "measured_hz": rate})
        self.sink.put(
            "sampler",
            {"schema": 1, "period_ns": self.period_ns, **self.achieved, **self._sampler.statistics()},
        )
        if self._failure is not None and error is None:
            raise self._failure

    @property
    def clock(self) -> dict[str, float]:
        """The line from ticks to ns: ns + (ticks - `ticks`) / `hz` × 10⁹."""
        return {"ticks": self._reference[0], "ns": self._reference[1], "hz": self._hz}

    @property
    def failed(self) -> bool:
        """The recording can't go on (a full disk): leave the block, which raises what happened."""
        return self._failure is not None

    @property
    def unmatched(self) -> tuple[Target, ...]:
        """The targets that nothing has matched yet."""
        return self._follower.unmatched

    @property
    def anyone_alive(self) -> bool:
        """At least one process that it follows lives."""
        return bool(self._follower.live_processes)

    @property
    def statistics(self) -> dict[str, Any]:
        """The sampler's own account: sweeps, samples, torn, missed and lost periods, CPU time."""
        return dict(self._sampler.statistics())

    @property
    def achieved(self) -> dict[str, float]:
        """The period as it was kept: p50, p99 and the longest, in ns (a histogram's bins: 1.1 % wide)."""
        seen = np.cumsum(self._intervals)
        total = int(seen[-1])

        def at(q: float) -> float:
            if total == 0:
                return 0.0
            return float(2 ** ((np.searchsorted(seen, max(1, np.ceil(q * total))) + 1) / _BINS_PER_OCTAVE))

        return {"period_p50_ns": at(0.5), "period_p99_ns": at(0.99), "period_max_ns": at(1.0)}

    @property
    def queues(self) -> tuple[Queue, ...]:
        """Every queue that was followed so far, by number."""
        return self._follower.queues

    @property
    def socket_drops(self) -> dict[str, int]:
        """Datagrams that the kernel dropped in front of the application meanwhile, by socket."""
        return self._sockets.dropped

    def observation(self) -> Observation:
        """Everything so far, when the sink is memory.

        Raises:
            UsageError: when it is not; open the recording then.
        """
        if not isinstance(self.sink, Memory):
            raise UsageError("the observation was written to a file", remedy="use latlab.queues.load")
        return Observation(
            queues=named(self._follower.queues),
            stages=self._follower.stages,
            processes=self._follower.processes,
            samples=self.sink.columns("samples"),
            sweeps=self.sink.columns("sweeps"),
            gaps=self.sink.columns("gaps"),
            stage_times=self.sink.columns("stages"),
            threads=self.sink.columns("threads"),
            phases=tuple(self._phases),
            period_ns=self.period_ns,
            cpus=os.cpu_count() or 0,
            sockets=self._sockets.sockets,
            socket_samples=self.sink.columns("sockets"),
            scheduler=self.sink.columns("scheduler"),
            thread_names={} if self._scheduler is None else dict(self._scheduler.names),
            scheduler_missing=self.scheduler_missing,
        )

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._step_s):
                self._step()
        except BaseException as error:  # noqa: BLE001 (raised again where the block is left)
            self._failure = error

    def _step(self) -> None:
        self._write_events(self._follower.refresh())
        if self._follower.plan_is_stale:
            self._sampler.set_plan(*self._follower.plan())
        self._drain()
        now = time.monotonic_ns()
        self._read_slow(now)
        if self._budget is not None and now >= self._next_budget:
            self._keep_budget(now)

    def _drain(self) -> None:
        for samples, sweeps, gaps in self._sampler.drain(*self._reference, self._hz):
            for series, columns in (("samples", samples), ("sweeps", sweeps), ("gaps", gaps)):
                if len(next(iter(columns.values()))):
                    self.sink.append(series, columns)
            self._note_intervals(sweeps["t_ns"])

    def _note_intervals(self, t_ns: NDArray[np.int64]) -> None:
        if not len(t_ns):
            return
        before = self._last_sweep_ns or t_ns[0]
        apart = np.diff(t_ns, prepend=before)[0 if self._last_sweep_ns else 1 :]
        self._last_sweep_ns = int(t_ns[-1])
        bins = (np.log2(np.maximum(apart, 1)) * _BINS_PER_OCTAVE).astype(np.int64)
        self._intervals += np.bincount(bins, minlength=len(self._intervals))

    def _read_slow(self, now: int, *, last: bool = False) -> None:
        if last or now >= self._next_stages:
            self._next_stages = now + self._stage_period_ns
            self._append("stages", self._stage_rows())
        if self._scheduler is not None and not last and now >= self._next_scheduler:
            self._next_scheduler = now + _SCHEDULER_NS
            self._read_scheduler()
        if last or now >= self._next_threads:
            self._next_threads = now + self._thread_period_ns
            self._append("threads", self._thread_rows())
            events, rows = self._sockets.look()
            self._write_events(events)
            self._append("sockets", rows)

    def _read_scheduler(self) -> None:
        assert self._scheduler is not None
        columns = self._scheduler.take(process.pid for process in self._follower.live_processes)
        if len(columns["t_ns"]):
            self.sink.append("scheduler", columns)

    def _append(self, series: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            columns = zip(*rows, strict=True)
            kinds = COLUMNS[series].items()
            self.sink.append(
                series, {name: np.array(c, kind) for (name, kind), c in zip(kinds, columns, strict=True)}
            )

    def _stage_rows(self) -> list[tuple[Any, ...]]:
        ticks, ns = self._reference
        rows = []
        for number, (at, *spent, events, state, transitions), in_ns in self._follower.stage_times():
            scale = 1.0 if in_ns else 1e9 / self._hz
            at_ns = at if in_ns else ns + round((at - ticks) * scale)
            rows.append((at_ns, number, *(round(x * scale) for x in spent), events, state, transitions))
        return rows

    def _thread_rows(self) -> list[tuple[Any, ...]]:
        pids = dict.fromkeys(process.pid for process in self._follower.live_processes)
        return [
            (at, pid, tid, cpu, wait, voluntary, involuntary)
            for pid in pids
            for tid, at, cpu, wait, voluntary, involuntary, _ in core.read_threads(pid)
        ]

    def _write_events(self, events: list[Event]) -> None:
        for event in events:
            if event.event == "phase":
                self._phases.append((event.t_ns, event.number, event.description["phase"]))
            if self.on_event is not None:
                self.on_event(event)
        if events:
            self.sink.append(
                "topology",
                {
                    "t_ns": np.array([e.t_ns for e in events], "i8"),
                    "event": [e.event for e in events],
                    "what": [e.what for e in events],
                    "number": np.array([e.number for e in events], "u4"),
                    "description": [dumps(e.description) for e in events],
                },
            )

    def _keep_budget(self, now: int) -> None:
        """Look less often while sampler and recorder use more of a CPU than they may, and more often again
        when they can.
        """
        assert self._budget is not None
        sampler, recorder, at = self._budget_from
        used = (self._sampler.statistics()["cpu_ns"], time.thread_time_ns())
        self._budget_from = (*used, now)
        self._next_budget = now + 500_000_000
        if at == 0:
            return
        shares = ((used[0] - sampler) / (now - at), (used[1] - recorder) / (now - at))
        budget = self._budget * _OF_BUDGET
        period, self._step_s = paced(self._sampler.period_ns, self._step_s, shares, budget)
        self._sampler.set_period(int(max(period, self.period_ns)))


def paced(period_ns: float, step_s: float, shares: tuple[float, float], budget: float) -> tuple[float, float]:
    """The next period and step of the recorder, so that each side keeps to half of the budget.

    What one side leaves of its half, the other may use.

    Args:
        shares: of one CPU, that the sampling and the recorder's thread used at `period_ns` and `step_s`.

    Returns:
        the period, at most 100 ms, and the step, from 0.02 to 0.25 s (chunks hold what comes meanwhile).
    """
    sampler, recorder = shares
    half = budget / 2
    step_s = min(max(step_s * recorder / half, _STEP_S), _LONGEST_STEP_S)
    left = max(budget - min(recorder, half), half)
    return min(period_ns * sampler / left, 100_000_000.0), step_s
