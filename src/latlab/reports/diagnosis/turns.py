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
from latlab.words import duration, plural, share

__all__ = ["add_turns", "busiest_stretch"]

Array = np.ndarray[Any, Any]

_MOST_THREADS = 14
_WAKES = 60  # in the stretch that is drawn
_LEFT, _WIDTH, _ROW, _TOP = 230, 1060, 24, 26
_MOST_CELLS = 3000  # of all threads: what is narrower than one is drawn together
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
    shortest = _cell(begin, end, len(chosen))
    page.section(
        "Turns and wake-ups",
        f"{duration(end - begin)} from the middle of the observation, thread by thread. Turns of less than "
        f"{duration(shortest)} are drawn together: as high as their share of the time, with the longest in "
        "words.",
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

    told = f"what {plural(len(threads), 'thread')} did over {duration(end - begin)}"
    parts = [
        f'<svg class="turns" viewBox="0 0 {_WIDTH} {height}" width="100%" role="img" aria-label="{told}">'
    ]
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
        parts += _bars(schedule.of_thread(thread), y, x, (begin, end), _cell(begin, end, len(threads)))
    for wake in schedule.wakes[(schedule.wakes["time"] >= begin) & (schedule.wakes["time"] <= end)]:
        if int(wake["waker"]) in place and int(wake["wakee"]) in place:
            parts.append(_arrow(x(int(wake["time"])), place[int(wake["waker"])], place[int(wake["wakee"])]))
    return "".join([*parts, "</svg>"])


def _cell(begin: int, end: int, threads: int) -> float:
    """The time, in ns, below which turns aren't drawn one by one: some pixel, more where threads are many."""
    cells = min(_WIDTH - _LEFT - 10, _MOST_CELLS // max(1, threads))
    return (end - begin) / cells


def _bars(rows: Array, y: int, x: Any, span: tuple[int, int], cell: float) -> list[str]:
    begin, end = span
    rows = rows[(rows["end"] > begin) & (rows["begin"] < end)]
    if not len(rows):
        return []
    wide = rows["end"] - rows["begin"] >= cell
    # What is narrow is gathered by the cell in which it begins, between what is wide.
    place = np.maximum(rows["begin"] - begin, 0) // max(cell, 1)
    fresh = np.ones(len(rows), bool)
    fresh[1:] = wide[1:] | wide[:-1] | (place[1:] != place[:-1])
    firsts = np.flatnonzero(fresh).tolist()
    parts = []
    for first, after in zip(firsts, [*firsts[1:], len(rows)], strict=True):
        parts += _bar(rows[first], y, x) if after == first + 1 else _together(rows[first:after], y, x)
    return parts


def _bar(row: Any, y: int, x: Any) -> list[str]:
    state = State(int(row["state"]))
    thin = state is State.BLOCKED
    shape = (x(int(row["begin"])), x(int(row["end"])), y + (7 if thin else 1), 4 if thin else 16)
    return [_rect(_CLASSES[state], shape, _told(row))]


def _told(row: Any) -> str:
    state, length = State(int(row["state"])), duration(int(row["end"] - row["begin"]))
    if state is not State.BLOCKED:
        return f"{state.name.lower()} {length}"
    ended = ", ended by a timer" if row["source"] == Source.TIMER else ""
    return f"waits: {Wait(int(row['wait'])).name.lower()}, {length}{ended}"


def _together(rows: Array, y: int, x: Any) -> list[str]:
    """Turns that are too narrow to be seen: one on the other, each state as high as its share of the time."""
    begin, end = int(rows["begin"].min()), int(rows["end"].max())
    length = rows["end"] - rows["begin"]
    words = [f"{len(rows)} turns in {duration(end - begin)}"]
    bars = []
    top = float(y + 1)
    for state in _CLASSES:
        mine = rows["state"] == state
        if mine.any():
            part = float(length[mine].sum()) / max(1, end - begin)
            longest = rows[mine][int(length[mine].argmax())]
            words.append(f"{state.name.lower()} {share(part)}, the longest: {_told(longest)}")
            height = round(16 * min(1.0, part), 1)
            bars.append((_CLASSES[state], top, height))
            top += height
    left, right = x(begin), x(end)
    drawn = [_rect(kind, (left, right, at, height)) for kind, at, height in bars]
    return [f"<g><title>{html.escape('; '.join(words))}</title>{''.join(drawn)}</g>"]


def _rect(kind: str, shape: tuple[float, float, float, float], told: str = "") -> str:
    left, right, top, height = shape
    title = f"<title>{html.escape(told)}</title>" if told else ""
    return (
        f'<rect class="{kind}" x="{left}" y="{round(top, 1):g}" width="{max(0.4, round(right - left, 2)):g}" '
        f'height="{height:g}">{title}</rect>'
    )


def _arrow(x: float, source: int, target: int) -> str:
    down = target > source
    begin = _TOP + _ROW * source + (17 if down else 1)
    end = _TOP + _ROW * target + (1 if down else 17)
    back = -4 if down else 4
    return f'<path class="wake" d="M{x} {begin}V{end}"/><path class="tip" d="M{x} {end}l-2.5 {back}h5z"/>'
