"""A stretch of the threads' time, turn by turn, with an arrow from each one that woke another."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np

from latlab.model.schedule import Schedule, Source, State, Wait
from latlab.model.threads import ThreadFindings
from latlab.reports.html import Page
from latlab.words import duration

__all__ = ["add_turns", "busiest_stretch"]

Array = np.ndarray[Any, Any]

_MOST_THREADS = 14
_WAKES = 60  # in the stretch that is drawn
_LEFT, _WIDTH, _ROW, _TOP = 230, 1060, 24, 26
_CLASSES = {State.RUNNING: "run", State.RUNNABLE: "ready", State.BLOCKED: "wait", State.UNSEEN: "unseen"}


def busiest_stretch(schedule: Schedule, threads: Sequence[int]) -> tuple[int, int]:
    """The middle of the observation, so long that some sixty wake-ups among these threads are in it."""
    wakes = schedule.wakes[
        np.isin(schedule.wakes["waker"], threads) & np.isin(schedule.wakes["wakee"], threads)
    ]
    whole = schedule.ended_ns - schedule.began_ns
    middle = schedule.began_ns + whole // 2
    if len(wakes) <= _WAKES:
        return schedule.began_ns, schedule.ended_ns
    at = int(np.clip(np.searchsorted(wakes["time"], middle) - _WAKES // 2, 0, len(wakes) - _WAKES))
    return int(wakes["time"][at]), int(wakes["time"][at + _WAKES - 1])


def add_turns(page: Page, schedule: Schedule, found: ThreadFindings) -> None:
    """Add the section: the threads of the roles that the progress waited for most."""
    chosen = [one for role in found.roles for one in role.threads if not schedule.threads[one].peer]
    chosen = chosen[:_MOST_THREADS]
    if not chosen or not len(schedule.intervals):
        return
    begin, end = busiest_stretch(schedule, chosen)
    page.section(
        "Turns and wake-ups",
        f"{duration(end - begin)} from the middle of the observation, thread by thread.",
        anchor="turns",
    )
    style = resources.files("latlab.reports").joinpath("assets", "turns.css").read_text(encoding="utf-8")
    page.svg(
        f"<style>{style}</style>{_draw(schedule, found, chosen, begin, end)}",
        "Orange ran, red was runnable without a CPU, grey waited; an arrow leads from who woke to who was "
        "woken. All of it, for ui.perfetto.dev: latlab diagnose --perfetto FILE.",
    )


def _draw(schedule: Schedule, found: ThreadFindings, threads: Sequence[int], begin: int, end: int) -> str:
    scale = (_WIDTH - _LEFT - 10) / max(1, end - begin)
    place = {thread: row for row, thread in enumerate(threads)}
    height = _TOP + _ROW * len(threads) + 10

    def x(time: int) -> float:
        return round(_LEFT + (min(max(time, begin), end) - begin) * scale, 2)

    parts = [f'<svg class="turns" viewBox="0 0 {_WIDTH} {height}" width="100%" role="img">']
    for i in range(6):
        at = begin + (end - begin) * i // 5
        anchor = "end" if i == 5 else "middle" if i else "start"
        parts.append(
            f'<text class="axis" x="{x(at)}" y="14" text-anchor="{anchor}">{duration(at - begin)}</text>'
        )
    for thread, row in place.items():
        y = _TOP + _ROW * row
        name = found.threads[thread] if thread < len(found.threads) else schedule.threads[thread].name
        short = name if len(name) < 34 else f"{name[:32]}…"
        parts.append(
            f'<text x="0" y="{y + 13}">{html.escape(short)}<title>{html.escape(name)}</title></text>'
        )
        parts += _bars(schedule.of_thread(thread), y, x, begin, end)
    for wake in schedule.wakes[(schedule.wakes["time"] >= begin) & (schedule.wakes["time"] <= end)]:
        if int(wake["waker"]) in place and int(wake["wakee"]) in place:
            parts.append(_arrow(x(int(wake["time"])), place[int(wake["waker"])], place[int(wake["wakee"])]))
    return "".join([*parts, "</svg>"])


def _bars(rows: Array, y: int, x: Any, begin: int, end: int) -> list[str]:
    parts = []
    for row in rows[(rows["end"] > begin) & (rows["begin"] < end)]:
        left, right = x(int(row["begin"])), x(int(row["end"]))
        state = State(int(row["state"]))
        length = duration(int(row["end"] - row["begin"]))
        told = f"{state.name.lower()} {length}"
        if state is State.BLOCKED:
            told = f"waits: {Wait(int(row['wait'])).name.lower()}, {length}"
            if row["source"] == Source.TIMER:
                told += ", ended by a timer"
        thin = state is State.BLOCKED
        parts.append(
            f'<rect class="{_CLASSES[state]}" x="{left}" y="{y + (7 if thin else 1)}" '
            f'width="{max(0.4, round(right - left, 2))}" height="{4 if thin else 16}">'
            f"<title>{html.escape(told)}</title></rect>"
        )
    return parts


def _arrow(x: float, source: int, target: int) -> str:
    down = target > source
    begin = _TOP + _ROW * source + (17 if down else 1)
    end = _TOP + _ROW * target + (1 if down else 17)
    back = -4 if down else 4
    return f'<path class="wake" d="M{x} {begin}V{end}"/><path class="tip" d="M{x} {end}l-2.5 {back}h5z"/>'
