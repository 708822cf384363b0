"""Several lines of stages that no queue connects: a verdict, a sentence and a budget each."""

from __future__ import annotations

from dataclasses import replace

from latlab.lab.diagnosis.budget import mean_budget
from latlab.lab.judge.verdict import sentence_of_line
from latlab.model.diagnosis.answer import AnswerLine
from latlab.model.queues.analysis import Analysis, LineResult, Verdict

__all__ = ["about_line", "sentence_of"]

_MOST_LINES = 6  # that one sentence tells of
_EXECUTOR = "executor"  # what the injected counts call the queue of calls of one that nobody has named
_NOTHING = frozenset((Verdict.NONE, Verdict.UNKNOWN))


def about_line(found: Analysis, line: LineResult) -> AnswerLine:
    """One of several lines: its verdict, and its own budget."""
    ends = {queue.source for queue in found.queues if queue.name in line.queues}
    of_it = replace(
        found,
        queues=tuple(queue for queue in found.queues if queue.name in line.queues),
        stages=tuple(stage for stage in found.stages if stage.label in line.stages),
        sockets=tuple(one for one in found.sockets if one.drain in ends),
        from_ns=line.from_ns or found.from_ns,
        to_ns=line.to_ns or found.to_ns,
    )
    return AnswerLine(
        line.stages,
        sentence_of_line(line, found),
        line.limiting_stage,
        str(line.verdict),
        line.confidence,
        line.evidence,
        line.doubts,
        mean_budget(of_it),
        all(name.split(" ")[0] == _EXECUTOR for name in line.queues),
    )


def sentence_of(lines: tuple[AnswerLine, ...]) -> str:
    """What limits each of several lines; not of an executor that limits nothing, where another line tells."""
    first = [line for line in lines if not (line.aside and line.verdict in _NOTHING and not line.doubts)]
    if first and len(first) < len(lines):
        lines = tuple(first)
        if len(lines) == 1:
            return lines[0].sentence
    told = lines[:_MOST_LINES]
    more = f" {len(lines) - len(told)} more lines are in the report." if len(told) < len(lines) else ""
    return " ".join(f"{', '.join(line.stages[:4])}: {line.sentence}" for line in told) + more
