"""Observes an application of one's own: a command that is started, or a process that runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from latlab.errors import InputError, LatlabError, UsageError
from latlab.formats.recording import RecordingWriter
from latlab.model.machine.environment import Environment
from latlab.model.queues.analysis import Analysis
from latlab.model.queues.observation import Observation
from latlab.queues import Recorder, analyse, applications, injected, load
from latlab.system.scratch import scratch

__all__ = ["CommandRun", "observe_command", "observe_pid", "program_of", "require_counters"]

KIND = "queues"
_APPEAR_S = 30.0  # an interpreter that imports half the world needs some seconds before its first queue
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


def require_counters(pid: int) -> None:
    """Refuse a process that can't be observed.

    Raises:
        InputError: no such process publishes counters.
    """
    if not any(one.live and one.pid == pid for one in applications()):
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
    with scratch("command", shared=True) as folder, _counters_in(str(folder)):
        begin = time.monotonic()
        process = subprocess.Popen([program, *command[1:]], stdout=2, env=injected(os.environ, folder))
        try:
            tell(f"observing `{' '.join(command)}` from outside, for {seconds:g} s at most")
            _await_queues(process, begin)
            with RecordingWriter(
                output,
                KIND,
                parameters={"command": list(command), "seconds": seconds},
                environment=environment,
            ) as writer:
                with Recorder(["*"], writer, period_ns=_PERIOD_NS) as recorder:
                    while (
                        process.poll() is None and time.monotonic() < begin + seconds and not recorder.failed
                    ):
                        time.sleep(0.01)
                ended = time.monotonic() - begin
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                status = None
            else:
                status = process.returncode
        observation = load(output)
        return CommandRun(observation, analyse(observation), status, ended)


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
def _counters_in(folder: str) -> Iterator[None]:
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


def _await_queues(process: subprocess.Popen[bytes], begin: float) -> None:
    while not any(one.queues for one in applications()):
        if process.poll() is not None:
            raise LatlabError(
                f"the command ended (status {process.returncode}) without publishing a queue",
                remedy=_TWO_LINES,
            )
        if time.monotonic() > begin + _APPEAR_S:
            raise LatlabError(f"the command published no queue within {_APPEAR_S:.0f} s", remedy=_TWO_LINES)
        time.sleep(0.01)
