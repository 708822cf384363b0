from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import numpy as np
import pytest

from latlab.model.machine.jitter import CoreJitter, JitterResult, Period, Source

pytest.importorskip("textual", reason="the live view needs the extra 'tui'")

from textual.widgets import DataTable, Sparkline, Static

from latlab.live.jitter import LiveView

CORE = CoreJitter(
    cpu=3,
    deltas=10**8,
    wall_ticks=2_600_000_000,
    pure_ticks=2_500_000_000,
    bridge_ticks=74_000_000,
    gap_ticks=26_000_000,
    paused_ticks=0,
    threshold_ticks=2600,
    counter_hz=2.6e9,
    quantum_ticks=26,
    start_ns=0,
    values_ticks=np.array([26, 2600]),
    counts=np.array([10**8, 1]),
    outliers=7,
    max_ticks=26_000,
    gap_start_ns=np.zeros(0),
    gap_each_ns=np.zeros(0),
    preempted=np.zeros(0, np.uint8),
)
RESULT = JitterResult(
    (CORE,),
    (Source("thread", "other threads", "vandal", 3, 5, 5e4, 1e4, 5.0),),
    (Period(1e7, 0.0, 1e-9, "10.000 ms: vandal", 1.0, 3),),
)


def test_the_live_view_shows_each_run_and_keeps_the_worst() -> None:
    results = iter([RESULT, replace(RESULT, cores=(replace(CORE, max_ticks=2600),))])
    stop, shown = threading.Event(), threading.Event()

    def measure() -> JitterResult:
        try:
            return next(results)
        except StopIteration:
            shown.set()
            stop.wait(30)
            return RESULT

    async def look() -> None:
        app = LiveView(measure, stop)
        async with app.run_test(size=(120, 40)) as pilot:
            while not shown.is_set():
                await pilot.pause(0.01)
            await pilot.pause()
            row = app.query_one("#cores", DataTable).get_row_at(0)
            assert (row[0], row[2], row[3], row[-2], row[-1]) == ("3", "96.15 %", "1.000 %", "1 µs", "10 µs")
            assert app.query_one("#sources", DataTable).get_row_at(0)[-1] == "thread: vandal"
            assert app.query_one("#history", Sparkline).data == [10_000.0, 1_000.0]
            assert "10.000 ms: vandal" in str(app.query_one("#beat", Static).render())
            await pilot.press("r")
            assert app._worst_ns == {}
        assert stop.is_set()

    asyncio.run(look())


def test_the_live_view_leaves_with_the_reason_where_measuring_fails() -> None:
    def measure() -> JitterResult:
        raise RuntimeError("CPU 9 was refused")

    async def look() -> str | None:
        app = LiveView(measure, threading.Event())
        async with app.run_test() as pilot:
            for _ in range(200):
                await pilot.pause(0.01)
                if app.return_value is not None:
                    break
        return app.return_value

    assert asyncio.run(look()) == "CPU 9 was refused"
