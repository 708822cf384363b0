"""One answer of what queues and threads tell, on findings that are made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latlab.lab.diagnosis.joined import joined
from latlab.model.answer import Answer, AnswerLine
from latlab.model.queues.analysis import Doubt, DoubtKind, Verdict
from latlab.model.threads import Limit, LimitKind, ThreadFindings

SLEEP = Limit(LimitKind.TIMER, "loader", 0.99, 0.8, "Bottleneck: the sleeps of loader.", ("it slept 80 %",))


def answer(verdict: str, *doubts: Doubt, stage: str | None = None) -> Answer:
    return Answer("python app.py", "No bottleneck.", stage, verdict, 0.0, (), (), (), (), doubts=doubts)


def findings(limit: Limit = SLEEP, *distrust: str) -> ThreadFindings:
    return ThreadFindings(limit, (), (), (), {}, 5.0, 1000, "bpf", 0.0, distrust)


def test_where_the_queues_name_nothing_the_threads_limit_is_the_answer() -> None:
    told = joined(answer(Verdict.NONE), findings())
    assert (told.limiting_stage, told.verdict, told.confidence) == ("loader", "timer", 0.99)
    assert told.sentence == SLEEP.sentence
    assert told.evidence[-1] == "its queues alone do not tell: No bottleneck."
    assert told.to_json()["limit"]["kind"] == "timer"


def test_a_stage_that_the_queues_name_stays() -> None:
    told = joined(answer(Verdict.STAGE, stage="book"), findings())
    assert (told.limiting_stage, told.verdict) == ("book", Verdict.STAGE)
    assert told.threads is not None
    assert told.to_json()["limit"]["name"] == "book"


@pytest.mark.parametrize(
    "threads",
    [
        findings(replace(SLEEP, confidence=0.94)),
        findings(replace(SLEEP, kind=LimitKind.UNKNOWN)),
        findings(replace(SLEEP, kind=LimitKind.LOAD)),
        findings(SLEEP, "40 % of its time was not seen"),
    ],
)
def test_threads_that_are_not_sure_name_nothing_either(threads: ThreadFindings) -> None:
    assert joined(answer(Verdict.UNKNOWN), threads).limiting_stage is None


def test_counts_that_contradict_each_other_stay_a_contradiction() -> None:
    doubt = Doubt(DoubtKind.MORE_OUT_THAN_IN, "book", value=7)
    told = joined(answer(Verdict.UNKNOWN, doubt), findings())
    assert (told.limiting_stage, told.doubts, told.trustworthy) == (None, (doubt,), False)


def test_a_doubt_that_threads_can_settle_is_settled() -> None:
    told = joined(answer(Verdict.UNKNOWN, Doubt(DoubtKind.BUSY_LOOP, "main", value=1.0)), findings())
    assert (told.limiting_stage, told.trustworthy) == ("loader", True)


def test_several_lines_of_which_one_has_a_name_stay() -> None:
    lines = (
        AnswerLine(("a",), "Bottleneck: a.", "a", Verdict.STAGE, 1.0, ()),
        AnswerLine(("b",), "No bottleneck.", None, Verdict.NONE, 1.0, ()),
    )
    assert joined(replace(answer(Verdict.UNKNOWN), lines=lines), findings()).lines == lines


def test_too_few_events_are_no_reason_for_a_name_either() -> None:
    few = replace(answer(Verdict.UNKNOWN), distrust=("60 events are too few to tell",))
    assert joined(few, findings()).limiting_stage is None
    ended = replace(answer(Verdict.UNKNOWN), distrust=("the command ended with status 1",))
    assert (joined(ended, findings()).limiting_stage, joined(ended, findings()).distrust) == (
        "loader",
        ended.distrust,
    )
