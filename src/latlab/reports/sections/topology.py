"""The drawing of a pipeline: stages from left to right, joined by queues whose fill one sees.

A layered layout after Sugiyama, Tagawa and Toda ("Methods for Visual Understanding of Hierarchical System
Structures", IEEE SMC-11(2), 1981): layers by the longest path, order within a layer by the mean of the
neighbours.
"""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from latlab.words import duration, number, plural

__all__ = ["DrawnQueue", "Node", "draw", "layers", "stage"]

_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 138, 54, 132, 34, 14
_ROOM = 0.64  # of a gap, for a label: twice what lies between its place and the nearer stage
_LEAST_SCALE = 0.75  # of labels of 11.5 pixels

# Where colours change. A queue at a tenth of its capacity is warm: one that is drained in time is empty.
_FILLS, _LOADS = (0.01, 0.1, 0.5, 0.9), (0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True, slots=True)
class Node:
    """A stage.

    Attributes:
        name: by which edges refer to it.
        note: a second, smaller line: what it is, or how busy.
        load: from 0 to 1, drawn as a bar; None draws none.
        limits: whether it is drawn as the one that limits.
    """

    name: str
    note: str = ""
    load: float | None = None
    limits: bool = False


@dataclass(frozen=True, slots=True)
class DrawnQueue:
    """A queue.

    Attributes:
        source: the stage that pushes.
        drain: the stage that pops.
        label: what is written on it, such as its p99 fill.
        fill: from 0 to 1, shown by colour and width; None is drawn as empty.
    """

    source: str
    drain: str
    label: str = ""
    fill: float | None = None


def stage(name: str, rate_hz: float, service_ns: float | None, load: float | None, *, limits: bool) -> Node:
    """A stage with its rate and the time that it works on an event."""
    return Node(name, f"{number(rate_hz)}/s, {duration(service_ns)}", load, limits)


def draw(nodes: Sequence[Node], edges: Sequence[DrawnQueue]) -> str:
    """The pipeline as SVG, for `Page.svg`; its colours follow the page.

    Args:
        nodes: the stages, names unique.
        edges: the queues; a stage that only they name is drawn too. Cycles are fine.
    """
    known = {node.name: node for node in nodes}
    for edge in edges:
        known.setdefault(edge.source, Node(edge.source))
        known.setdefault(edge.drain, Node(edge.drain))
    if not known:
        return '<svg class="drawing" viewBox="0 0 10 10" role="img" aria-label="no stages"></svg>'
    ordered = layers(list(known), [(edge.source, edge.drain) for edge in edges])
    tallest = max(len(layer) for layer in ordered)
    height = 2 * _MARGIN + tallest * (_BOX_HEIGHT + _GAP_Y)
    # A label that stands at two thirds of a wire must not cover the stage behind it.
    gap = max([_GAP_X, *(math.ceil(_plate(edge.label) / _ROOM) for edge in edges)])
    width = 2 * _MARGIN + len(ordered) * _BOX_WIDTH + (len(ordered) - 1) * gap
    place: dict[str, tuple[float, float]] = {}
    for column, layer in enumerate(ordered):
        room = (height - 2 * _MARGIN) / len(layer)
        for row, name in enumerate(layer):
            y = _MARGIN + room * (row + 0.5) - _BOX_HEIGHT / 2
            place[name] = (_MARGIN + column * (_BOX_WIDTH + gap), y)
    wires, labels = [], []
    twins = Counter((edge.source, edge.drain) for edge in edges)
    into, out_of = Counter(edge.drain for edge in edges), Counter(edge.source for edge in edges)
    drawn: Counter[tuple[str, str]] = Counter()
    for edge in edges:
        ends = (edge.source, edge.drain)
        apart = (drawn[ends] - (twins[ends] - 1) / 2) * 20
        drawn[ends] += 1
        wire, label = _edge(edge, place, apart, into[edge.drain] > out_of[edge.source])
        wires.append(wire)
        labels.append(label)
    boxes = [_box(node, *place[name]) for name, node in known.items()]
    arrow = (
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto"><path class="head" d="M0 0L10 5L0 10z"/></marker></defs>'
    )
    body = "".join([arrow, *wires, *boxes, *labels])
    # A small pipeline is not blown up to the page's width, a long one is scrolled before it is unreadable.
    style = f' style="max-width:{1.25 * width:.0f}px;min-width:{_LEAST_SCALE * width:.0f}px"'
    told = f"{plural(len(known), 'stage')} and {plural(len(edges), 'queue')} between them"
    return (
        f'<svg class="drawing" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{told}"{style}>'
        f"{body}</svg>"
    )


def layers(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """The stages from left to right: each right of all that feed it, as far as there is no cycle."""
    forward = _without_cycles(names, edges)
    depth = dict.fromkeys(names, 0)
    # Longest path: as many rounds as the longest can have.
    for _ in names:
        before = dict(depth)
        for source, drain in forward:
            depth[drain] = max(depth[drain], depth[source] + 1)
        if depth == before:
            break
    feeds: dict[str, list[str]] = {name: [] for name in names}
    fed_by: dict[str, list[str]] = {name: [] for name in names}
    for source, drain in forward:
        feeds[source].append(drain)
        fed_by[drain].append(source)
    found: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name in names:
        found[depth[name]].append(name)
    for _ in range(4):
        for column in range(1, len(found)):
            _order(found[column], found[column - 1], fed_by)
        for column in range(len(found) - 2, -1, -1):
            _order(found[column], found[column + 1], feeds)
    return found


def _order(layer: list[str], beside: list[str], neighbours: Mapping[str, list[str]]) -> None:
    rank = {name: (row + 0.5) / len(beside) for row, name in enumerate(beside)}
    own = {name: (row + 0.5) / len(layer) for row, name in enumerate(layer)}

    def mean(name: str) -> float:
        ranks = [rank[other] for other in neighbours[name] if other in rank]
        return sum(ranks) / len(ranks) if ranks else own[name]

    layer.sort(key=mean)


def _without_cycles(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The edges without those that close a cycle, found depth first in the order of `names`."""
    following: dict[str, list[str]] = {name: [] for name in names}
    for source, drain in edges:
        following[source].append(drain)
    state = dict.fromkeys(names, 0)
    kept: list[tuple[str, str]] = []
    for root in names:
        stack = [(root, iter(following[root]))] if state[root] == 0 else []
        state[root] = state[root] or 1
        while stack:
            name, rest = stack[-1]
            below = next(rest, None)
            if below is None:
                state[name] = 2
                stack.pop()
            elif state[below] != 1:
                kept.append((name, below))
                if state[below] == 0:
                    state[below] = 1
                    stack.append((below, iter(following[below])))
    return kept


def _level(share: float | None, limits: Sequence[float]) -> int:
    """Five steps of colour."""
    return 0 if share is None else sum(share >= limit for limit in limits)


def _edge(
    edge: DrawnQueue, place: dict[str, tuple[float, float]], aside: float, near_source: bool
) -> tuple[str, str]:
    """A wire and its label; `aside` keeps parallel queues apart."""
    (x0, y0), (x1, y1) = place[edge.source], place[edge.drain]
    begin, end = (x0 + _BOX_WIDTH, y0 + _BOX_HEIGHT / 2 + aside), (x1, y1 + _BOX_HEIGHT / 2 + aside)
    if x1 > x0:
        bend = max(40.0, (end[0] - begin[0]) / 2)
        start = f"M{begin[0]} {begin[1]}C{begin[0] + bend} {begin[1]}"
        path = f"{start} {end[0] - bend} {end[1]} {end[0] - 3} {end[1]}"
        # Where the wires are apart: those of one source near their drains, those of one drain near their
        # sources.
        along, across = (0.32, 0.16) if near_source else (0.62, 0.76)
        at = (begin[0] + (end[0] - begin[0]) * along, begin[1] + (end[1] - begin[1]) * across)
    else:
        drop = max(y0, y1) + _BOX_HEIGHT + 22
        start = f"M{begin[0]} {begin[1]}C{begin[0] + 60} {drop} {begin[0]} {drop}"
        path = f"{start} {(begin[0] + end[0]) / 2} {drop}S{end[0] - 60} {drop} {end[0] - 3} {end[1]}"
        at = ((begin[0] + end[0]) / 2, drop)
    level = _level(edge.fill, _FILLS)
    wire = (
        f'<path class="wire f{level}" stroke-width="{2 + 1.5 * level}" marker-end="url(#tip)" d="{path}">'
        f"<title>{html.escape(f'{edge.source} → {edge.drain}: {edge.label}')}</title></path>"
    )
    if not edge.label:
        return wire, ""
    text = html.escape(edge.label)
    plate = _plate(edge.label)
    label = (
        f'<rect class="plate" x="{at[0] - plate / 2:.1f}" y="{at[1] - 9:.1f}" '
        f'width="{plate:.1f}" height="17" rx="4"/>'
        f'<text x="{at[0]:.1f}" y="{at[1] + 4:.1f}" text-anchor="middle" font-size="11.5">{text}</text>'
    )
    return wire, label


def _plate(label: str) -> float:
    """The width of what a label stands on."""
    return 6.3 * len(label) + 8


def _box(node: Node, x: float, y: float) -> str:
    middle = x + _BOX_WIDTH / 2
    title_y = y + (22 if node.note else _BOX_HEIGHT / 2 + 5)
    limits = " limit" if node.limits else ""
    name = node.name if len(node.name) <= 19 else node.name[:18] + "…"
    parts = [
        f"<g><title>{html.escape(node.name)}</title>",
        f'<rect class="box{limits}" x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="9"/>',
        f'<text x="{middle}" y="{title_y}" text-anchor="middle" font-size="14" font-weight="600">',
        f"{html.escape(name)}</text>",
    ]
    if node.note:
        parts.append(
            f'<text class="soft" x="{middle}" y="{y + 38}" text-anchor="middle" font-size="11.5">'
            f"{html.escape(node.note)}</text>"
        )
    if node.load is not None:
        share = min(max(node.load, 0.0), 1.0)
        bar_y, bar_width = y + _BOX_HEIGHT - 9, _BOX_WIDTH - 24
        parts.append(f'<rect class="track" x="{x + 12}" y="{bar_y}" width="{bar_width}" height="4" rx="2"/>')
        place = f'x="{x + 12}" y="{bar_y}" width="{bar_width * share:.1f}" height="4" rx="2"'
        parts.append(f'<rect class="b{_level(share, _LOADS)}" {place}/>')
    return "".join([*parts, "</g>"])
