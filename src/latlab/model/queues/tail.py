"""The slowest traced events, and what happened to each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["SchedulerShare", "Tail", "TailEvent", "TailHop"]


@dataclass(frozen=True)
class SchedulerShare:
    """What the scheduler did to a stage's thread in a stretch of time, from kernel tracepoints.

    Attributes:
        ran_ns: it had a CPU.
        run_queue_ns: it was ready and had none.
        wake_up_ns: the part of that which lies between its being woken and its running.
        futex_ns: it slept in futex(2): for a lock, a condition variable, or an event that waits by one.
        asleep_ns: it slept elsewhere, or was stopped.
        cpu_held_by: name and tid of the thread that had, for most of `run_queue_ns`, the CPU that it got
            in the end; "" where that was idle.
        woken_by: of the thread that ended most of its sleep, or "".
    """

    ran_ns: int
    run_queue_ns: int
    wake_up_ns: int
    futex_ns: int
    asleep_ns: int
    cpu_held_by: str = ""
    woken_by: str = ""


@dataclass(frozen=True)
class TailHop:
    """One stay of a slow event: in a queue, and then in the stage that took it out.

    Attributes:
        waited_ns: in the queue.
        served_ns: from there until it was put into the next queue, or ended.
        fill: events in the queue by the last sample before it came; None where there is none.
        filling_ns: for how long the queue had not been empty then.
        came: events that came in that time.
        on_cpu, no_cpu: shares of the time around the wait in which the stage's thread ran, and was ready
            without a CPU, by what the kernel says of it now and then; None where its times were not recorded.
        waiting, serving: what the scheduler did to the stage's thread while the event waited in the queue,
            and while the stage had it; None where no scheduler events were recorded.
        queue, stage: where it was.
        push_ns: when it was put into the queue, CLOCK_MONOTONIC.
    """

    queue: str
    stage: str
    push_ns: int
    waited_ns: int
    served_ns: int
    fill: int | None
    filling_ns: int | None
    came: int | None
    on_cpu: float | None
    no_cpu: float | None
    waiting: SchedulerShare | None = None
    serving: SchedulerShare | None = None


@dataclass(frozen=True)
class TailEvent:
    """A slow event and its path.

    Attributes:
        event: its number in the traces.
        began_ns: CLOCK_MONOTONIC.
        total_ns: from there to its end.
        hops: its path.
    """

    event: int
    began_ns: int
    total_ns: int
    hops: tuple[TailHop, ...]

    @property
    def longest(self) -> TailHop | None:
        """The hop that took most of its time."""
        return max(self.hops, key=lambda hop: hop.waited_ns + hop.served_ns, default=None)


@dataclass(frozen=True)
class Tail:
    """The slowest traced events.

    Attributes:
        share: the quantile beyond which they are.
        limit_ns: its value.
        traced: events that came to the end.
        beyond: how many of them took longer; `events` are the slowest of these.
        scheduler: why nothing is said of the scheduler, or "".
        events: the slowest ones.
    """

    share: float
    limit_ns: float
    traced: int
    beyond: int
    events: tuple[TailEvent, ...]
    scheduler: str = ""

    def to_json(self) -> dict[str, Any]:
        """The machine contract of `latlab queues tail --json`."""
        return {"schema": 1, **asdict(self)}
