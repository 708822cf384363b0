"""Observes an application of one's own: a command that is started, or a process that runs."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from latlab import words
from latlab.errors import InputError, UsageError
from latlab.formats.event_traces.growing import trace_files
from latlab.formats.recording import RecordingWriter
from latlab.lab.judge.watched import Watched, watched
from latlab.model.evidence.pipeline import RunDoubt
from latlab.model.evidence.said import said
from latlab.model.machine.environment import Environment
from latlab.queues import Recorder, applications, load
from latlab.schedule.tree import descends

__all__ = [
    "MappedTraces",
    "QueueRecording",
    "QueueRun",
    "counters_in",
    "observe_pid",
    "program_of",
    "publishes",
    "require_counters",
    "stopped",
]

KIND = "queues"
_PERIOD_NS = 200_000
_MAPPED_S = 0.25  # between two looks for trace files
# By SIGINT, SIGKILL, SIGPIPE and SIGTERM as a shell tells it, and by timeout(1).
_STOPPED = (124, 130, 137, 141, 143)


@dataclass(frozen=True, slots=True)
class QueueRun:
    """What observing the queues of a program gave.

    Attributes:
        status: its exit status; None while it still runs.
        seconds: that it ran, or that it was observed.
        distrust: why the observation is not trustworthy; empty when it is.
        judged_s: how long finding what limits took.
    """

    watched: Watched
    status: int | None
    seconds: float
    distrust: tuple[str, ...]
    judged_s: float = 0.0


def program_of(command: Sequence[str]) -> str:
    """The program that a command starts.

    Raises:
        UsageError: there is none of this name.
    """
    program = shutil.which(command[0])
    if program is None and Path(command[0]).is_file():
        remedy = f"start it as you would: -- python {command[0]}; a layout's name ends in .toml"
        raise UsageError(f"'{command[0]}' is a file that can't be executed", remedy=remedy)
    if program is None:
        raise UsageError(f"there is no program '{command[0]}'", remedy="give a command as you would type it")
    return program


def publishes(pid: int | None = None) -> bool:
    """Whether a process or a child of it, or any at all, publishes the counters of its queues."""
    return any(
        one.live and one.queues and (pid in (None, one.pid) or descends(one.pid, pid or 0))
        for one in applications()
    )


def require_counters(pid: int) -> None:
    """Refuse a process that can't be observed.

    Raises:
        InputError: no such process publishes counters.
    """
    if not publishes(pid):
        raise InputError(
            str(pid), "no live process with this id publishes counters", remedy="see `latlab queues list`"
        )


def stopped(status: int) -> bool:
    """Whether a command with this status was stopped from outside, as by `timeout`: it did not fail."""
    return status < 0 or status in _STOPPED


class MappedTraces:
    """The event traces that a program writes: files that its processes have mapped, seen while they run."""

    def __init__(self) -> None:
        self._found: dict[Path, None] = {}
        self._next = 0.0

    def look(self, *pids: int) -> None:
        """Look for them, if the last look is long enough ago; without a process, of all that publish."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _MAPPED_S
        for pid in pids or [one.pid for one in applications() if one.live]:
            self._found |= dict.fromkeys(trace_files(pid))

    def files(self) -> list[Path]:
        """Those that are still there."""
        return [path for path in self._found if path.exists()]


class QueueRecording:
    """Records the queues of a command that was started, from when it publishes some.

    A context manager, so that the recording is finished in whatever way it ends.
    """

    def __init__(
        self, command: Sequence[str], output: Path, *, seconds: float, environment: Environment
    ) -> None:
        self._parameters = {"command": list(command), "seconds": seconds}
        self._output = output
        self._seconds = seconds
        self._environment = environment
        self._stack, self._sampling = ExitStack(), ExitStack()
        self._writer: RecordingWriter | None = None
        self._recorder: Recorder | None = None
        self._traces = MappedTraces()
        self._begin = time.monotonic()
        self._end: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._sampling.__exit__(kind, error, trace)
        finally:
            self._stack.__exit__(kind, error, trace)

    def begin(self) -> None:
        """Record from now on; more than once is once."""
        if self._recorder is None:
            self._writer = self._stack.enter_context(
                RecordingWriter(
                    self._output, KIND, parameters=self._parameters, environment=self._environment
                )
            )
            self._recorder = Recorder(["*"], self._writer, period_ns=_PERIOD_NS)
            self._sampling.enter_context(self._recorder)
        self._traces.look()

    def end(self) -> None:
        """Record no more: who is told to end stops taking, and that is nothing of his own."""
        if self._recorder is not None and self._end is None:
            self._traces.look()
            self._end = time.monotonic() - self._begin
            self._sampling.close()

    def finished(self, status: int | None) -> QueueRun | None:
        """What was recorded of a command that has ended meanwhile; None where it published no queue.

        Args:
            status: with which it ended by itself; None where its time was over.
        """
        if self._recorder is None:
            return None
        self.end()
        assert self._end is not None
        assert self._writer is not None
        run = _judged(self._writer, self._traces, status, self._end)
        self._stack.close()
        return run


def observe_pid(
    pid: int, output: Path, *, seconds: float, environment: Environment, tell: Callable[[str], None]
) -> QueueRun:
    """Record the queues of a running process, analyse them; the process goes on.

    Raises:
        InputError: no such process publishes counters.
    """
    require_counters(pid)
    tell(f"observing process {pid} from outside for {words.seconds(seconds)}")
    begin = time.monotonic()
    traces = MappedTraces()
    parameters = {"pid": pid, "seconds": seconds}
    with RecordingWriter(output, KIND, parameters=parameters, environment=environment) as writer:
        with Recorder([pid], writer, period_ns=_PERIOD_NS) as recorder:
            while time.monotonic() < begin + seconds and recorder.anyone_alive and not recorder.failed:
                traces.look(pid)
                time.sleep(0.02)
        return _judged(writer, traces, None, time.monotonic() - begin, of_window=True)


def _judged(
    writer: RecordingWriter,
    traces: MappedTraces,
    status: int | None,
    seconds: float,
    *,
    of_window: bool = False,
) -> QueueRun:
    """What a recording says whose sampling is over.

    Args:
        of_window: of the traces only those of events that were under way within the recording.
    """
    began = time.monotonic()
    observation = load(writer.path)
    reasons: list[str] = []
    if status not in (0, None) and not stopped(status):
        reasons.append(said(RunDoubt.ENDED, status=status))
    if observation.gaps:
        missed = int(observation.gaps["periods"].sum())
        sweeps = int(observation.sweeps["t_ns"].size)
        if missed > sweeps:
            reasons.append(said(RunDoubt.MOSTLY_MISSED, missed=missed, attempts=missed + sweeps))
    seen = watched(writer, observation, traces.files(), of_window=of_window, distrust=reasons)
    return QueueRun(seen, status, seconds, tuple(reasons), time.monotonic() - began)


@contextmanager
def counters_in(folder: str) -> Iterator[None]:
    """A folder of its own for the command's counters: whatever publishes there belongs to it."""
    before = os.environ.get("LATLAB_COUNTERS")
    os.environ["LATLAB_COUNTERS"] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ["LATLAB_COUNTERS"]
        else:
            os.environ["LATLAB_COUNTERS"] = before
