"""Joins what a program's queues tell with what its threads do: one answer.

Queues name the stage that is slow for its events; threads see what no queue shows: locks, sleeps, other
processes, coroutines that hold their loop, a source that is slow. Where the queues name something, it stays.
"""

from __future__ import annotations

from dataclasses import replace

from latlab.model.answer import Answer
from latlab.model.queues.analysis import DoubtKind, Verdict
from latlab.model.threads import LimitKind, ThreadFindings

__all__ = ["joined"]

# What counts cannot tell, and threads can. Counts that contradict each other stay a contradiction.
_OPEN = frozenset((DoubtKind.RARELY_AT_WORK, DoubtKind.BACKED_UP, DoubtKind.BUSY_LOOP, DoubtKind.SHARED_LOOP))
_NAMED = frozenset(LimitKind) - {LimitKind.UNKNOWN, LimitKind.LOAD}
_SURE = 0.95


def joined(answer: Answer, threads: ThreadFindings) -> Answer:
    """The answer by the queues, with what threads tell; by the threads where the queues name nothing."""
    answer = replace(answer, threads=threads)
    limit = threads.limit
    ended = [one for one in answer.distrust if one.startswith("the command ended")]
    verdicts = {answer.verdict, *(line.verdict for line in answer.lines)}
    doubts = (*answer.doubts, *(doubt for line in answer.lines for doubt in line.doubts))
    if not verdicts <= {Verdict.UNKNOWN, Verdict.NONE} or any(doubt.kind not in _OPEN for doubt in doubts):
        return answer
    if len(answer.distrust) > len(ended):  # too few events, a loaded machine: no reason for a name, either
        return answer
    if limit.kind not in _NAMED or limit.confidence < _SURE or threads.distrust:
        return answer
    return replace(
        answer,
        sentence=limit.sentence,
        limiting_stage=limit.name,
        verdict=str(limit.kind),
        confidence=limit.confidence,
        evidence=(*limit.evidence, f"its queues alone do not tell: {answer.sentence}"),
        distrust=tuple(ended),
        doubts=(),
        lines=(),
    )
