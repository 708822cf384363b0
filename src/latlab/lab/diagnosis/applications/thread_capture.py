"""Observes any program from outside: what its threads do; its queues too, where it publishes counters."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypedDict

from latlab import words
from latlab.errors import InputError, UnavailableError
from latlab.lab.diagnosis.applications.application import Observed, Place
from latlab.lab.diagnosis.applications.connections import Asked, asked_of, behind, listening, servers, whom
from latlab.lab.diagnosis.applications.queue_recording import (
    QueueRecording,
    QueueRun,
    counters_in,
    observe_pid,
    program_of,
    publishes,
)
from latlab.lab.judge.lanes import alike_lanes
from latlab.model.queues.analysis import Verdict
from latlab.model.queues.observation import Observation
from latlab.model.requests import Requests
from latlab.model.schedule import Schedule
from latlab.model.threads import Limit, LimitKind
from latlab.queues import injected
from latlab.system.scratch import scratch
from latlab.words import duration

if TYPE_CHECKING:
    from latlab.schedule import Transfers

__all__ = ["by_queues", "capture_of_command", "capture_of_pid"]

_LEAST_REQUESTS = 20  # fewer say nothing of a server's latencies
_A_FEW = 3  # requests: with fewer it is hardly a server
_LISTEN_LOOKS_S = (0.2, 0.4, 0.7, 1.0, 1.5, 4.0, 10.0, 30.0)


@dataclass
class _Watch:
    """Looks, while a program is captured, who of it accepts connections, and whether it publishes queues."""

    recording: QueueRecording | None = None
    missed: bool = False  # it published queues, and had ended before they could be recorded
    pid: int | None = None
    begin: float = field(default_factory=time.monotonic)
    looks: list[float] = field(default_factory=lambda: list(_LISTEN_LOOKS_S))
    doors: set[int] = field(default_factory=set)
    clients: set[int] = field(default_factory=set)
    asks: dict[int, set[object]] = field(default_factory=dict)
    far: dict[int, set[str]] = field(default_factory=dict)  # addresses

    @property
    def listens(self) -> frozenset[int]:
        """Who accepts connections: a client that inherited its own server's door does not."""
        return frozenset(self.doors - self.clients)

    def __call__(self) -> bool:
        """Look; False, since nothing that is seen ends a capture."""
        if self.looks and time.monotonic() > self.begin + self.looks[0]:
            del self.looks[0]
            doors, clients, asks, far = listening(self.pid)
            self.doors |= doors
            self.clients |= clients
            for one, ports in asks.items():
                self.asks.setdefault(one, set()).update(ports)
            for one, names in far.items():
                self.far.setdefault(one, set()).update(names)
        if self.recording is None or not publishes():
            return False
        try:
            self.recording.begin()
        except InputError:  # it has ended between the two looks
            self.missed = True
        self.recording = None
        return False


def capture_of_pid(pid: int, seconds: float, place: Place, method: str = "auto") -> Observed:
    """Look at a running process; at its queues alone where it publishes some.

    Raises:
        UnavailableError: the kernel's events may not be read.
    """
    from latlab.schedule import capture_pids

    if publishes(pid):
        return by_queues(
            observe_pid(
                pid, place.observation, seconds=seconds, environment=place.environment, tell=place.tell
            )
        )
    place.tell(f"observing process {pid} from outside for {words.seconds(seconds)}")
    watch = _Watch(pid=pid)
    moved: list[Transfers] = []
    schedule = _with_transfers(
        moved,
        lambda keep: capture_pids([pid], seconds, stop=watch, transfers=keep, method=method),
    )
    return replace(_analysed(schedule, watch, None, place, moved), **_requests(moved, schedule))


def capture_of_command(
    command: Sequence[str], seconds: float, place: Place, method: str = "auto"
) -> Observed:
    """Run a command, and look at what its threads do, and at its queues where it publishes some.

    Raises:
        UsageError: there is no such program.
        UnavailableError: the kernel's events may not be read.
    """
    from latlab.schedule import capture_command

    moved: list[Transfers] = []
    program = program_of(command)
    place.tell(f"observing `{' '.join(command)}` from outside, for {words.seconds(seconds)} at most")
    with (
        scratch("command", shared=True) as folder,
        counters_in(str(folder)),
        QueueRecording(
            command, place.observation, seconds=seconds, environment=place.environment
        ) as recording,
    ):
        watch = _Watch(recording=recording)
        schedule = _with_transfers(
            moved,
            lambda keep: capture_command(
                [program, *command[1:]],
                seconds,
                output=2,
                environment=injected(os.environ, folder),
                beside=watch,
                over=recording.end,
                transfers=keep,
                method=method,
            ),
        )
        queues = recording.finished(schedule.exit_code)
    return replace(_analysed(schedule, watch, queues, place, moved), **_requests(moved, schedule))


def _with_transfers(
    moved: list[Transfers], capture: Callable[[Callable[[Transfers], None] | None], Schedule]
) -> Schedule:
    """A capture with what went through sockets; without it where BPF isn't allowed."""
    try:
        return capture(moved.append)
    except UnavailableError:
        return capture(None)


class _Answered(TypedDict):
    """What a program answered, as fields of `Observed`."""

    requests: Requests | None
    few_requests: int


def _requests(moved: Sequence[Transfers], schedule: Schedule) -> _Answered:
    """What the program answered; of too few to speak of only their number."""
    from latlab.requests import find_requests, of_transfers

    if not moved:
        return {"requests": None, "few_requests": 0}
    seen = find_requests(moved[0], schedule)
    if len(seen.rows) >= _LEAST_REQUESTS:
        found = of_transfers(moved[0], schedule, found=seen)[1]
        if found.requests >= _LEAST_REQUESTS:
            return {"requests": found, "few_requests": 0}
    return {"requests": None, "few_requests": len(seen.rows) if len(seen.rows) >= _A_FEW else 0}


def _analysed(
    schedule: Schedule, watch: _Watch, queues: QueueRun | None, place: Place, moved: Sequence[Transfers]
) -> Observed:
    from latlab.schedule.sockets import local_peers
    from latlab.threads import analyse

    place.tell("analysing what its threads did")
    began = time.monotonic()
    pid = watch.pid
    seen = None if queues is None else queues.watched
    labels = {} if seen is None else _labels(seen.observation, alike_lanes(seen.diagnosis, seen.observation))
    asked = asked_of(schedule, moved[0], watch.asks.keys() - watch.listens) if moved else Asked()
    served = asked_of(schedule, moved[0], watch.listens) if moved else Asked()
    found = analyse(
        schedule, root=pid, own=_own(pid), listens=watch.listens, labels=labels, asks=frozenset(watch.asks),
        serve=behind(set().union(*watch.asks.values())),
        peers=local_peers(schedule.objects, servers({thread.pid for thread in schedule.threads})),
        answers=whom(watch.asks, asked.answers), paces=asked.paces | served.paces,
        far={one: ", ".join(sorted(names)[:3]) for one, names in watch.far.items() if names},
    )  # fmt: skip
    if watch.missed:
        found = replace(found, limit=_too_short(found.limit, schedule.seconds))
    status, seconds = schedule.exit_code, schedule.seconds
    if queues is None or _only_pools(queues):
        return Observed(None, found, schedule, status, seconds, judged_s=time.monotonic() - began)
    judged_s = queues.judged_s + time.monotonic() - began
    return Observed(queues.watched, found, schedule, status, seconds, queues.distrust, judged_s=judged_s)


def _only_pools(queues: QueueRun) -> bool:
    """Whether it published nothing but locks and semaphores, and hardly waits for one: threads tell more."""
    seen = queues.watched
    sides = ((queue.source, queue.drain) for queue in seen.observation.queues)
    return seen.diagnosis.verdict is not Verdict.POOL and all(source == drain for source, drain in sides)


def _labels(observation: Observation, lanes: Mapping[str, str]) -> dict[int, str]:
    """Of each thread that puts or takes the stage that it runs, where it is one only.

    Args:
        lanes: of the labels of some that do the same what all of them are called.
    """
    takes: dict[int, set[str]] = {}
    puts: dict[int, set[str]] = {}
    for queue in observation.queues:
        takes.setdefault(queue.consumer_tid, set()).add(queue.drain)
        # Which of several put first does not tell what it is called by itself.
        puts.setdefault(queue.producer_tid, set()).add(queue.source if len(queue.sources) < 2 else "")
    known = {**puts, **takes}  # what it takes is what it works on
    return {
        tid: lanes.get(name, name)
        for tid, names in known.items()
        if tid and len(names) == 1 and (name := next(iter(names)))
    }


def _too_short(limit: Limit, seconds: float) -> Limit:
    """Threads of a program that publishes queues say less than these: its name is withheld."""
    why = f"it publishes queues, and ended after {duration(seconds * 1e9)}, before these were observed"
    return replace(
        limit, kind=LimitKind.UNKNOWN, name="", confidence=0.0, share=0.0,
        sentence=f"Cannot tell what limits: {why}.", why_not=(f"{why}; a run of some seconds shows them",),
    )  # fmt: skip


def by_queues(run: QueueRun) -> Observed:
    """Its queues were all that was looked at."""
    return Observed(run.watched, None, None, run.status, run.seconds, run.distrust, judged_s=run.judged_s)


def _own(pid: int | None) -> frozenset[int] | None:
    if pid is None:
        return None
    from latlab.schedule.tree import tree_of

    return frozenset((pid, *tree_of([pid])))
