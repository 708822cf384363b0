"""Observes any program from outside: what its threads do; its queues instead, where it publishes counters."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from latlab.errors import InputError, UnavailableError
from latlab.lab.diagnosis.observe_command import (
    CommandRun,
    QueueRecording,
    counters_in,
    observe_pid,
    program_of,
    publishes,
)
from latlab.model.machine.environment import Environment
from latlab.model.queues.observation import Observation
from latlab.model.schedule import Schedule
from latlab.model.threads import Limit, LimitKind, ThreadFindings
from latlab.queues import applications, injected
from latlab.system.scratch import scratch
from latlab.words import duration

__all__ = ["ProgramRun", "observe_program", "require_process"]

_LISTEN_LOOKS_S = (0.2, 0.6, 1.5, 4.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """What observing a program gave.

    Attributes:
        threads, schedule: None of a program in C++ that publishes its queues, which tell more, and where the
            kernel's events may not be read.
        queues: None of a program that publishes none.
        status: its exit status; None while it runs, or when it was stopped.
    """

    threads: ThreadFindings | None
    schedule: Schedule | None
    queues: CommandRun | None
    status: int | None
    seconds: float


def require_process(pid: int) -> None:
    """Refuse a process that there is not.

    Raises:
        InputError: no such process.
    """
    if not Path(f"/proc/{pid}").is_dir():
        raise InputError(str(pid), "there is no process of this id", remedy="see `ps -e`")


@dataclass
class _Watch:
    """Asked while a program is captured: who of it accepts connections, and whether it publishes queues."""

    recording: QueueRecording | None = None
    missed: bool = False  # it published queues, and had ended before they could be recorded
    pid: int | None = None
    begin: float = field(default_factory=time.monotonic)
    looks: list[float] = field(default_factory=lambda: list(_LISTEN_LOOKS_S))
    listens: set[int] = field(default_factory=set)

    def __call__(self) -> bool:
        """Whether it publishes queues, which tell more than its threads."""
        if self.looks and time.monotonic() > self.begin + self.looks[0]:
            del self.looks[0]
            self.listens |= _listening(self.pid)
        if self.recording is None or not publishes():
            return False
        try:
            self.recording.begin()
        except InputError:  # it has ended between the two looks
            self.recording, self.missed = None, True
            return False
        if all(_interpreted(one.pid) for one in applications() if one.live and one.queues):
            # An interpreter's queues are slow enough for both to be watched; threads tell what queues don't.
            self.recording = None
            return False
        return True


def observe_program(
    command: Sequence[str],
    pid: int | None,
    output: Path,
    *,
    seconds: float,
    environment: Environment,
    tell: Callable[[str], None],
) -> ProgramRun:
    """Run a command, or look at a running process; its output goes to our stderr.

    Where the kernel's events may not be read, /proc is looked at, which tells less.

    Args:
        output: where a recording of its queues goes, if it publishes any.
        seconds: at most; a command is ended after them with all of its processes, a process goes on.

    Raises:
        UsageError: there is no such program.
        InputError: there is no such process, or it is another user's.
    """

    def observe(method: str) -> ProgramRun:
        return _observe(command, pid, output, method, seconds=seconds, environment=environment, tell=tell)

    try:
        return observe("auto")
    except UnavailableError as error:
        from latlab.schedule import grant

        tell(f"{error.what}; only looking at /proc, which tells less  →  {grant()}")
        return observe("proc")


def _observe(
    command: Sequence[str],
    pid: int | None,
    output: Path,
    method: str,
    *,
    seconds: float,
    environment: Environment,
    tell: Callable[[str], None],
) -> ProgramRun:
    from latlab.schedule import GivenUpError, capture_command, capture_pids
    from latlab.schedule.sockets import local_peers

    watch = _Watch(pid=pid)
    missed = False
    queues: CommandRun | None = None
    if pid is not None:
        if publishes(pid):
            return _by_queues(observe_pid(pid, output, seconds=seconds, environment=environment, tell=tell))
        tell(f"observing process {pid} from outside for {seconds:g} s")
        schedule = capture_pids([pid], seconds, stop=watch, method=method)
    else:
        program = program_of(command)
        tell(f"observing `{' '.join(command)}` from outside, for {seconds:g} s at most")
        with (
            scratch("command", shared=True) as folder,
            counters_in(str(folder)),
            QueueRecording(command, output, seconds=seconds, environment=environment) as recording,
        ):
            watch.recording = recording
            try:
                schedule = capture_command(
                    [program, *command[1:]],
                    seconds,
                    output=2,
                    environment=injected(os.environ, folder),
                    give_up=watch,
                    over=recording.end,
                    method=method,
                )
            except GivenUpError as given_up:
                tell("it publishes its queues: observing these")
                return _by_queues(recording.until_end_of(given_up.process))
            missed = watch.missed
            queues = recording.finished(schedule.exit_code)
    tell("analysing what its threads did")
    from latlab.threads import analyse

    labels = {} if queues is None else _labels(queues.observation)
    found = analyse(
        schedule, root=pid, own=_own(pid), listens=frozenset(watch.listens), labels=labels,
        peers=local_peers(schedule.objects, _servers({thread.pid for thread in schedule.threads})),
    )  # fmt: skip
    if missed:
        found = replace(found, limit=_too_short(found.limit, schedule.seconds))
    return ProgramRun(found, schedule, queues, schedule.exit_code, schedule.seconds)


def _labels(observation: Observation) -> dict[int, str]:
    """Of each thread that puts or takes the stage that it runs, where it is one only."""
    takes: dict[int, set[str]] = {}
    puts: dict[int, set[str]] = {}
    for queue in observation.queues:
        takes.setdefault(queue.consumer_tid, set()).add(queue.drain)
        puts.setdefault(queue.producer_tid, set()).add(queue.source)
    known = {**puts, **takes}  # what it takes is what it works on
    return {
        tid: next(iter(names)) for tid, names in known.items() if tid and len(names) == 1 and "" not in names
    }


def _too_short(limit: Limit, seconds: float) -> Limit:
    """Threads of a program that publishes queues say less than these: its name is withheld."""
    why = f"it publishes queues, and ended after {duration(seconds * 1e9)}, before these were observed"
    return replace(
        limit, kind=LimitKind.UNKNOWN, name="", confidence=0.0, share=0.0,
        sentence=f"Cannot tell what limits: {why}.", why_not=(f"{why}; a run of some seconds shows them",),
    )  # fmt: skip


def _interpreted(pid: int) -> bool:
    """Whether a process is a Python interpreter; False where it can't be known."""
    try:
        return "python" in os.path.basename(os.readlink(f"/proc/{pid}/exe"))  # noqa: PTH119, PTH115
    except OSError:
        return False


def _by_queues(run: CommandRun) -> ProgramRun:
    return ProgramRun(None, None, run, run.status, run.seconds)


def _own(pid: int | None) -> frozenset[int] | None:
    if pid is None:
        return None
    from latlab.schedule.tree import tree_of

    return frozenset((pid, *tree_of([pid])))


def _servers(observed: set[int]) -> dict[int, str]:
    """Port -> name of the process that listens there, of programs that were not observed."""
    import psutil

    found: dict[int, str] = {}
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.Error:  # another user's are not to be seen
        return found
    for one in connections:
        if one.status != psutil.CONN_LISTEN or not one.pid or one.pid in observed:
            continue
        try:
            found[one.laddr.port] = psutil.Process(one.pid).name()
        except psutil.Error:
            continue  # it has ended
    return found


def _listening(pid: int | None) -> set[int]:
    """Processes of the program that accept connections."""
    import psutil

    found: set[int] = set()
    try:
        root = psutil.Process(pid)
        family = [*([root] if pid is not None else []), *root.children(recursive=True)]
    except psutil.Error:
        return found
    for one in family:
        try:
            connections = one.net_connections(kind="all")
        except psutil.Error:
            continue  # it has ended
        if any(connection.status == psutil.CONN_LISTEN for connection in connections):
            found.add(one.pid)
    return found
