"""Where in the code all threads' time goes, running and waiting in one flame graph."""

from __future__ import annotations

from importlib import resources
from typing import Any

import numpy as np

from latlab.formats import documents
from latlab.model.schedule import Frame, Schedule, State, Wait
from latlab.model.threads import ThreadFindings
from latlab.reports.html import Page
from latlab.words import share

__all__ = ["add_flame", "flame_of"]

Array = np.ndarray[Any, Any]
#: name, running ns, waiting ns, children
Node = list[Any]

_LEAST = 0.0005  # of the whole time: smaller nodes are left out
_MOST_BYTES = 500_000  # of the graph in a page: as many more of the smallest nodes are left out
_MOST_DEPTH = 120
_NO_CPU = "runnable, without a CPU"
_NOT_SAMPLED = "(stack not sampled)"
_BAR = """<div class="flame-bar"><label>Time: <select><option value="both">running and waiting</option>
<option value="on">running</option><option value="off">waiting</option></select></label>
<label>Find: <input type="search" placeholder="function"></label><button type="button">Whole graph</button>
<span><i class="flame-key" style="background:rgb(246 170 82)"></i>running</span>
<span><i class="flame-key" style="background:rgb(131 179 226)"></i>waiting</span></div>"""


def flame_of(schedule: Schedule, found: ThreadFindings) -> Node:
    """The tree: the program, its roles, and their stacks from the outermost frame to what is waited for.

    A thread's running time is shared out over its samples. A wait counts where its stack was sampled; others
    of the same kind are shared out over these.
    """
    root: Node = ["all threads", 0, 0, {}]
    role_of = {thread: role.name for role in found.roles for thread in role.threads}
    names = [_told(frame) for frame in schedule.frames]
    stacks = [tuple(names[frame] for frame in reversed(stack))[:_MOST_DEPTH] for stack in schedule.stacks]
    for thread, one in enumerate(schedule.threads):
        if one.peer:
            continue
        rows = schedule.of_thread(thread)
        length = rows["end"] - rows["begin"]
        role = role_of.get(thread, one.name)
        samples = schedule.samples[
            (schedule.samples["thread"] == thread) & (schedule.samples["running"] == 1)
        ]
        ran = int(length[rows["state"] == State.RUNNING].sum())
        _share_out(root, role, stacks, samples["stack"], ran, ())
        _add(root, (role, _NO_CPU), 0, int(length[rows["state"] == State.RUNNABLE].sum()))
        blocked = rows["state"] == State.BLOCKED
        for kind in np.unique(rows["wait"][blocked]).tolist():
            mine = blocked & (rows["wait"] == kind)
            seen = rows["sample"][mine]
            stack = (
                np.where(seen >= 0, schedule.samples["stack"][np.maximum(seen, 0)], -1)
                if len(schedule.samples)
                else np.full(len(seen), -1)
            )
            _waits(root, role, stacks, stack, length[mine], f"waits: {Wait(kind).name.lower()}")
    return _plain(root, _LEAST * (root[1] + root[2]))


def bounded(tree: Node, most: int = _MOST_BYTES) -> tuple[str, float]:
    """The tree as JSON of so many bytes at most, and the share of the time below which nodes are left out."""
    least = _LEAST
    while len(source := documents.dumps(tree, indent=None).replace("<", "\\u003c")) > most and tree[3]:
        least *= 2
        tree = _pruned(tree, least * (tree[1] + tree[2]))
    return source, least


def _pruned(node: Node, least: float) -> Node:
    return [*node[:3], [_pruned(child, least) for child in node[3] if child[1] + child[2] >= least]]


def _waits(
    root: Node, role: str, stacks: list[tuple[str, ...]], stack: Array, time: Array, leaf: str
) -> None:
    known = stack >= 0
    whole, seen = float(time.sum()), float(time[known].sum())
    if seen <= 0:
        _add(root, (role, _NOT_SAMPLED, leaf), 0, int(whole))
        return
    for each in np.unique(stack[known]).tolist():
        mine = float(time[stack == each].sum())
        _add(root, (role, *stacks[each], leaf), 0, int(mine * whole / seen))


def _share_out(
    root: Node, role: str, stacks: list[tuple[str, ...]], sampled: Array, time: int, leaf: tuple[str, ...]
) -> None:
    sampled = sampled[sampled >= 0]
    if not len(sampled):
        _add(root, (role, _NOT_SAMPLED, *leaf), time, 0)
        return
    each, counts = np.unique(sampled, return_counts=True)
    for stack, count in zip(each.tolist(), counts.tolist(), strict=True):
        _add(root, (role, *stacks[stack], *leaf), time * count // len(sampled), 0)


def _told(frame: Frame) -> str:
    return frame.function or (
        f"{frame.module.rsplit('/', 1)[-1]}+{frame.offset:#x}" if frame.module else "??"
    )


def _add(root: Node, path: tuple[str, ...], running: int, waiting: int) -> None:
    if running + waiting <= 0:
        return
    node = root
    node[1] += running
    node[2] += waiting
    for name in path:
        node = node[3].setdefault(name, [name, 0, 0, {}])
        node[1] += running
        node[2] += waiting


def _plain(node: Node, least: float) -> Node:
    children = [_plain(child, least) for child in node[3].values() if child[1] + child[2] >= least]
    return [node[0], node[1], node[2], sorted(children, key=lambda child: -child[1] - child[2])]


def add_flame(page: Page, schedule: Schedule, found: ThreadFindings) -> None:
    """Add the section; nothing where no time was seen."""
    tree = flame_of(schedule, found)
    if not tree[3]:
        return
    source, least = bounded(tree)
    page.section(
        "Flame graph",
        "All threads' time, running and waiting, by role and call stack. Click a frame to look into it. "
        f"Frames of less than {share(least, digits=2)} of the time are left out.",
        anchor="flame",
    )
    page.svg(
        f"<style>{_asset('flame.css')}</style><div class='flame-graph'>{_BAR}<div class='flame'></div>"
        f"<p class='flame-told' aria-live='polite'></p>"
        f"<script type='application/json'>{source}</script></div><script>{_asset('flame.js')}</script>",
        "Width: time. Orange ran, blue waited; mixed frames did both.",
    )


def _asset(name: str) -> str:
    return resources.files("latlab.reports").joinpath("assets", name).read_text(encoding="utf-8")
