"""The steps of a diagnosis: each is saved as it ends, and one that can't run says why."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from latlab.errors import LatlabError
from latlab.formats.recording import RecordingWriter
from latlab.lab.diagnosis.applications.application import CannotReplayError, Tell
from latlab.model.diagnosis.answer import Step, Unknown

__all__ = ["Steps"]


@dataclass
class Steps:
    """Collects what each step gave, and saves it."""

    writer: RecordingWriter
    tell: Tell
    steps: list[Step] = field(default_factory=list)
    unknown: list[Unknown] = field(default_factory=list)

    def run(self, name: str, work: Callable[[], tuple[Any, str]], otherwise: str | None = None) -> Any:
        """Do a step; where it can't run, note why, and the command that would find out."""
        begin = time.monotonic()
        try:
            result, detail = work()
        except CannotReplayError:
            raise
        except LatlabError as error:
            self.skip(name, str(error), otherwise, time.monotonic() - begin)
            return None
        self.steps.append(Step(name, "done", time.monotonic() - begin, detail))
        self._save()
        return result

    def skip(self, name: str, why: str, otherwise: str | None, seconds: float = 0.0) -> None:
        """Note a step that is left out."""
        self.tell(f"{name}: skipped: {why}")
        self.steps.append(Step(name, "skipped", seconds, why))
        if otherwise is not None:
            self.unknown.append(Unknown(f"{name}: {why}", otherwise))
        self._save()

    def _save(self) -> None:
        self.writer.put("steps", {"schema": 1, "steps": [asdict(step) for step in self.steps]})
