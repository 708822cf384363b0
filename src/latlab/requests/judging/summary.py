"""The requests as a result: percentiles, kinds, the tail's and the median's parts, the answer. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from latlab.model.evidence.requests import NoTail, RequestsDoubt, TailPlace
from latlab.model.evidence.said import kind_of, said
from latlab.model.evidence.threads import ScheduleNote
from latlab.model.requests import (
    NOT_ASKED,
    RequestKind,
    Requests,
    SlowRequest,
    TailAnswer,
    TimeSlice,
)
from latlab.model.schedule import Schedule
from latlab.requests.connections import GIVEN_UP_NS, NEVER, Found
from latlab.requests.faults import Faults
from latlab.requests.judging.answer import holding, longest, others_of, tail_answer
from latlab.requests.judging.common import ended_together, traits_of
from latlab.requests.judging.forecast import forecasts
from latlab.requests.parts import Account, merged
from latlab.stats.censored import censored_quantiles

__all__ = ["summarise"]

_MANY = 10_000
_SLOWEST = 10
_FEWEST_SLOW = 8  # are judged, also where they are more than a hundredth
_FEWEST_LONG = 5  # of which something is said
_MEDIANS = 200  # that are taken apart, and of the slowest hundredth of many
_FEWEST = 20
_MOST_KINDS = 50
_UNSEEN = 0.02
_SLICES = 60  # of the time
_GO_STARTS = ("runtime.goexit", "runtime.mcall", "runtime.mstart")  # what stands outermost in Go's stacks
_QUANTILES = {"p50_ns": 0.5, "p99_ns": 0.99, "p999_ns": 0.999}

Array = np.ndarray[Any, Any]


def summarise(
    found: Found,
    schedule: Schedule,
    lost: int,
    sampled_share: float = 1.0,
    faults: Faults | None = None,
    *,
    forecast: bool = False,
) -> Requests:
    """What the requests say, with distrust where too little was seen; on demand what a change would buy."""
    rows = found.rows[
        (found.rows["arrived"] >= schedule.began_ns)
        & (found.rows["arrived"] < schedule.ended_ns)
        & ((found.rows["sent"] == NEVER) | (found.rows["sent"] <= schedule.ended_ns))
    ].copy()
    _end_with_threads(rows, schedule)
    still = rows["answered"] == NEVER
    rows = rows[~still | (rows["sent"] - rows["arrived"] >= GIVEN_UP_NS)]
    still = rows["answered"] == NEVER
    for key in ("sent", "read", "answered"):  # what didn't come while it was observed lasts until its end
        rows[key] = np.minimum(rows[key], schedule.ended_ns if key == "sent" else rows["sent"])
    times = rows["sent"] - rows["arrived"]
    answered = int((~still).sum())
    whole, at_least = _percentiles(times, still)
    kinds, pooled = _kinds(found, rows, times, still)
    order = np.argsort(times, kind="stable")
    account = Account(
        schedule, rows, found.kinds, faults, found.calls, found.asked, found.clients, found.pipes
    )

    def apart(which: Sequence[int]) -> list[dict[Any, float]]:
        return [account.of(index) for index in which]

    slow, usual = _tail(order), _median(order)
    tail, median = apart(slow), apart(usual)
    median_causes, median_through = (
        [one(index) for index in usual] for one in (account.causes, account.through)
    )

    goroutines = any(one.function.startswith(_GO_STARTS) for one in schedule.frames)

    def judged(which: Sequence[int], group: Literal["hundredth", "p99.9", "slowest"]) -> TailAnswer:
        every, which_apart = len(which), apart(which)
        kept = others_of(which_apart)
        which, which_apart = [which[at] for at in kept], [which_apart[at] for at in kept]
        long = _long(times, which, usual)
        common = traits_of(
            rows, [which[at] for at in long], usual, ([which_apart[at] for at in long], median), found.kinds,
            found.connections, account.cpu_of,
        )  # fmt: skip
        causes, held, followed, through, beyond, further = (
            [one(index) for index in which]
            for one in (
                account.causes, account.held, account.followed, account.through, account.beyond,
                account.further,
            )
        )  # fmt: skip
        answer = tail_answer(
            which_apart, median, causes, median_causes, common, held, followed, through, median_through,
            beyond, further,
        )  # fmt: skip
        if kind_of(answer.withheld) is NoTail.NOT_SEEN and goroutines:
            answer = replace(answer, withheld=said(NoTail.GOROUTINES))
        sleeps = goroutines and answer.kind == "timer" and not answer.withheld
        if sleeps and ended_together(rows, [which[at] for at in long]):
            answer = replace(answer, withheld=said(NoTail.GOROUTINES_TOGETHER))
        ahead = [account.ahead[index] for index in which if index in account.ahead]
        queued = kind_of(answer.where) in (TailPlace.BURST, TailPlace.MANY, TailPlace.CROWD)
        return replace(
            answer, group=group, parts=merged(which_apart), left_out=every - len(kept),
            ahead=int(np.median(ahead)) if queued and ahead else 0,
        )  # fmt: skip

    if len(order) >= _MANY:
        answer = holding(judged(slow, "p99.9"), judged(_hundredth(order), "hundredth"))
    elif len(slow) >= _FEWEST_SLOW:
        answer = judged(slow, "hundredth")
    else:
        answer = judged(order[-_FEWEST_SLOW:].tolist(), "slowest")
    told, why = forecasts(schedule, rows, account, slow) if forecast else ((), NOT_ASKED)
    seconds = schedule.seconds
    return Requests(
        seconds,
        answered,
        answered / seconds / sampled_share if seconds else 0.0,
        len(found.connections),
        found.framing,
        **whole,
        without_arrival=int((rows["seen"] == 0).sum()),
        kinds=kinds,
        parts=merged(tail),
        median_parts=merged(median),
        band=len(tail),
        slowest=tuple(
            SlowRequest(
                int(times[index]), int(rows["arrived"][index]),
                found.connections[int(rows["connection"][index])],
                found.kinds[int(rows["kind"][index])], merged(apart([index])), bool(still[index]),
                *account.timeline(index),
            )
            for index in order[::-1][:_SLOWEST].tolist()
        ),
        lost_events=lost,
        sampled_share=sampled_share,
        distrust=_distrust(rows, schedule, lost, found),
        still_open=int(still.sum()),
        longest_open_ns=int(times[still].max(initial=0)),
        at_least=at_least,
        uncounted=found.uncounted,
        unasked=found.unasked,
        framings=dict(found.framings),
        pooled_kinds=pooled,
        answer=answer,
        began_ns=schedule.began_ns,
        over_time=_over_time(rows["arrived"] - schedule.began_ns, times, still, schedule.seconds),
        forecasts=told,
        forecasts_withheld=why,
    )  # fmt: skip


def _long(times: Array, slow: Sequence[int], usual: Sequence[int]) -> list[int]:
    """Which of the slow ones are long; all where too few are."""
    found = longest(times[slow].tolist(), float(times[usual].mean()) if usual else 0.0)
    return found if len(found) >= _FEWEST_LONG else list(range(len(slow)))


def _end_with_threads(rows: Array, schedule: Schedule) -> None:
    """Who reads a connection and ends will not answer any more what came on it.

    And what nobody has read of a process that has ended was none of its own: it came later at this address,
    or ended with it.
    """
    ended = {one.tid: one.ended_ns for one in schedule.threads if one.ended}
    process = {one.tid: one.pid for one in schedule.threads}
    alive = {one.pid for one in schedule.threads if not one.ended}
    for at in np.flatnonzero((rows["answered"] == NEVER) & (rows["sent"] == NEVER)).tolist():
        row, reader = rows[at], int(rows["reader"][at])
        if reader in ended and row["read"] != NEVER:
            rows["sent"][at] = max(int(row["read"]), ended[reader])
        elif reader in ended and process[reader] not in alive:
            rows["sent"][at] = max(int(row["arrived"]), ended[reader])


def _percentiles(times: Array, still: Array) -> tuple[dict[str, int], tuple[str, ...]]:
    """The percentiles and the maximum by their fields' names, and which are lower bounds."""
    if not len(times):
        return dict.fromkeys((*_QUANTILES, "max_ns"), 0), ()
    values = dict(zip(_QUANTILES, censored_quantiles(times, still, _QUANTILES.values()), strict=True))
    last = int(times.max())
    values["max_ns"] = (last, bool(still[times == last].any()))
    return {name: ns for name, (ns, _) in values.items()}, tuple(
        name for name, (_, bound) in values.items() if bound
    )


def _over_time(began_ns: Array, times: Array, still: Array, seconds: float) -> tuple[TimeSlice, ...]:
    length_s = seconds / _SLICES if seconds else 1.0
    which = np.minimum((began_ns / 1e9 / length_s).astype(np.int64), _SLICES - 1)
    found = []
    for number in np.unique(which).tolist():
        here = which == number
        values, _ = _percentiles(times[here], still[here])
        found.append(
            TimeSlice(
                number * length_s, int(here.sum()), values["p50_ns"], values["p99_ns"], values["max_ns"]
            )
        )
    return tuple(found)


def _distrust(rows: Array, schedule: Schedule, lost: int, requests: Found) -> tuple[str, ...]:
    found: list[str] = []
    if requests.unended:
        found.append(said(RequestsDoubt.UNENDED, connections=requests.unended))
    if len(rows) < _FEWEST and requests.pushed:
        found.append(said(RequestsDoubt.PUSHED, number=len(rows), connections=requests.pushed))
    elif not len(rows) and requests.asked:
        found.append(said(RequestsDoubt.ASKS))
    elif len(rows) < _FEWEST and not requests.unended:
        found.append(said(RequestsDoubt.TOO_FEW, number=len(rows)))
    if requests.overlapping:
        found.append(said(RequestsDoubt.OVERLAP, connections=requests.overlapping))
    if lost:
        found.append(said(RequestsDoubt.LOST, events=lost))
    if schedule.losses.unseen_share > _UNSEEN:
        found.append(said(RequestsDoubt.SWITCHES))
    found += [note for note in schedule.losses.notes if kind_of(note) is ScheduleNote.NARROW]
    blind = int((rows["seen"] == 0).sum())
    if len(rows) and blind > 0.05 * len(rows):
        found.append(said(RequestsDoubt.ARRIVALS, number=blind))
    return tuple(found)


def _tail(order: Array) -> list[int]:
    """Those around p99.9; of fewer than ten thousand the slowest hundredth."""
    count = len(order)
    if count < _MANY:
        return [int(index) for index in order[count - max(1, count // 100) :]] if count else []
    return [int(index) for index in order[int(0.9985 * count) : int(0.9995 * count) + 1]]


def _hundredth(order: Array) -> list[int]:
    """Drawn over the slowest hundredth by rank."""
    slowest = order[len(order) - len(order) // 100 :]
    return [int(index) for index in slowest[:: max(1, len(slowest) // _MEDIANS)]]


def _median(order: Array) -> list[int]:
    count = len(order)
    low, high = int(0.45 * count), max(int(0.55 * count), int(0.45 * count) + 1)
    step = max(1, (high - low) // _MEDIANS)
    middle = order[low:high]
    # Drawn over the whole band by rank, not by time, so that no period of the program is met.
    return [int(index) for index in middle[::step]]


def _kinds(found: Found, rows: Array, times: Array, still: Array) -> tuple[tuple[RequestKind, ...], int]:
    """Each kind, the most frequent first; of more than fifty the rest as one, and how many these are."""
    numbers, counts = np.unique(rows["kind"], return_counts=True)
    numbers = numbers[np.argsort(-counts, kind="stable")]
    kept = numbers if len(numbers) <= _MOST_KINDS else numbers[: _MOST_KINDS - 1]
    rest = numbers[len(kept) :]
    kinds = [_kind(found.kinds[number], rows["kind"] == number, times, still) for number in kept.tolist()]
    if len(rest):
        kinds.append(_kind("other", np.isin(rows["kind"], rest), times, still))
    return tuple(kinds), len(rest)


def _kind(name: str, which: Array, times: Array, still: Array) -> RequestKind:
    values, at_least = _percentiles(times[which], still[which])
    return RequestKind(
        name, int(which.sum()), **values, still_open=int(still[which].sum()), at_least=at_least
    )
