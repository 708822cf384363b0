"""latlab from Python: what `latlab diagnose` does, as a function whose result a notebook can show.

import latlab

found = latlab.diagnose("pigz -p2 -kf big")
found.sentence          # 'Bottleneck: 2 × deflate. …'
found.to_pandas()       # what each role of threads did
found.plot()            # the same as a picture

`latlab.queues.record` and `latlab.bench.compare` give back results that show themselves likewise.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latlab.errors import UsageError
from latlab.formats.recording import make_empty_folder
from latlab.model.framed import Framed

if TYPE_CHECKING:
    from latlab.model.diagnosis.answer import Answer

__all__ = ["Diagnosis", "diagnose"]


@dataclass(frozen=True, repr=False)
class Diagnosis(Framed):
    """What limits a program, with its evidence.

    Attributes:
        answer: the whole answer (latlab.model.diagnosis.answer), as `answer.json` holds it.
        folder: the recording: `latlab show` and `latlab diagnose compare` read it.
    """

    answer: Answer
    folder: Path
    _text: str = field(repr=False, default="")

    @property
    def sentence(self) -> str:
        """The finding, in a sentence or two."""
        return self.answer.sentence

    @property
    def trustworthy(self) -> bool:
        """Whether the measurement can be trusted as it stands; `answer.distrust` says why not."""
        return self.answer.trustworthy

    @property
    def report(self) -> Path:
        """The HTML page."""
        return self.folder / "report.html"

    @property
    def finding(self) -> str:
        """The sentence, whether it can be trusted, and where the page is."""
        doubt = "" if self.trustworthy else " (not trustworthy as it stands)"
        return f"{self.sentence}{doubt} report: {self.report}"

    def __str__(self) -> str:
        return self._text

    def to_dict(self) -> dict[str, Any]:
        """The answer as `answer.json` holds it."""
        return self.answer.to_json()

    def columns(self) -> dict[str, list[Any]]:
        """One row a role of threads, as the answer lists them; shares from 0 to 1."""
        roles = self.to_dict().get("roles") or []
        return {
            "role": [role["name"] for role in roles],
            "threads": [role["count"] for role in roles],
            "running": [role["running"] for role in roles],
            "runnable": [role["runnable"] for role in roles],
            "blocked": [float(sum(role["blocked"].values())) for role in roles],
        }

    def _bars(self) -> str:
        return "running"


def diagnose(
    target: str | Sequence[str] | None = None,
    *,
    pid: int | None = None,
    seconds: float | None = None,
    budget_s: float | None = None,
    forecast: bool = True,
    output: str | os.PathLike[str] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Find what limits a program, unchanged, and what fixing it would gain.

    Args:
        target: a command, as a shell would split it or as a list.
        pid: of a process that runs already, in place of a command.
        seconds: to observe, at most.
        budget_s: wall time for everything.
        forecast: whether to forecast what a fix would gain.
        output: the folder for the recording and the report; a new one below runs/ by default.
        tell: is given a line of progress at each step.

    Raises:
        UsageError: for neither a command nor a process, or for both.
        LatlabError: when the program can't be started or observed.
    """
    from latlab.lab.diagnosis.diagnose import diagnose_question
    from latlab.lab.diagnosis.question import OBSERVED_S, Question
    from latlab.reports.diagnosis.html import write_report
    from latlab.reports.diagnosis.text import text

    command = tuple(shlex.split(target) if isinstance(target, str) else target or ())
    if bool(command) == (pid is not None):
        raise UsageError("give a command or pid=, and not both", remedy='latlab.diagnose("python app.py")')
    question = Question(
        command=command,
        pid=pid,
        layout=None,
        seconds=OBSERVED_S if seconds is None else seconds,
        forecast=forecast,
    )
    if budget_s is not None:
        question = replace(question, budget_s=budget_s)
    if output is None:
        Path("runs").mkdir(exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="diagnose-", dir="runs"))
    else:
        folder = Path(output)
        make_empty_folder(folder)
    run = diagnose_question(question, folder, tell or (lambda line: None))
    told = text(run.answer, styled=False)
    (folder / "answer.txt").write_text(told + "\n", encoding="utf-8")
    shown = "latlab.diagnose(" + repr(target if target is not None else f"pid={pid}") + ")"
    write_report(folder / "report.html", run, shown)
    return Diagnosis(run.answer, folder, told)
