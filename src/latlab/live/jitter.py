"""`latlab jitter --live` in a terminal: cores, who disturbs them, and the beat, run after run.

The view draws finished runs; measuring is the caller's, in a thread of its own.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Header, Sparkline, Static

from latlab.model.machine.jitter import JitterResult
from latlab.words import duration, number, share, short

__all__ = ["LiveView"]

_KEPT = 120  # runs in the history
_CORES = ("CPU", "deltas/s", "pure", "gap time", "gaps/s", "p50", "p99.9", "max", "worst so far")
_SOURCES = ("total", "worst", "count", "CPU", "layer", "source")


class LiveView(App[str | None]):
    """Shows each run as it ends; leaves with the reason where measuring failed.

    Args:
        measure: makes one run, and ends early when the event is set.
        stop: set when the view closes.
    """

    TITLE = "latlab jitter"
    CSS = """
    #cores { height: auto; max-height: 45%; }
    #history { height: 3; margin: 0 1; }
    #caption, #beat { height: auto; padding: 0 1; color: $text-muted; }
    #sources { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "Quit"),
        ("p", "pause", "Pause"),
        ("r", "reset", "Reset worst"),
    ]

    def __init__(self, measure: Callable[[], JitterResult], stop: threading.Event) -> None:
        super().__init__()
        self._measure = measure
        self._stop = stop
        self._paused = threading.Event()
        self._runs = 0
        self._worst_ns: dict[int, float] = {}
        self._longest: deque[float] = deque(maxlen=_KEPT)

    def compose(self) -> ComposeResult:
        """The parts, from above."""
        yield Header(show_clock=True)
        yield DataTable(id="cores", cursor_type="none", zebra_stripes=True)
        yield Static("longest gap of each run", id="caption")
        yield Sparkline([], id="history", summary_function=max)
        yield Static("", id="beat")
        with VerticalScroll():
            yield DataTable(id="sources", cursor_type="none", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """Head the tables, and begin to measure."""
        self.query_one("#cores", DataTable).add_columns(*_CORES)
        self.query_one("#sources", DataTable).add_columns(*_SOURCES)
        self.sub_title = "the first run is under way"
        self.run_worker(self._work, thread=True, name="measure")

    def on_unmount(self) -> None:
        """The run that is under way need not end first."""
        self._stop.set()

    def _work(self) -> None:
        while not self._stop.is_set():
            if self._paused.is_set():
                self._stop.wait(0.1)
                continue
            try:
                result = self._measure()
            except Exception as error:  # noqa: BLE001 (shown by the caller, once the terminal is its own again)
                self.call_from_thread(self.exit, str(error))
                return
            if not self._stop.is_set():
                self.call_from_thread(self.show, result)

    def show(self, result: JitterResult) -> None:
        """Draw one run."""
        self._runs += 1
        self.sub_title = f"run {self._runs}" + (", paused" if self._paused.is_set() else "")
        self._draw_cores(result)
        longest = max((core.ns(core.max_ticks) for core in result.cores), default=0.0)
        self._longest.append(longest)
        self.query_one("#history", Sparkline).data = list(self._longest)
        self.query_one("#caption", Static).update(
            f"longest gap of each run: now {duration(longest)}, at most {duration(max(self._longest))}"
            f" in the last {len(self._longest)}"
        )
        sources = self.query_one("#sources", DataTable)
        sources.clear()
        for one in result.sources[:40]:
            times = ["?" if ns is None else duration(ns) for ns in (one.total_ns, one.max_ns)]
            sources.add_row(*times, str(one.count), str(one.cpu), one.layer, f"{one.kind}: {one.name}")
        lines = [f"Periodic on CPU {one.cpu}, every {one.cause}" for one in result.periods] or [
            "no period found"
        ]
        lines += [f"! {one.text}" for one in result.warnings]
        self.query_one("#beat", Static).update("\n".join(lines))

    def _draw_cores(self, result: JitterResult) -> None:
        cores = self.query_one("#cores", DataTable)
        cores.clear()
        for core in result.cores:
            wall = core.wall_ticks or 1
            seconds = core.ns(wall) / 1e9
            longest = core.ns(core.max_ticks)
            self._worst_ns[core.cpu] = max(longest, self._worst_ns.get(core.cpu, 0.0))
            cells: list[Any] = [
                core.cpu,
                short(core.deltas / seconds),
                share(core.pure_ticks / wall, digits=2),
                share(core.gap_ticks / wall, digits=3),
                number(core.outliers / seconds),
                duration(core.ns(core.percentile_ticks(50))),
                duration(core.ns(core.percentile_ticks(99.9))),
                duration(longest),
                duration(self._worst_ns[core.cpu]),
            ]
            cores.add_row(*map(str, cells))

    def action_pause(self) -> None:
        """Hold after this run, or go on."""
        if self._paused.is_set():
            self._paused.clear()
        else:
            self._paused.set()
        self.sub_title = f"run {self._runs}" + (", paused" if self._paused.is_set() else "")

    def action_reset(self) -> None:
        """Forget the worst, and the history."""
        self._worst_ns.clear()
        self._longest.clear()
