"""The requests as a result: percentiles, kinds, and the parts of the tail and of the median. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from latlab.model.requests import RequestKind, Requests, SlowRequest
from latlab.model.schedule import Schedule
from latlab.requests.connections import Found
from latlab.requests.parts import Account, merged
from latlab.stats.quantiles import quantiles

__all__ = ["summarise"]

_MANY = 10_000
_SLOWEST = 10
_MEDIANS = 200  # that are taken apart
_FEWEST = 20
_MOST_KINDS = 50
_UNSEEN = 0.02


def summarise(found: Found, schedule: Schedule, lost: int) -> Requests:
    """What the requests say; with distrust where too little was seen."""
    inside = (found.rows["arrived"] >= schedule.began_ns) & (found.rows["sent"] <= schedule.ended_ns)
    found = replace(found, rows=found.rows[inside])
    rows = found.rows
    times = rows["sent"] - rows["arrived"]
    seconds = schedule.seconds
    distrust = _distrust(found, schedule, lost)
    if not len(rows):
        return Requests(
            seconds,
            0,
            0.0,
            len(found.connections),
            found.framing,
            0,
            0,
            0,
            0,
            0,
            (),
            (),
            (),
            0,
            (),
            lost,
            1.0,
            distrust,
        )
    p50, p99, p999 = (int(value) for value in quantiles(times, (0.5, 0.99, 0.999)))
    order = np.argsort(times, kind="stable")
    account = Account(schedule)
    before = _done_before(rows)

    def apart(which: Sequence[int]) -> list[dict[Any, float]]:
        return [account.of(rows[index], int(before[index])) for index in which]

    band = _tail(order)
    slowest = order[::-1][:_SLOWEST].tolist()
    return Requests(
        seconds,
        len(rows),
        len(rows) / seconds if seconds else 0.0,
        len(found.connections),
        found.framing,
        p50, p99, p999, int(times.max()),
        int((rows["seen"] == 0).sum()),
        _kinds(found, times),
        merged(apart(band)),
        merged(apart(_median(order))),
        len(band),
        tuple(
            SlowRequest(
                int(times[index]), int(rows["arrived"][index]),
                found.connections[int(rows["connection"][index])],
                found.kinds[int(rows["kind"][index])], merged(apart([index])),
            )
            for index in slowest
        ),
        lost,
        1.0,
        distrust,
    )  # fmt: skip


def _distrust(found: Found, schedule: Schedule, lost: int) -> tuple[str, ...]:
    said = []
    if len(found.rows) < _FEWEST:
        said.append(f"only {len(found.rows)} requests were seen: observe for longer, with --seconds")
    if lost:
        said.append(f"{lost:,} events found no room: observe for a shorter time")
    if schedule.losses.unseen_share > _UNSEEN:
        said.append("too many of the threads' switches were not seen")
    blind = int((found.rows["seen"] == 0).sum())
    if len(found.rows) and blind > 0.05 * len(found.rows):
        said.append(
            f"of {blind:,} requests the arrival was not seen: they are counted from when they were read"
        )
    return tuple(said)


def _done_before(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """When each request's answering thread had sent its answer before that one; 0 for never."""
    order = np.lexsort((rows["sent"], rows["sender"]))
    before = np.zeros(len(rows), np.int64)
    same = rows["sender"][order][1:] == rows["sender"][order][:-1]
    before[order[1:]] = np.where(same, rows["sent"][order][:-1], 0)
    return before


def _tail(order: np.ndarray[Any, Any]) -> list[int]:
    """Those around p99.9; of fewer than ten thousand the slowest hundredth."""
    count = len(order)
    if count < _MANY:
        return [int(index) for index in order[-max(1, count // 100) :]]
    return [int(index) for index in order[int(0.9985 * count) : int(0.9995 * count) + 1]]


def _median(order: np.ndarray[Any, Any]) -> list[int]:
    count = len(order)
    low, high = int(0.45 * count), max(int(0.55 * count), int(0.45 * count) + 1)
    step = max(1, (high - low) // _MEDIANS)
    middle = order[low:high]
    # Drawn over the whole band by rank, not by time, so that no period of the program is met.
    return [int(index) for index in middle[::step]]


def _kinds(found: Found, times: np.ndarray[Any, Any]) -> tuple[RequestKind, ...]:
    kinds = []
    for number, name in enumerate(found.kinds):
        of_kind = times[found.rows["kind"] == number]
        if len(of_kind):
            p50, p99, p999 = (int(value) for value in quantiles(of_kind, (0.5, 0.99, 0.999)))
            kinds.append(RequestKind(name, len(of_kind), p50, p99, p999, int(of_kind.max())))
    return tuple(sorted(kinds, key=lambda one: -one.count)[:_MOST_KINDS])
