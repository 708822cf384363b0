"""The slowest requests as timelines: a lane a thread, a colour a part, an arrow a wake-up."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib import resources

from latlab.model.requests import RequestSpan, SlowRequest
from latlab.reports.requests.sentence import SAYS
from latlab.words import duration

__all__ = ["timelines"]

_MOST_LANES = 6


def timelines(slowest: Sequence[SlowRequest]) -> str:
    """The markup with its style sheet; "" where no request has a timeline."""
    drawn = [one for one in slowest if one.timeline]
    if not drawn:
        return ""
    style = (resources.files("latlab.reports.requests") / "timeline.css").read_text(encoding="utf-8")
    kinds = {span.kind for one in drawn for span in one.timeline}
    legend = "".join(f'<span class="rq-{kind}">{SAYS[kind]}</span>' for kind in SAYS if kind in kinds)
    whole = "".join(_request(number, one) for number, one in enumerate(drawn, 1))
    return f'<style>{style}</style><div class="rq-legend">{legend}</div>{whole}'


def _request(number: int, one: SlowRequest) -> str:
    bound = "≥ " if one.still_open else ""
    title = f"{number}. {one.kind}, {bound}{duration(one.ns)}, {one.connection}"
    lanes = list(dict.fromkeys(span.thread for span in one.timeline))
    wakers = [wake.waker for wake in one.wakes if wake.waker and wake.waker not in lanes]
    shown = (lanes + sorted(set(wakers), key=lambda name: -wakers.count(name)))[:_MOST_LANES]
    body = "".join(_lane(name, shown, one) for name in shown)
    axis = f'<div class="rq-axis"><span>0</span><span>{duration(one.ns)}</span></div>'
    return (
        f'<div class="rq"><h3>{html.escape(title)}</h3>{body}'
        f'<div class="rq-lane"><span></span>{axis}</div></div>'
    )


def _lane(name: str, shown: Sequence[str], one: SlowRequest) -> str:
    bars = "".join(_bar(span, one.ns) for span in one.timeline if span.thread == name)
    for wake in one.wakes:
        if wake.waker not in shown or wake.thread not in shown or wake.waker == wake.thread:
            continue
        left = _percent(wake.at_ns, one.ns)
        said = html.escape(f"{wake.waker} wakes {wake.thread} at {duration(wake.at_ns)}", quote=True)
        if name == wake.thread:
            way = "down" if shown.index(wake.waker) < shown.index(name) else "up"
            bars += f'<b class="{way}" style="left:{left}" title="{said}"></b>'
        elif name == wake.waker:
            bars += f'<b class="from" style="left:{left}" title="{said}"></b>'
    label = html.escape(name or "not known", quote=True)
    return (
        f'<div class="rq-lane"><span class="rq-name" title="{label}">{label}</span>'
        f'<div class="rq-bar">{bars}</div></div>'
    )


def _bar(span: RequestSpan, whole_ns: int) -> str:
    where = f" ({span.where})" if span.where else ""
    said = html.escape(f"{SAYS[span.kind]}{where}: {duration(span.until_ns - span.from_ns)}", quote=True)
    left, width = _percent(span.from_ns, whole_ns), _percent(span.until_ns - span.from_ns, whole_ns)
    return f'<i class="rq-{span.kind}" style="left:{left};width:{width}" title="{said}"></i>'


def _percent(ns: int, whole_ns: int) -> str:
    return f"{100 * ns / max(1, whole_ns):.3f}%"
