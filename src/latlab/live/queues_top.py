"""`latlab queues top`: stages and queues of a running application, live.

The view draws snapshots that something else takes; it measures nothing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Header, Sparkline, Static

from latlab.model.queues.analysis import Verdict
from latlab.model.queues.live import LatencyNow, Observable, QueueNow, Snapshot, StageNow
from latlab.words import count, duration, number, seconds, share, short

__all__ = ["Top", "fill_bar", "latency_text", "verdict_text"]

_BAR = 16
_HISTORY = 240  # looks that the drill-down draws
_SORTS: tuple[tuple[str, Callable[[QueueNow], object]], ...] = (
    ("flow", lambda queue: 0),  # replaced by the order of the stages
    ("fill", lambda queue: -(queue.fill_share if queue.fill_share is not None else 0.0)),
    ("rate", lambda queue: -queue.rate_out_hz),
    ("name", lambda queue: queue.name),
)
_QUEUE_HEADS = ("queue", "from → to", "fill", "", "high", "in/s", "out/s", "dropped", "blocked")
_STAGE_HEADS = ("stage", "type", "state", "busy", "blocked", "events/s", "waiting")


def verdict_text(snapshot: Snapshot) -> str:
    """What limits, in one sentence."""
    sure = f"confidence {share(snapshot.confidence, digits=0)}"
    if snapshot.limiting_stage is not None:
        return f"Bottleneck: {snapshot.limiting_stage} ({sure})"
    return {
        "": "observing …",
        Verdict.CPU: f"no stage limits, but the machine: its CPUs are full ({sure})",
        Verdict.SCHEDULER: f"no stage limits, but the scheduler: runnable threads wait for a CPU ({sure})",
        Verdict.BURST: f"no stage limits; bursts are larger than a queue ({sure})",
        Verdict.NONE: f"nothing limits the pipeline ({sure})",
    }.get(snapshot.verdict, "cannot tell from these seconds what limits the pipeline")


def latency_text(latency: LatencyNow | None) -> str:
    """End-to-end percentiles of the last seconds, in one line."""
    if latency is None:
        return "end to end: no traces"
    if latency.full:
        return "end to end: the traces are full, and what the application does from now on is not traced"
    values = (("p50", latency.p50_ns), ("p99", latency.p99_ns), ("p99.9", latency.p99_9_ns))
    shown = ", ".join(f"{name} {'–' if ns is None else duration(ns)}" for name, ns in values)
    return f"end to end: {shown} ({count(latency.events)} traced events in {seconds(latency.window_s)})"


def fill_bar(queue: QueueNow, width: int = _BAR) -> Text:
    """A bar as long as the queue is full; red where it hurts: a full queue, an empty pool."""
    share = queue.fill_share
    if share is None:
        return Text("∞" if queue.fill_high else "", style="dim")
    share = min(1.0, share)
    cells = round(share * width)
    if queue.fill_high and not cells:
        cells = 1  # something is in it
    hurt = 1.0 - share if queue.kind == "pool" else share
    style = "red" if hurt >= 0.8 else "yellow" if hurt >= 0.5 else "green"
    return Text.assemble(("█" * cells, style), ("·" * (width - cells), "dim"))


def _percent(value: float | None) -> str:
    return "" if value is None else share(min(max(value, 0.0), 1.0), digits=0)


def _fill_text(queue: QueueNow) -> str:
    unit = " B" if queue.kind == "socket" else ""
    of = f"/{short(queue.capacity)}" if queue.capacity else ""
    return f"{short(queue.fill_high)}{of}{unit}"


def _queue_cells(queue: QueueNow) -> list[str | Text]:
    counted = queue.kind != "socket"
    name = queue.name or f"queue {queue.number}"
    return [
        name,
        f"{queue.source or '?'} → {queue.drain or '?'}",
        fill_bar(queue),
        _fill_text(queue),
        short(queue.high_water),
        short(queue.rate_in_hz) if counted else "",
        short(queue.rate_out_hz) if counted else "",
        Text(short(queue.dropped), style="bold red" if queue.dropped else "dim"),
        short(queue.blocked) if counted else "",
    ]


def _stage_cells(stage: StageNow, limiting: bool) -> list[str | Text]:
    style = "bold white on red" if limiting else ""
    cells = (
        ("▶ " if limiting else "  ") + stage.label,
        stage.type,
        stage.state,
        _percent(stage.busy),
        _percent(stage.blocked),
        short(stage.rate_hz),
        short(stage.waiting),
    )
    return [Text(cell, style=style) for cell in cells]


class QueueScreen(Screen[None]):
    """One queue: its fill over the last looks, and all that is known of it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "app.pop_screen", "Back")]

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def compose(self) -> ComposeResult:
        """The curve above the facts."""
        yield Header()
        with Vertical():
            yield Static(id="title")
            yield Sparkline([], id="fills")
            yield Static(id="facts")
        yield Footer()

    def show(self, queue: QueueNow | None, fills: list[float]) -> None:
        """Draw; None where the queue is gone."""
        self.query_one("#fills", Sparkline).data = [0.0, *fills]  # the curve begins at the floor
        if queue is None:
            self.query_one("#title", Static).update("this queue is gone")
            return
        self.query_one("#title", Static).update(
            f"[b]{queue.name or queue.number}[/b]   {queue.source or '?'} → {queue.drain or '?'}"
        )
        facts = (
            ("kind", queue.kind),
            ("group", queue.group or "-"),
            ("implementation", queue.implementation or "-"),
            ("fill", f"{queue.fill_low} to {queue.fill_high}" + (" bytes" if queue.kind == "socket" else "")),
            ("capacity", str(queue.capacity or "unbounded or unknown")),
            ("high-water mark", f"{queue.high_water} (seen since this view began)"),
            ("seen in this view", f"mean {number(sum(fills) / max(1, len(fills)))} over {len(fills)} looks"),
            ("put in", f"{count(queue.total_in)}, {number(queue.rate_in_hz)}/s"),
            ("taken out", f"{count(queue.total_out)}, {number(queue.rate_out_hz)}/s"),
            ("grows by", f"{count(queue.rate_in_hz - queue.rate_out_hz)}/s"),
            ("dropped", str(queue.dropped)),
            ("producer blocked", f"{queue.blocked} times"),
        )
        self.query_one("#facts", Static).update("\n".join(f"{name:<18} {value}" for name, value in facts))


class Top(App[None]):
    """The live view.

    Args:
        source: what is looked at.
        period_seconds: between two looks.
        title: of the view: what was asked for.
    """

    TITLE = "latlab queues top"
    CSS = """
    #verdict { padding: 0 1; height: 1; background: $panel; }
    #latency { padding: 0 1; height: 1; } #tails { height: 2; margin: 0 1; display: none; }
    #stages { height: auto; max-height: 40%; }
    #queues { height: 1fr; }
    #title { padding: 1; } #fills { height: 8; margin: 0 1; } #facts { padding: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("s", "sort", "Sort"),
        Binding("p", "pause", "Pause"),
        Binding("enter", "drill", "One queue", show=True),
    ]

    def __init__(self, source: Observable, *, period_seconds: float = 1.0, title: str = "") -> None:
        super().__init__()
        self._source = source
        self._period_seconds = period_seconds
        self.sub_title = title
        self._order = 0
        self._paused = False
        self._stop = threading.Event()
        self._fills: dict[int, deque[float]] = {}
        self._tails: deque[float] = deque(maxlen=_HISTORY)
        self.snapshot: Snapshot | None = None

    def compose(self) -> ComposeResult:
        """The verdict, the stages, the queues."""
        yield Header()
        yield Static(id="verdict")
        yield Static(id="latency")
        yield Sparkline([], id="tails")
        yield DataTable(id="stages", cursor_type="none", zebra_stripes=False)
        yield DataTable(id="queues", cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to look."""
        self.query_one("#stages", DataTable).add_columns(*_STAGE_HEADS)
        self.query_one("#queues", DataTable).add_columns(*_QUEUE_HEADS)
        self.query_one("#queues", DataTable).focus()
        self._watch()

    def on_unmount(self) -> None:
        """End the thread that looks."""
        self._stop.set()

    @work(thread=True, exclusive=True)
    def _watch(self) -> None:
        # A look may take a while (the analysis of the last seconds): on a thread, so that keys are answered.
        while not self._stop.is_set():
            begun = time.monotonic()
            alive = self._source.alive
            if not self._paused:
                snapshot = self._source.look()
                if self._stop.is_set():
                    return
                self.call_from_thread(self.draw, snapshot, alive)
            if not alive:
                return
            self._stop.wait(max(0.0, self._period_seconds - (time.monotonic() - begun)))

    def draw(self, snapshot: Snapshot, alive: bool = True) -> None:
        """Show a snapshot."""
        if alive or self.snapshot is None:  # of an application that has ended the last view stays
            self.snapshot = snapshot
            for queue in snapshot.queues:
                self._fills.setdefault(queue.number, deque(maxlen=_HISTORY)).append(float(queue.fill_high))
        main = self.screen_stack[0]
        said = verdict_text(self.snapshot) if alive else f"ended; last view: {verdict_text(self.snapshot)}"
        main.query_one("#verdict", Static).update(said)
        main.query_one("#latency", Static).update(latency_text(self.snapshot.latency))
        self._draw_tails(main.query_one("#tails", Sparkline))
        self._draw_stages(main.query_one("#stages", DataTable))
        self._draw_queues(main.query_one("#queues", DataTable))
        if isinstance(self.screen, QueueScreen):
            self._draw_one(self.screen)

    def _draw_tails(self, curve: Sparkline) -> None:
        """p99 over time, from the floor up; nothing where nothing is traced."""
        assert self.snapshot is not None
        latency = self.snapshot.latency
        if latency is not None and latency.p99_ns is not None:
            self._tails.append(latency.p99_ns)
        curve.display = bool(self._tails)
        curve.data = [0.0, *self._tails]

    def _draw_stages(self, table: DataTable[str | Text]) -> None:
        assert self.snapshot is not None
        limiting = self.snapshot.limiting_stage
        table.clear()
        for stage in self.snapshot.stages:
            # A type of stages that are slow alike is named by the type.
            named = limiting is not None and limiting in (stage.label, stage.type)
            table.add_row(*_stage_cells(stage, named), key=stage.label)

    def _draw_queues(self, table: DataTable[str | Text]) -> None:
        assert self.snapshot is not None
        chosen = self._chosen(table)
        table.clear()
        queues = list(self.snapshot.queues)
        if self._order == 0:
            at = {stage.label: i for i, stage in enumerate(self.snapshot.stages)}
            queues.sort(key=lambda queue: (queue.kind == "pool", at.get(queue.drain, -1)))
        else:
            queues.sort(key=_SORTS[self._order][1])  # type: ignore[arg-type]
        for queue in queues:
            table.add_row(*_queue_cells(queue), key=str(queue.number))
        numbers = [queue.number for queue in queues]
        if chosen in numbers:
            table.move_cursor(row=numbers.index(chosen))

    def _chosen(self, table: DataTable[str | Text]) -> int | None:
        if not table.row_count or not table.is_valid_row_index(table.cursor_row):
            return None
        value = table.ordered_rows[table.cursor_row].key.value
        return None if value is None else int(value)

    def _draw_one(self, screen: QueueScreen) -> None:
        assert self.snapshot is not None
        found = {queue.number: queue for queue in self.snapshot.queues}.get(screen.number)
        screen.show(found, list(self._fills.get(screen.number, ())))

    def action_sort(self) -> None:
        """By flow, fill, rate or name, in turn."""
        self._order = (self._order + 1) % len(_SORTS)
        self.notify(f"sorted by {_SORTS[self._order][0]}", timeout=2)
        if self.snapshot is not None:
            self._draw_queues(self.query_one("#queues", DataTable))

    def action_pause(self) -> None:
        """Stop looking, or go on."""
        self._paused = not self._paused
        self.notify("paused" if self._paused else "resumed", timeout=2)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Enter on a queue: show it alone."""
        if event.data_table.id == "queues" and event.row_key.value is not None:
            self._open(int(event.row_key.value))

    def action_drill(self) -> None:
        """Show the queue under the cursor alone."""
        chosen = self._chosen(self.query_one("#queues", DataTable))
        if chosen is not None:
            self._open(chosen)

    def _open(self, number: int) -> None:
        screen = QueueScreen(number)
        self.push_screen(screen, callback=None)
        if self.snapshot is not None:
            self.call_after_refresh(self._draw_one, screen)
