"""latlab from Python: what `latlab diagnose` does, as a function whose result a notebook can show.

import latlab

found = latlab.diagnose("pigz -p2 -kf big")
found.sentence          # 'Bottleneck: 2 × deflate. …'
found.to_pandas()       # what each role of threads did
"""

from __future__ import annotations

import html
import os
import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latlab.errors import UsageError
from latlab.formats.recording import make_empty_folder

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from latlab.model.diagnosis.answer import Answer

__all__ = ["Diagnosis", "diagnose"]


@dataclass(frozen=True)
class Diagnosis:
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

    def __repr__(self) -> str:
        doubt = "" if self.trustworthy else " (not trustworthy as it stands)"
        return f"<{self.sentence}{doubt} report: {self.report}>"

    def __str__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        evidence = "".join(f"<li>{html.escape(one)}</li>" for one in self.answer.evidence)
        head, *rows = self._role_rows()
        cells = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
        )
        names = "".join(f"<th>{html.escape(str(name))}</th>" for name in head)
        roles = f"<table><thead><tr>{names}</tr></thead><tbody>{cells}</tbody></table>" if rows else ""
        return f"<p><b>{html.escape(self.sentence)}</b></p><ul>{evidence}</ul>{roles}"

    def to_dict(self) -> dict[str, Any]:
        """The answer as `answer.json` holds it."""
        return self.answer.to_json()

    def to_pandas(self) -> pd.DataFrame:
        """One row a role of threads; shares from 0 to 1 (needs pandas)."""
        import pandas as pd

        head, *rows = self._role_rows()
        return pd.DataFrame(rows, columns=head)

    def to_polars(self) -> pl.DataFrame:
        """One row a role of threads; shares from 0 to 1 (needs polars)."""
        import polars as pl

        head, *rows = self._role_rows()
        return pl.DataFrame(rows, schema=head, orient="row")

    def _role_rows(self) -> list[list[Any]]:
        """The head and a row a role, as the answer lists them."""
        rows: list[list[Any]] = [["role", "threads", "running", "runnable", "blocked"]]
        for role in self.to_dict().get("roles") or []:
            blocked = float(sum(role["blocked"].values()))
            rows.append([role["name"], role["count"], role["running"], role["runnable"], blocked])
        return rows


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
