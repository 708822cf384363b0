"""The slowest requests as a trace that ui.perfetto.dev opens (trace event format)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from latlab.model.requests import Requests, SlowRequest
from latlab.reports.json import dumps
from latlab.reports.requests.sentence import SAYS

__all__ = ["trace"]


def trace(found: Requests) -> str:
    """A process a request, a track a thread, a slice a part, an arrow a wake-up; µs of CLOCK_MONOTONIC."""
    events = [event for number, one in enumerate(found.slowest, 1) for event in _events(number, one)]
    return dumps({"displayTimeUnit": "ns", "traceEvents": events})


def _events(number: int, one: SlowRequest) -> Iterator[dict[str, Any]]:
    name = f"{number}. {one.kind} on {one.connection}"
    yield {"ph": "M", "name": "process_name", "pid": number, "tid": 0, "args": {"name": name}}
    threads = {"": 0}
    for thread in (*(span.thread for span in one.timeline), *(wake.waker for wake in one.wakes)):
        threads.setdefault(thread, len(threads))
    for thread, track in threads.items():
        label = thread or "request"
        yield {"ph": "M", "name": "thread_name", "pid": number, "tid": track, "args": {"name": label}}
    whole = {
        "ph": "X",
        "name": one.kind,
        "pid": number,
        "tid": 0,
        "ts": one.began_ns / 1e3,
        "dur": one.ns / 1e3,
    }
    yield {**whole, "args": {"connection": one.connection, "still_open": one.still_open}}
    for span in one.timeline:
        yield {
            "ph": "X", "name": SAYS[span.kind], "pid": number, "tid": threads[span.thread],
            "ts": (one.began_ns + span.from_ns) / 1e3, "dur": (span.until_ns - span.from_ns) / 1e3,
            "args": {"where": span.where},
        }  # fmt: skip
    ends = dict.fromkeys(threads.values(), 0.0)  # of the last marker of each track
    for index, wake in enumerate(one.wakes):
        shared = {"name": "wakes", "cat": "wake", "id": f"{number}.{index}", "pid": number}
        at = (one.began_ns + wake.at_ns) / 1e3
        track = threads[wake.waker]
        # An arrow begins and ends in a slice: a short one for the waker, within the one that it is in.
        begin = max(at - 1, ends[track], _slice_at(one, wake.waker, wake.at_ns))
        ends[track] = at
        if at > begin:
            yield {"ph": "X", "name": "wakes", "pid": number, "tid": track, "ts": begin, "dur": at - begin}
        yield {"ph": "s", "tid": track, "ts": (begin + at) / 2, **shared}
        if wake.thread in threads:
            yield {"ph": "f", "bp": "e", "tid": threads[wake.thread], "ts": at + 0.001, **shared}


def _slice_at(one: SlowRequest, thread: str, at_ns: int) -> float:
    """When the span of a thread began that a time is in or ends; slices of one track must nest."""
    edges = [edge for span in one.timeline if span.thread == thread for edge in (span.from_ns, span.until_ns)]
    return (one.began_ns + max((edge for edge in edges if edge < at_ns), default=-1_000)) / 1e3
