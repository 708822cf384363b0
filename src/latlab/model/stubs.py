"""Results of `latlab stubs`: calibrations, timelines and their comparison.

Over 400 lines: the results of one tool, whose documents refer to one another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

SCHEMA = 1
Pays = Literal["total", "limited", "none"]  # every part of a speed-up, up to a limit, or none of it


@dataclass(frozen=True)
class StubAccuracy:
    """Requested against achieved, for one kind of stub, one length and one condition.

    Attributes:
        kind: "spin-wall", "spin-cpu", "sleep-corrected", …
        condition: "idle", or "competitor" (another thread is busy on the same core).
        measure: the clock that the error is taken on: "wall" or "cpu".
        holds: the median error is within the tolerance.
    """

    kind: str
    condition: str
    measure: str
    requested_ns: int
    repetitions: int
    p50_error_ns: float
    p99_error_ns: float
    mean_error_ratio: float
    preempted: int
    burned_ns: float
    holds: bool

    def as_json(self) -> dict[str, Any]:
        """The row as JSON, the burned time included."""
        return dict(vars(self))


@dataclass(frozen=True)
class CacheAccess:
    """What one access of a cache stub costs, for one working set.

    Attributes:
        condition: "idle", or "competitor".
        misses_per_access: of the last cache level; None where the CPU has no counter for us.
        level: whose access this stands for: "L1", …, "memory".
    """

    working_set_bytes: int
    condition: str
    access_ns: float
    misses_per_access: float | None
    level: str = ""


@dataclass(frozen=True)
class StubCalibration:
    """What this machine's stubs can hold.

    Attributes:
        caches: cost of an access by the size of the working set; empty where no cache stub was asked for.
        calibration_s: time that the calibration itself took (the rest is the check of it).
        exact_preemption: preemption is known exactly (rseq) and not guessed from gaps.
        refused: one line for each kind and length that is not held, with one that is.
    """

    calibration_s: float
    ticks_per_ns: float
    instructions_per_ns: float
    cpu_clock_cost_ns: float
    exact_preemption: bool
    tolerance: float
    rows: tuple[StubAccuracy, ...]
    refused: tuple[str, ...]
    caches: tuple[CacheAccess, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The whole calibration as JSON."""
        result: dict[str, Any] = {"schema": SCHEMA, **vars(self)}
        result["rows"] = [row.as_json() for row in self.rows]
        result["refused"] = list(self.refused)
        result["caches"] = [dict(vars(each)) for each in self.caches]
        return result


@dataclass(frozen=True)
class TimelineThread:
    """One thread of a timeline; times in ns after the timeline's start.

    Attributes:
        id: the number of its action file.
        parent: the id of the thread that created it, or None.
        pid: process number in the captured system; 0 where it was played.
        run_ns: CPU time. blocked_ns: waited for something. ready_ns: waited for a CPU.
        budget_ns: CPU time that its action file asks for.
        slices: (begin_ns, end_ns, state) with state "running", "ready" or "blocked", in order of time.
        marks: (time_ns, what): page faults, switches of CPU, lost events.
        places: the CPU of each slice, -1 where it ran on none; () where that isn't known.
    """

    id: int
    parent: int | None
    pid: int
    name: str
    run_ns: int
    blocked_ns: int
    ready_ns: int
    start_ns: int
    end_ns: int
    budget_ns: int = 0
    switches: int = 0
    faults: int = 0
    slices: tuple[tuple[int, int, str], ...] = ()
    marks: tuple[tuple[int, str], ...] = ()
    places: tuple[int, ...] = ()

    @property
    def cpus(self) -> tuple[int, ...]:
        """The CPUs that it ran on; () where that isn't known."""
        return tuple(sorted({place for place in self.places if place >= 0}))


@dataclass(frozen=True)
class Timeline:
    """Threads over time: captured from a real program, or played from action files.

    Attributes:
        order: "create 3" and "join 3" of every thread, in order of time.
        begin_ns: on CLOCK_MONOTONIC, where the timeline was captured here and now; else 0.
        cpus: how many its threads might have run on; 0 where that isn't known.
        others_ns: CPU time that other programs had meanwhile; None where that isn't known.
    """

    kind: str
    total_ns: int
    threads: tuple[TimelineThread, ...]
    notes: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    begin_ns: int = 0
    cpus: int = 0
    others_ns: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The timeline as JSON."""
        threads = []
        for thread in self.threads:
            row = dict(vars(thread))
            row["slices"] = [list(each) for each in thread.slices]
            row["marks"] = [list(each) for each in thread.marks]
            row["places"] = list(thread.places)
            threads.append(row)
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            "total_ns": self.total_ns,
            "notes": list(self.notes),
            "order": list(self.order),
            "cpus": self.cpus,
            "others_ns": self.others_ns,
            "threads": threads,
        }

    def thread(self, thread_id: int) -> TimelineThread:
        """The thread of this id; KeyError where there is none."""
        for thread in self.threads:
            if thread.id == thread_id:
                return thread
        raise KeyError(thread_id)


@dataclass(frozen=True)
class Edit:
    """What an edit of a captured program changes, by simulation.

    Attributes:
        threads: of the program. cpus: that they share.
        simulated: False where nothing was: no thread had to wait for a CPU, or nothing can be trusted.
        before_ns: the program's time as it was captured.
        after_ns: with the edit; `low_ns` and `high_ns` are of all simulations that fit, and an allowance.
        error: of the unchanged program in the simulation, relative.
        withheld: why nothing was simulated, or why the time is open; else "".
    """

    threads: int
    cpus: int
    simulated: bool
    before_ns: int
    after_ns: int
    low_ns: int
    high_ns: int
    error: float
    withheld: str

    def as_json(self) -> dict[str, Any]:
        """The edit as JSON."""
        return {"schema": 1, **vars(self)}


@dataclass(frozen=True)
class ThreadError:
    """Relative errors of one thread of B against A.

    run_error and blocked_error (of the time that it doesn't run, ready or blocked) are relative to A's own
    time, start_error and end_error to A's total.
    """

    id: int
    run_error: float
    blocked_error: float
    start_error: float
    end_error: float
    run_difference_ns: int


@dataclass(frozen=True)
class TimelineComparison:
    """B against A.

    Attributes:
        total_error: (total of B minus total of A) / total of A.
        order_same: threads are created and joined in the same order (where one of both doesn't say: start).
        missing: ids that only one of the two has.
    """

    total_error: float
    threads: tuple[ThreadError, ...]
    order_same: bool
    missing: tuple[int, ...]

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON."""
        return {
            "schema": SCHEMA,
            "total_error": self.total_error,
            "order_same": self.order_same,
            "missing": list(self.missing),
            "threads": [dict(vars(thread)) for thread in self.threads],
        }


@dataclass(frozen=True)
class StudyPoint:
    """One point of a forecast.

    Attributes:
        speedup: by which part of its work the component is faster: 0 to 1.
        gain: by which part of its time (or time per event) the whole system is then faster.
        interval: 95 % interval of the gain.
        value: the system's measure that is forecast: ns in a study.
        runs: measurements at this very speedup.
    """

    speedup: float
    gain: float
    interval: tuple[float, float]
    value: float
    runs: int


@dataclass(frozen=True)
class SpeedupForecast:
    """What making one component faster buys, by one measure of the system.

    Attributes:
        component_class: "total" (every part of it pays), "limited" (until t_limit) or "none".
        t_limit: speedup beyond which nothing (or only `pays_beyond` as much) is gained; None without a knee.
        pays: gain of the system per speedup of the component, at its first tenth.
        pays_beyond: slope after the knee, relative to that before it.
        drift: the component's own stub at full time against the unmodified system, relative; 0 where the
            points were measured without a stub.
        base: the measure of the unmodified system.
        least: the measure with a component that takes no time.
        rounds: rounds of measurements.
        per_round: measurements behind each value of a round.
    """

    component_class: Pays
    t_limit: float | None
    t_limit_interval: tuple[float, float] | None
    pays: float
    pays_beyond: float | None
    drift: float
    drift_interval: tuple[float, float]
    base: float
    least: float
    least_interval: tuple[float, float]
    curve: tuple[StudyPoint, ...]
    sentence: str
    rounds: int
    per_round: int
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The forecast as JSON; `class` is the class of the bottleneck."""
        result: dict[str, Any] = {"schema": SCHEMA, "class": self.component_class, **vars(self)}
        del result["component_class"]
        result["curve"] = [dict(vars(point)) for point in self.curve]
        return result


@dataclass(frozen=True)
class StudyStep:
    """What one step of the method found.

    Attributes:
        number: 1 to 7, as the method counts them.
        verdict: in a word; "anomaly" where the measurement contradicts the method.
        text: in a sentence.
        values: the numbers behind it, units in their names.
    """

    number: int
    name: str
    verdict: str
    text: str
    values: dict[str, float]


@dataclass(frozen=True)
class WorkingPeriod:
    """What one working period of a component that waits would buy by itself.

    Attributes:
        number: of the period within a call, from 1.
        busy_ns: of all calls in one run of the system.
        wait_ns: what the component waits after it, in all.
        component_class: as of the component.
        t_limit: speedup of this period beyond which nothing is gained; None where there is no such knee.
        gain: of the system, where the period takes no time.
        interval: 95 % interval of the gain.
    """

    number: int
    busy_ns: int
    wait_ns: int
    component_class: Pays
    t_limit: float | None
    gain: float
    interval: tuple[float, float]
    sentence: str
    rounds: int

    def as_json(self) -> dict[str, Any]:
        """The period as JSON; `class` is the class of the bottleneck."""
        result = {"class": self.component_class, **vars(self)}
        del result["component_class"]
        return result


@dataclass(frozen=True)
class StudyRun:
    """One run of the system under study.

    Attributes:
        variant: "original", "off" (unmodified, but started by the study), "measure", "record", "delay",
            "flat", "busy" or "idle".
        round: -1 outside of the rounds.
    """

    variant: str
    speedup: float
    round: int
    wall_ns: int
    user_ns: int
    system_ns: int


@dataclass(frozen=True)
class StudyResult:
    """What making one component faster would buy.

    Attributes:
        component_class: as of a `SpeedupForecast`.
        t_cus_ns: time of the component that is made shorter, in one run of the system, all calls.
        faster: which time that is: its "work", its "wait" or "both".
        t_limit: speedup beyond which nothing is gained; None where there is no such knee.
        drift: the unmodified system simulated by the stub at full time, against the system itself, relative.
        takes_over: what limits next, where that is known.
        runs: every run, in its order.
        periods: of a component that waits within its calls, the longest first.
        steps: what each step of the method found.
        validated: the system's own test passed with the stub.
        warnings: what limits the trust in it.
        steady: the unmodified system's time is known well enough for a forecast to be trusted.
    """

    component: str
    component_class: Pays
    t_cus_ns: int
    t_cus_blocked_ns: int
    t_sut_ns: int
    t_limit: float | None
    t_limit_interval: tuple[float, float] | None
    t_min_sut_ns: int
    t_min_interval_ns: tuple[int, int]
    drift: float
    drift_interval: tuple[float, float]
    calls: int
    pays: float
    curve: tuple[StudyPoint, ...]
    sentence: str
    takes_over: str | None
    steps: tuple[StudyStep, ...]
    system: dict[str, float]
    validated: bool
    warnings: tuple[str, ...]
    rounds: int
    seconds: float
    periods: tuple[WorkingPeriod, ...] = ()
    runs: tuple[StudyRun, ...] = ()
    steady: bool = True
    faster: str = "work"

    def as_json(self) -> dict[str, Any]:
        """The study as JSON; `class` is the class of the bottleneck."""
        result: dict[str, Any] = {"schema": SCHEMA, "class": self.component_class, **vars(self)}
        del result["component_class"]
        result["curve"] = [dict(vars(point)) for point in self.curve]
        result["steps"] = [dict(vars(step)) for step in self.steps]
        result["periods"] = [period.as_json() for period in self.periods]
        del result["runs"]  # a series of the recording
        return result
