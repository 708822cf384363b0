"""`record`: an application's queues, recorded and judged by one call from Python."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latlab.errors import UsageError
from latlab.formats.recording import RecordingWriter
from latlab.model.framed import Framed
from latlab.model.queues.analysis import Analysis
from latlab.queues.judge.verdict import analyse
from latlab.queues.sample.load import load
from latlab.queues.sample.recorder import Recorder
from latlab.system.environment import capture
from latlab.words import share

__all__ = ["RecordedQueues", "record"]

_STEP_S = 0.05


@dataclass(frozen=True, repr=False)
class RecordedQueues(Framed):
    """A recording of queues, and what it means.

    Attributes:
        folder: the recording; `latlab queues report` draws it.
        analysis: what limits, with the statistics of each queue and stage.
    """

    folder: Path
    analysis: Analysis

    @property
    def finding(self) -> str:
        """What limits, with how sure that is."""
        stage = self.analysis.limiting_stage
        named = str(self.analysis.verdict) if stage is None else f"Bottleneck: {stage}"
        sure = share(self.analysis.confidence, digits=0)
        return f"{named} (confidence {sure}); recorded in {self.folder}"

    def columns(self) -> dict[str, list[Any]]:
        """One row a queue: fills are of the time, rates in events a second, times in ns."""
        queues = self.analysis.queues
        return {
            "queue": [one.name or f"queue {one.number}" for one in queues],
            "source": [one.source for one in queues],
            "drain": [one.drain for one in queues],
            "capacity": [one.capacity for one in queues],
            "mean_fill": [one.mean_fill for one in queues],
            "fill_p99": [one.fill_p99 for one in queues],
            "full": [one.full for one in queues],
            "dropped": [one.dropped for one in queues],
            "rate_hz": [one.rate_out_hz for one in queues],
            "residence_ns": [one.residence_ns for one in queues],
        }

    def _bars(self) -> str:
        return "mean_fill"


def record(
    target: int | str | Sequence[int | str],
    *,
    seconds: float | None = None,
    period_ns: int = 100_000,
    output: str | os.PathLike[str] | None = None,
) -> RecordedQueues:
    """Record the queues of running applications from outside, and name what limits.

    Args:
        target: a process id, the name of an application, or several of them.
        seconds: to record; None: until all of them have ended.
        period_ns: between two looks at every queue.
        output: the recording's folder; a new one below runs/ by default.

    Raises:
        UsageError: none of the targets publishes queues.
        NotTrustworthyError: there is next to nothing to analyse.
    """
    names = [target] if isinstance(target, int | str) else list(target)
    recorder = Recorder(names, period_ns=period_ns)
    recorder.look()
    if recorder.unmatched and len(recorder.unmatched) == len(names):
        missing = ", ".join(str(one) for one in recorder.unmatched)
        raise UsageError(f"{missing} publishes no queues", remedy="'latlab queues list' shows who does")
    if output is None:
        Path("runs").mkdir(exist_ok=True)
        output = Path(tempfile.mkdtemp(prefix="queues-", dir="runs"))
    parameters = {"targets": names, "period_ns": period_ns}
    with RecordingWriter(Path(output), "queues", parameters=parameters, environment=capture()) as writer:
        recorder.sink = writer
        with recorder:
            until = float("inf") if seconds is None else time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0 and recorder.anyone_alive and not recorder.failed:
                time.sleep(min(_STEP_S, left))
    return RecordedQueues(Path(output), analyse(load(Path(output))))
