"""Who works and sleeps by turns, and what runs beside waits for pages: named where one thing explains it."""

from __future__ import annotations

import pytest
from tests.unit.threads_made import Made, found_in

from latlab.model.schedule import Source, Wait
from latlab.model.threads import LimitKind


@pytest.mark.parametrize(
    ("due", "work", "kind"),
    [
        # Every 5 ms a round is due; one of three takes longer, and the next one begins at once.
        (True, (9.2, 2.2, 2.2), LimitKind.UNKNOWN),
        # As even as its rounds are, nothing tells whether the next one is due.
        (True, (3.5, 3.5, 3.5), LimitKind.UNKNOWN),
        # It sleeps for 1.6 ms; its rounds are whole numbers of 5 ms, too.
        (False, (8.4, 3.4, 3.4), LimitKind.THREAD),
    ],
)
def test_who_may_sleep_until_its_next_round_is_due_is_not_told_to_limit(
    due: bool, work: tuple[float, ...], kind: LimitKind
) -> None:
    made = Made()
    beat, at, turn = made.thread("beat"), 0.0, 0
    while at + 10 < 1000:
        late = 0.02 * (turn % 7 % 3)
        done = at + work[turn % 3]
        until = 5.0 * (int(done / 5) + 1) + late if due else done + 1.6 + late
        made.run(beat, at, done)
        made.wait(beat, done, until, on=Wait.TIMER, source=Source.TIMER)
        at, turn = until, turn + 1
    limit = found_in(made).limit
    assert limit.kind is kind
    assert ("is due" in limit.sentence) == due


@pytest.mark.parametrize(("wakes", "name"), [(False, "maker, poller"), (True, "maker")])
def test_of_two_that_sleep_and_share_memory_both_are_named_unless_one_wakes_the_other(
    wakes: bool, name: str
) -> None:
    made = Made()
    main, maker, poller = made.thread("app"), made.thread("maker"), made.thread("poller")
    made.wait(main, 0, 1000, maker, item=1)
    for at in range(0, 1000, 10):
        made.run(maker, at, at + 2)
        made.wait(maker, at + 2, at + 10, on=Wait.TIMER, source=Source.TIMER)
    for at in range(0, 1000, 5):
        made.run(poller, at, at + 0.4)
        if wakes:
            made.wait(poller, at + 0.4, at + 5, maker, item=64)
        else:
            made.wait(poller, at + 0.4, at + 4.9 + 0.1 * (at % 3), on=Wait.TIMER, source=Source.TIMER)
    limit = found_in(made).limit
    assert (limit.kind, limit.name) == (LimitKind.TIMER, name)


@pytest.mark.parametrize(("where", "kind"), [("scan", LimitKind.UNKNOWN), ("sum", LimitKind.THREAD)])
def test_what_runs_where_it_waits_for_pages_may_be_the_kernel_that_reads_them(
    where: str, kind: LimitKind
) -> None:
    made = Made()
    app = made.thread("app")
    faults = made.stack(app, "scan", "main", running=False)
    for at in range(0, 1000, 10):
        made.run(app, at, at + 6.5)
        made.wait(app, at + 6.5, at + 10, on=Wait.FAULT, source=Source.DISK, sample=faults)
    made.stack(app, where, "main", times=60)
    made.stack(app, "mix", "main", times=40)
    limit = found_in(made).limit
    assert limit.kind is kind
    assert ("pages of files 35.0 %" in limit.sentence) == (kind is LimitKind.UNKNOWN)
