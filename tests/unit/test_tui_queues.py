from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from latlab.model.queues.live import QueueNow, Snapshot, StageNow

textual = pytest.importorskip("textual", reason="the live view needs the extra 'tui'")

from textual.widgets import DataTable, Sparkline, Static  # noqa: E402

from latlab.live.queues_top import QueueScreen, Top, fill_bar, verdict_text  # noqa: E402


def queue(number: int, name: str, fill: int, capacity: int = 10, **more: Any) -> QueueNow:
    fields: dict[str, Any] = {"source": "feed", "drain": "book", "kind": "bounded", "dropped": 0, **more}
    return QueueNow(
        number=number, name=name, capacity=capacity, fill_low=fill, fill_high=fill, high_water=fill,
        total_in=100, total_out=90, blocked=0, rate_in_hz=1e3 * number, rate_out_hz=1e3 * number, **fields,
    )  # fmt: skip


def stage(label: str, type_: str = "") -> StageNow:
    return StageNow(label, type_, "", "busy", 0.5, 0.0, 1234.0, 7)


SNAPSHOT = Snapshot(
    1,
    (queue(0, "orders", 2), queue(1, "fills", 9, drain="strategy"), queue(2, "acks", 5)),
    (stage("feed"), stage("book"), stage("strategy")),
    limiting_stage="strategy",
    verdict="stage",
    confidence=0.93,
)


class Still:
    """An application that always looks the same."""

    alive = True

    def __init__(self, snapshot: Snapshot = SNAPSHOT) -> None:
        self.snapshot = snapshot
        self.looks = 0

    def look(self) -> Snapshot:
        self.looks += 1
        return self.snapshot


def drive(scenario: Callable[[Top, Any], Awaitable[None]], source: Still | None = None) -> None:
    """Run a scenario on a view that looks once (its period is an hour)."""

    async def run() -> None:
        app = Top(source or Still(), period_seconds=3600.0, title="planted")
        async with app.run_test(size=(150, 40)) as pilot:
            for _ in range(500):
                if app.snapshot is not None:
                    break
                await pilot.pause(0.01)
            await scenario(app, pilot)

    asyncio.run(run())


def cells(app: Top, table: str) -> list[list[str]]:
    found = app.screen_stack[0].query_one(table, DataTable)
    return [[str(cell) for cell in found.get_row_at(i)] for i in range(found.row_count)]


def text_of(app: Top, widget: str) -> str:
    return str(app.screen.query_one(widget, Static).render())


def test_the_view_shows_every_queue_and_stage_and_marks_the_one_that_limits() -> None:
    async def scenario(app: Top, pilot: Any) -> None:
        assert [row[0] for row in cells(app, "#queues")] == ["orders", "acks", "fills"]
        assert [row[0] for row in cells(app, "#stages")] == ["  feed", "  book", "▶ strategy"]
        assert text_of(app, "#verdict") == "Bottleneck: strategy (confidence 93 %)"
        table = app.query_one("#stages", DataTable)
        assert [str(table.get_row_at(i)[0].style) for i in range(3)] == ["", "", "bold white on red"]

    drive(scenario)


def test_a_key_sorts_by_fill_and_the_cursor_stays_on_its_queue() -> None:
    async def scenario(app: Top, pilot: Any) -> None:
        await pilot.press("s")
        await pilot.pause()
        assert [row[0] for row in cells(app, "#queues")] == ["fills", "acks", "orders"]
        assert app.query_one("#queues", DataTable).cursor_row == 2

    drive(scenario)


def test_enter_shows_one_queue_with_its_history_and_escape_leads_back() -> None:
    async def scenario(app: Top, pilot: Any) -> None:
        app.draw(replace(SNAPSHOT, queues=(queue(0, "orders", 4), *SNAPSHOT.queues[1:])))
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, QueueScreen)
        assert list(app.screen.query_one("#fills", Sparkline).data or ()) == [0.0, 2.0, 4.0]
        facts = text_of(app, "#facts")
        assert "4 to 4" in facts
        assert "mean 3 over 2 looks" in facts
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, QueueScreen)

    drive(scenario)


def test_of_an_application_that_has_ended_the_last_view_stays() -> None:
    async def scenario(app: Top, pilot: Any) -> None:
        app.draw(Snapshot(2, ()), alive=False)
        await pilot.pause()
        assert len(cells(app, "#queues")) == 3
        assert text_of(app, "#verdict").startswith("ended; last view: Bottleneck: strategy")

    drive(scenario)


def test_a_queue_that_is_gone_says_so() -> None:
    async def scenario(app: Top, pilot: Any) -> None:
        await pilot.press("enter")
        app.draw(Snapshot(2, SNAPSHOT.queues[1:]))
        await pilot.pause()
        assert text_of(app, "#title") == "this queue is gone"

    drive(scenario)


def test_a_bar_is_as_long_as_the_queue_is_full_and_red_where_it_hurts() -> None:
    assert fill_bar(queue(0, "q", 5), 10).plain == "█████·····"
    assert fill_bar(queue(0, "q", 10), 10).spans[0].style == "red"
    assert fill_bar(queue(0, "q", 1, capacity=10_000), 10).plain == "█·········"
    assert fill_bar(queue(0, "q", 10, kind="pool"), 10).spans[0].style == "green"
    assert fill_bar(queue(0, "q", 3, capacity=0), 10).plain == "∞"


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ("", "observing …"),
        ("none", "nothing limits the pipeline (confidence 0 %)"),
        ("cannot tell", "cannot tell from these seconds what limits the pipeline"),
    ],
)
def test_where_no_stage_limits_the_view_says_what_is_known(verdict: str, said: str) -> None:
    assert verdict_text(Snapshot(1, (), verdict=verdict)) == said
