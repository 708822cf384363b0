"""What a diagnosis asks of an application, whichever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from latlab.errors import LatlabError
from latlab.formats.recording import RecordingWriter
from latlab.lab.judge.residence import TraceTable
from latlab.lab.judge.watched import Watched
from latlab.model.diagnosis.answer import Applied, Forecast, Unknown
from latlab.model.machine.environment import Environment
from latlab.model.requests import Requests
from latlab.model.schedule import Schedule
from latlab.model.threads import Code, ThreadFindings

__all__ = ["Application", "CannotReplayError", "Observed", "Place", "Replay", "Tell"]

Tell = Callable[[str], None]


class CannotReplayError(LatlabError):
    """It can't be run again with the stage made faster; the remedy is the command that would find out."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where and how an application is observed.

    Attributes:
        output: the diagnosis's folder; what is observed is a recording in it, "observation".
        temporary: for files that nobody needs afterwards.
        environment: that recordings state.
        tell: takes a line on each step as it begins.
    """

    output: Path
    temporary: Path
    environment: Environment
    tell: Tell

    @property
    def observation(self) -> Path:
        """The folder of the observation's own recording."""
        return self.output / "observation"


@dataclass(frozen=True, slots=True)
class Observed:
    """What observing an application gave.

    Attributes:
        queues: what its queues tell; None of one that publishes none.
        threads, schedule: what its threads do; None where that was not looked at: of the trading pipeline, of
            a program in C++ that publishes its queues, which tell more, and where the kernel's events may
            not be read.
        status: its exit status; None while it runs, or when it was stopped.
        distrust: why the observation itself is not trustworthy; empty when it is.
        requests: what it answered; None of one that answered too few to speak of.
        few_requests: of such a one, how many.
        looks: names of earlier looks that were kept beside the observation, since they were disturbed.
        judged_s: how long finding what limits took, from what was observed.
    """

    queues: Watched | None
    threads: ThreadFindings | None
    schedule: Schedule | None
    status: int | None
    seconds: float
    distrust: tuple[str, ...] = ()
    looks: tuple[str, ...] = ()
    requests: Requests | None = None
    judged_s: float = 0.0
    few_requests: int = 0


@dataclass(frozen=True, slots=True)
class Replay:
    """How an application is run again on the same input, with a stage of it made faster.

    Attributes:
        measure: runs it until `deadline` (of time.monotonic), and keeps each run's numbers by the writer.
        how: what is said of the runs.
        again: the command that would measure it where this fails.
        apply: runs it until `deadline` with the stage really faster, as a forecast says; None: it can't.
    """

    measure: Callable[[float, RecordingWriter, Tell], Forecast]
    how: str
    again: str
    apply: Callable[[Forecast, float, float, RecordingWriter, Tell], Applied] | None = None


class Application(Protocol):
    """What is diagnosed."""

    @property
    def target(self) -> str:
        """How the answer calls it."""

    @property
    def cpus(self) -> list[int]:
        """Those that it may use."""

    def require(self) -> None:
        """Refuse what can't be observed, before anything is measured or written.

        Raises:
            LatlabError: says what is wrong with it.
        """

    def observe(self, place: Place) -> Observed:
        """Run it, or look at it while it runs.

        Raises:
            LatlabError: nothing could be observed.
        """

    def traces(self, seen: Observed) -> TraceTable | None:
        """The event traces that it wrote meanwhile; None where it wrote none."""

    def untraced(self, seen: Observed, place: Place) -> Unknown:
        """What is not known without traces, and the command that would find out."""

    def replay(self, stage: str, place: Place, code: Sequence[Code] = ()) -> Replay:
        """How it is run again with this stage made faster.

        Args:
            code: where the stage runs, as far as that was seen.

        Raises:
            CannotReplayError: it can't be.
        """

    def forecast(self, stage: str, seen: Observed, deadline: float) -> Forecast:
        """What a faster stage would buy by a model of what was observed, where no replay can tell.

        Args:
            deadline: on the clock of time.monotonic: no simulation of the model begins after it.

        Raises:
            LatlabError: the observation makes no model, or its simulations don't fit.
        """
