"""Any program as an application: a command that is started, or a process that runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from latlab.errors import LatlabError, UnavailableError
from latlab.formats.recording import RecordingWriter
from latlab.lab.diagnosis.applications.application import CannotReplayError, Observed, Place, Replay, Tell
from latlab.lab.diagnosis.applications.queue_recording import program_of
from latlab.lab.diagnosis.applications.running import require_running
from latlab.lab.diagnosis.applications.thread_capture import capture_of_command, capture_of_pid
from latlab.lab.diagnosis.next_commands import of_component, of_study, of_tail
from latlab.lab.diagnosis.question import Question
from latlab.lab.forecast.by_component_study import studied
from latlab.lab.forecast.by_queue_model import modelled
from latlab.lab.judge.residence import TraceTable
from latlab.model.diagnosis.answer import Forecast, Unknown
from latlab.model.threads import Code
from latlab.stubs import require_component
from latlab.words import duration

__all__ = ["Command", "Process"]

_LEAST_STUDY_S = 15.0


@dataclass(frozen=True, slots=True)
class _Program:
    """What a command and a process have in common."""

    question: Question

    @property
    def cpus(self) -> list[int]:
        """All of ours: where it may run is not known before it does."""
        return []

    def traces(self, seen: Observed) -> TraceTable | None:
        """Those that it has mapped (include/latlab/trace.hpp)."""
        if seen.queues is None or not seen.queues.traces.event.size:
            return None
        return seen.queues.traces

    def untraced(self, seen: Observed, place: Place) -> Unknown:
        """Its tail."""
        assert seen.queues is not None
        return of_tail(seen.queues.observation, place.output)

    def forecast(self, stage: str, seen: Observed, deadline: float) -> Forecast:
        """By a queueing model of its queues."""
        assert seen.queues is not None
        threads = seen.threads
        named = {seen.queues.diagnosis.limiting_stage, threads.limit.name if threads is not None else None}
        return modelled(
            seen.queues.observation, stage, seed=self.question.seed, deadline=deadline,
            roles=threads.roles if threads is not None else (), limits=stage in named,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Command(_Program):
    """A command, run from its start until it ends, or its time is over."""

    @property
    def target(self) -> str:
        """As one types it."""
        return " ".join(self.question.command)

    def require(self) -> None:
        """There is such a program, and each component that a file names."""
        program_of(self.question.command)
        for stage, component in self.question.components.items():
            where = f"diagnose.components.{stage}"
            require_component(component, self.question.command, self.question.source, where)

    def observe(self, place: Place) -> Observed:
        """Start it; its output goes to our stderr. It is ended with all of its processes."""
        command, seconds = self.question.command, self.question.seconds
        return _by_rights(lambda method: capture_of_command(command, seconds, place, method), place.tell)

    def replay(self, stage: str, place: Place, code: Sequence[Code] = ()) -> Replay:
        """The whole command again, with the component stubbed that does the work of the stage."""
        question = self.question
        component = question.components.get(stage)
        if component is None:
            raise _unknown_component(stage, question.command, code)

        def measure(deadline: float, writer: RecordingWriter, tell: Tell) -> Forecast:
            seconds = deadline - time.monotonic()
            if seconds < _LEAST_STUDY_S:
                raise LatlabError(
                    f"it does not fit: a study takes {duration(_LEAST_STUDY_S * 1e9)} at least, and "
                    f"{duration(max(0.0, seconds) * 1e9)} of the budget are left"
                )
            output = place.output / "study"
            return studied(
                question.command, stage, component, output, seconds=seconds, seed=question.seed, tell=tell
            )

        how = f"of the whole command, {component} stubbed"
        return Replay(measure, how, of_study(component, question.command))


@dataclass(frozen=True, slots=True)
class Process(_Program):
    """A process that runs, and goes on afterwards."""

    @property
    def pid(self) -> int:
        """Its id."""
        assert self.question.pid is not None
        return self.question.pid

    @property
    def target(self) -> str:
        """By its id."""
        return f"process {self.pid}"

    def require(self) -> None:
        """There is such a process, and it runs."""
        require_running(self.pid)

    def observe(self, place: Place) -> Observed:
        """Look at it for as long as was asked."""
        seconds = self.question.seconds
        return _by_rights(lambda method: capture_of_pid(self.pid, seconds, place, method), place.tell)

    def replay(self, stage: str, place: Place, code: Sequence[Code] = ()) -> Replay:
        """What it works on comes only once."""
        raise _unknown_component(stage, ())


def _unknown_component(stage: str, command: Sequence[str], code: Sequence[Code] = ()) -> CannotReplayError:
    what = f"which function or class a stub would stand in for to make {stage} faster was not told"
    return CannotReplayError(what, remedy=of_component(stage, command, code))


def _by_rights(capture: Callable[[str], Observed], tell: Tell) -> Observed:
    """Where the kernel's events may not be read, what /proc shows."""
    from latlab.schedule import grant

    try:
        return capture("auto")
    except UnavailableError as error:
        tell(f"{error.what}; observing /proc only, which shows less  →  {grant()}")
        return capture("proc")
