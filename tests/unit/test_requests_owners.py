"""For which request a thread works, from readings and answers by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from latlab.requests.connections import NEVER, REQUEST
from latlab.requests.owners import NOBODY, Owners

LOOP, WORKER = 11, 12


def one(read: int, sent: int, reader: int = LOOP, sender: int = LOOP) -> Any:
    return (0, read, sent, sent, reader, sender, 0, 0, 1, 1, 1, 0)


@pytest.mark.parametrize(
    ("rows", "cut"),
    [
        # One after the other: between an answer and the next reading the thread is nobody's.
        ([one(10, 40), one(60, 90)], [(NOBODY, 0, 10), (0, 10, 40), (NOBODY, 40, 60), (1, 60, 90)]),
        # All are read before the first is answered.
        ([one(10, 50), one(20, 70)], [(NOBODY, 0, 10), (0, 10, 20), (0, 20, 50), (1, 50, 70)]),
        # One has no answer yet.
        ([one(10, NEVER), one(60, 90)], [(NOBODY, 0, 10), (0, 10, 60), (1, 60, 90)]),
    ],
)
def test_what_follows_a_reading_is_that_requests_and_what_precedes_an_answer_the_answered_ones(
    rows: list[Any], cut: list[Any]
) -> None:
    found = list(Owners(np.array(rows, REQUEST)).cut(LOOP, 0, 100))
    assert found[: len(cut)] == cut


def test_how_long_is_usual_leaves_out_a_workers_idling() -> None:
    rows = [one(at, at + 500, LOOP, WORKER) for at in range(0, 10_000, 1_000)]
    assert Owners(np.array(rows, REQUEST)).usual_ns == 1_000  # until the next reading
    rows = [one(at, at + 20) for at in range(0, 10_000, 1_000)]
    assert Owners(np.array(rows, REQUEST)).usual_ns == 20


def test_without_requests_every_thread_is_nobodys() -> None:
    assert list(Owners(np.zeros(0, REQUEST)).cut(LOOP, 5, 9)) == [(NOBODY, 5, 9)]
