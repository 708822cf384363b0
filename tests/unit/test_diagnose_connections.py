"""Clients that look up with a time-out: whether they wait for an answer, or for a time of their own."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.threads_made import MS, Made

from latlab.lab.diagnosis.applications.connections import asked_of
from latlab.model.schedule import SEVERAL, Source, Wait
from latlab.schedule import Transfers

SOCKET, PIPE = 7, 8


def table(rows: list[tuple[float, int]], key: str = "sk") -> dict[str, np.ndarray]:
    """Calls at these times (ms), with their descriptors: of one socket, by process 100."""
    times = np.array([int(time * MS) for time, _ in rows], np.int64)
    found = {"time_ns": times, key: np.full(len(rows), 0x1000, np.uint64)}
    if key == "sk":
        found |= {
            "pid": np.full(len(rows), 100),
            "ret": np.full(len(rows), 10),
            "argument": np.array([number for _, number in rows], np.int64),
        }
    return found


def moved(sent: list[float], read: list[float], arrived: list[float], by: int = SOCKET) -> Transfers:
    return Transfers(
        table([(one, by) for one in sent]), table([(one, by) for one in read]),
        table([(one, by) for one in arrived], "skaddr"),
        {(100, SOCKET): "socket:[5]", (100, PIPE): "pipe:[6]"}, {}, frozenset({100}), 0,
    )  # fmt: skip


def looking_up(*, item: int = SEVERAL, source: Source = Source.TIMER) -> Made:
    """A client that waits from 10 to 900 ms, in nine pieces that their time-outs end."""
    made = Made()
    client = made.thread("client")
    made.run(client, 0, 10)
    for at in range(0, 900, 100):
        made.wait(client, at + 10, at + 109, on=Wait.TIMER, source=source, item=item)
        made.run(client, at + 109, at + 110)
    return made


@pytest.mark.parametrize(
    ("sent", "read", "arrived", "expected"),
    [
        ([5.0], [], [], "answers"),  # asked, and nothing came
        ([1.0], [5.0, 950.5], [4.0, 950.0], "answers"),  # the rest of an answer
        ([1.0, 950.0], [5.0], [4.0], "paces"),  # asks again by itself
        ([1.0], [5.0], [4.0, 6.0], "paces"),  # something arrived, and isn't read
        ([1.0], [5.0, 950.0], [4.0, 300.0], "paces"),  # likewise, while it waits
        ([1.0], [5.0], [4.0], ""),  # it has its answer, and nothing more happened
        ([], [], [], ""),
    ],
)
def test_what_comes_next_tells_for_what_a_client_waits(
    sent: list[float], read: list[float], arrived: list[float], expected: str
) -> None:
    found = asked_of(looking_up().schedule(), moved(sent, read, arrived), [100])
    assert {"answers": found.answers, "paces": found.paces} == {
        "answers": frozenset({100} if expected == "answers" else ()),
        "paces": frozenset({100} if expected == "paces" else ()),
    }


def test_plain_sleeps_and_other_processes_tell_nothing() -> None:
    assert not asked_of(looking_up(item=-1).schedule(), moved([5.0], [], []), [200]).answers
    assert not asked_of(looking_up().schedule(), moved([5.0], [], []), [200]).answers


def test_what_goes_into_a_pipe_asks_nobody() -> None:
    assert not asked_of(looking_up().schedule(), moved([5.0], [], [], by=PIPE), [100]).answers


@pytest.mark.parametrize(("read", "answers"), [([], {100}), ([6.0], set())])
def test_a_client_that_nothing_wakes_waits_for_its_answer_where_it_has_asked(
    read: list[float], answers: set[int]
) -> None:
    made = Made()
    client = made.thread("client")
    made.run(client, 0, 10)
    made.wait(client, 10, 1000, source=Source.UNKNOWN, on=Wait.SOCKET, item=1)
    assert asked_of(made.schedule(), moved([5.0], read, read), [100]).answers == answers
