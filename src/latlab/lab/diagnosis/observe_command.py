"""Observes an application of one's own: a command that is started, or a process that runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from latlab.errors import InputError, LatlabError, UsageError
from latlab.formats.recording import RecordingWriter
from latlab.model.machine.environment import Environment
from latlab.model.queues.analysis import Analysis
from latlab.model.queues.observation import Observation
from latlab.queues import Recorder, analyse, applications, injected, load
from latlab.system.scratch import scratch

__all__ = [
    "CommandRun",
    "QueueRecording",
    "counters_in",
    "observe_command",
    "observe_pid",
    "program_of",
    "publishes",
    "require_counters",
]

KIND = "queues"
_APPEAR_S = 30.0  # an interpreter that imports half the world needs some seconds before its first queue
_ENDS_S = 5.0  # for a command to end when it is asked to
_PERIOD_NS = 200_000
_TWO_LINES = (
    "Python's own queues are counted by themselves (not under python -I or -E); publish others "
    "(Python: latlab.queues.instrument, C++: latlab/counters.hpp; see docs/tutorials/python-pipeline.md)"
)


@dataclass(frozen=True, slots=True)
class CommandRun:
    """What observing an application gave.

    Attributes:
        status: its exit status; None while it still runs.
        seconds: that it ran, or that it was observed.
    """

    observation: Observation
    analysis: Analysis
    status: int | None
    seconds: float


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
    """Whether a process, or any at all, publishes the counters of its queues."""
    return any(one.live and one.queues and pid in (None, one.pid) for one in applications())


def require_counters(pid: int) -> None:
    """Refuse a process that can't be observed.

    Raises:
        InputError: no such process publishes counters.
    """
    if not publishes(pid):
        raise InputError(
            str(pid), "no live process of this id publishes counters", remedy="see `latlab queues list`"
        )


def observe_command(
    command: Sequence[str],
    output: Path,
    *,
    seconds: float,
    environment: Environment,
    tell: Callable[[str], None],
) -> CommandRun:
    """Start a command, record the queues of all of its processes until it ends, analyse them.

    The command's output goes to our stderr. It is stopped after `seconds`, as a service that never ends is.

    Raises:
        UsageError: there is no such program.
        LatlabError: it published no queue.
    """
    program = program_of(command)
    with scratch("command", shared=True) as folder, counters_in(str(folder)):
        # A session of its own: what it starts is ended with it.
        process = subprocess.Popen(
            [program, *command[1:]], stdout=2, env=injected(os.environ, folder), start_new_session=True
        )
        tell(f"observing `{' '.join(command)}` from outside, for {seconds:g} s at most")
        with QueueRecording(command, output, seconds=seconds, environment=environment) as recording:
            return recording.until_end_of(process)


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
        self._stack = ExitStack()
        self._recorder: Recorder | None = None
        self._begin = time.monotonic()
        self._end: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def begin(self) -> None:
        """Record from now on; more than once is once."""
        if self._recorder is None:
            writer = self._stack.enter_context(
                RecordingWriter(
                    self._output, KIND, parameters=self._parameters, environment=self._environment
                )
            )
            self._recorder = self._stack.enter_context(Recorder(["*"], writer, period_ns=_PERIOD_NS))

    def end(self) -> None:
        """Record no more: who is told to end stops taking, and that is nothing of his own."""
        if self._recorder is not None and self._end is None:
            self._end = time.monotonic() - self._begin
            self._stack.close()

    def finished(self, status: int | None) -> CommandRun | None:
        """What was recorded of a command that has ended meanwhile; None where it published no queue.

        Args:
            status: with which it ended by itself; None where its time was over.
        """
        if self._recorder is None:
            return None
        self.end()
        assert self._end is not None
        observation = load(self._output)
        return CommandRun(observation, analyse(observation), status, self._end)

    def until_end_of(self, process: subprocess.Popen[bytes]) -> CommandRun:
        """Until the command ends, or its time is over, when it is ended; then analyse.

        Raises:
            LatlabError: it published no queue.
        """
        try:
            if self._recorder is None:
                _await_queues(process, self._begin, min(self._seconds, _APPEAR_S))
                self.begin()
            assert self._recorder is not None
            until = self._begin + self._seconds
            while process.poll() is None and time.monotonic() < until and not self._recorder.failed:
                time.sleep(0.01)
            self.end()
        finally:
            status = _ended(process)
        run = self.finished(status)
        assert run is not None
        return run


def _ended(process: subprocess.Popen[bytes]) -> int | None:
    """End it with all that it started, if it hasn't; the status with which it ended by itself."""
    status = process.poll()
    _end_all(process)
    return status


def observe_pid(
    pid: int, output: Path, *, seconds: float, environment: Environment, tell: Callable[[str], None]
) -> CommandRun:
    """Record the queues of a running process, analyse them; the process goes on.

    Raises:
        InputError: no such process publishes counters.
    """
    require_counters(pid)
    tell(f"observing process {pid} from outside for {seconds:g} s")
    begin = time.monotonic()
    with (
        RecordingWriter(
            output, KIND, parameters={"pid": pid, "seconds": seconds}, environment=environment
        ) as writer,
        Recorder([pid], writer, period_ns=_PERIOD_NS) as recorder,
    ):
        while time.monotonic() < begin + seconds and recorder.anyone_alive and not recorder.failed:
            time.sleep(0.02)
    observation = load(output)
    return CommandRun(observation, analyse(observation), None, time.monotonic() - begin)


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


def _end_all(process: subprocess.Popen[bytes]) -> None:
    """End a command and every process that it started and that is still of its group."""

    def tell(number: int) -> bool:
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):  # macOS says that of a group of zombies
            if process.poll() is None:  # whoever started it gave it no group of its own
                process.send_signal(number)
            return False
        return True

    tell(signal.SIGTERM)
    until = time.monotonic() + _ENDS_S
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    while time.monotonic() < until and tell(0):
        time.sleep(0.01)
    tell(signal.SIGKILL)
    process.wait()


def _await_queues(process: subprocess.Popen[bytes], begin: float, seconds: float) -> None:
    while not any(one.queues for one in applications()):
        if process.poll() is not None:
            raise LatlabError(
                f"the command ended (status {process.returncode}) without publishing a queue",
                remedy=_TWO_LINES,
            )
        if time.monotonic() > begin + seconds:
            raise LatlabError(f"the command published no queue within {seconds:g} s", remedy=_TWO_LINES)
        time.sleep(0.01)
