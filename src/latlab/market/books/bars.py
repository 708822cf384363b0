"""Bars of trades: by time, by volume, or by number of trades."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from latlab.errors import UsageError
from latlab.market.books.passes import Input, Tell
from latlab.market.books.selection import Selecting
from latlab.market.books.tables import TableStream, trade_stream, trades

if TYPE_CHECKING:
    import pyarrow as pa

Numbers = npt.NDArray[Any]
_DAYS_APART_NS = 3_600_000_000_000


def bars(
    path: Input,
    *,
    every_ns: int = 0,
    volume: int = 0,
    ticks: int = 0,
    tell: Tell = None,
    **selection: Unpack[Selecting],
) -> pa.Table:
    """Bars of the trades that are volume: printable and not taken back later.

    One of `every_ns` (whole multiples since midnight; a time without trades has no bar), `volume` (a bar is
    full with the trade that brings it to so many shares) and `ticks` (so many trades) is given.

    Returns:
        Columns ts_ns (the bar's begin: of the period, or its first trade), end_ns (its last trade), locate,
        symbol, open, high, low, close (1/10,000), volume, trades, vwap (1/10,000), buy_volume and sell_volume
        (of aggressors, as far as the feed tells them), imbalance ((buy - sell) / (buy + sell); none where
        there is neither), by symbol and time.

    Raises:
        InputError: the input is bad.
        UsageError: not exactly one kind of bar, or one out of range.
    """
    if (every_ns > 0) + (volume > 0) + (ticks > 0) != 1 or min(every_ns, volume, ticks) < 0:
        raise UsageError("give one of a time, a volume or a number of trades for a bar")
    table = trades(path, tell=tell, **selection)
    return bars_of(table, every_ns=every_ns, volume=volume, ticks=ticks)


def bar_stream(
    path: Input, *, every_ns: int, tell: Tell = None, **selection: Unpack[Selecting]
) -> TableStream:
    """Bars by time as soon as their time is over; the input is read twice, as by `trade_stream`.

    Raises:
        UsageError: the input can be read once only.
    """
    source = trade_stream(path, tell=tell, **selection)

    def tables() -> Iterator[pa.Table]:
        import pyarrow as pa
        import pyarrow.compute as pc

        waiting = None
        for table in (day for piece in source for day in _by_day(piece)):
            if waiting is not None and _goes_back(waiting, table):
                yield bars_of(waiting, every_ns=every_ns)
                waiting = None
            waiting = table if waiting is None else pa.concat_tables([waiting, table])
            newest = pc.max(waiting["ts_ns"]).as_py() or 0
            over = pc.less(waiting["ts_ns"], newest // every_ns * every_ns)
            yield bars_of(waiting.filter(over), every_ns=every_ns)
            waiting = waiting.filter(pc.invert(over))
        if waiting is not None:
            yield bars_of(waiting, every_ns=every_ns)

    return TableStream(tables())


def _by_day(table: pa.Table) -> Iterator[pa.Table]:
    """The rows of each day of a table: what goes back by an hour is the next one."""
    begins = np.flatnonzero(np.diff(table["ts_ns"].to_numpy().astype(np.int64)) < -_DAYS_APART_NS) + 1
    for begin, end in pairwise([0, *begins.tolist(), table.num_rows]):
        yield table.slice(begin, end - begin)


def _goes_back(before: pa.Table, after: pa.Table) -> bool:
    if not (before.num_rows and after.num_rows):
        return False
    step: int = after["ts_ns"][0].as_py() - before["ts_ns"][-1].as_py()
    return step < -_DAYS_APART_NS


def bars_of(table: pa.Table, *, every_ns: int = 0, volume: int = 0, ticks: int = 0) -> pa.Table:
    """The bars of a table that `trades` made."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = table.filter(pc.and_(table["printable"], pc.invert(table["broken"])))
    times, locates = table["ts_ns"].to_numpy(), table["locate"].to_numpy()
    order = np.argsort(locates, kind="stable")  # of a symbol in the feed's order
    table, times, locates = table.take(pa.array(order)), times[order], locates[order]
    price, qty = table["price"].to_numpy().astype(np.float64), table["qty"].to_numpy()
    aggressor = table["aggressor"]
    buys = qty * pc.fill_null(pc.equal(aggressor, "B"), False).to_numpy()
    sells = qty * pc.fill_null(pc.equal(aggressor, "S"), False).to_numpy()
    # A symbol's day: another locate, or the same in a later day of the file.
    group = np.cumsum((np.diff(locates, prepend=0) != 0) | (np.diff(times.astype(np.int64), prepend=0) < 0))
    number = _numbers(times, group, qty, every_ns, volume, ticks)
    changes = np.flatnonzero((np.diff(number) != 0) | (np.diff(group) != 0)) + 1
    starts = np.concatenate([[0], changes]).astype(np.int64) if len(times) else np.empty(0, np.int64)
    ends = np.concatenate([changes, [len(times)]])[: len(starts)].astype(np.int64) - 1

    def total(values: Numbers) -> Numbers:
        return np.add.reduceat(values, starts) if len(starts) else values[:0]

    def extreme(ufunc: np.ufunc) -> Numbers:
        return ufunc.reduceat(price, starts) if len(starts) else price[:0]

    shares, bought, sold = total(qty), total(buys), total(sells)
    begin = number[starts] * every_ns if every_ns else times[starts]
    both = bought + sold
    tilt = (bought.astype(np.float64) - sold) / np.maximum(both, 1)
    columns = {}
    if "time" in table.column_names:
        at = table["time"].take(pa.array(starts))
        back = pa.array(times[starts].astype(np.int64) - begin.astype(np.int64))
        columns["time"] = pc.subtract(at.cast(pa.int64()), back).cast(at.type)
    return pa.table(
        columns
        | {
            "ts_ns": pa.array(begin.astype(np.uint64)),
            "end_ns": pa.array(times[ends]),
            "locate": pa.array(locates[starts]),
            "symbol": table["symbol"].take(pa.array(starts)),
            "open": pa.array(price[starts].astype(np.uint32)),
            "high": pa.array(extreme(np.maximum).astype(np.uint32)),
            "low": pa.array(extreme(np.minimum).astype(np.uint32)),
            "close": pa.array(price[ends].astype(np.uint32)),
            "volume": pa.array(shares),
            "trades": pa.array((ends - starts + 1).astype(np.uint32)),
            "vwap": pa.array(total(price * qty) / np.maximum(shares, 1)),
            "buy_volume": pa.array(bought),
            "sell_volume": pa.array(sold),
            "imbalance": pa.array(tilt, mask=both == 0),
        }
    )


def _numbers(
    times: Numbers, group: Numbers, qty: Numbers, every_ns: int, volume: int, ticks: int
) -> npt.NDArray[np.int64]:
    """The bar of each trade, counted within its symbol's day."""
    if every_ns:
        return (times // np.uint64(every_ns)).astype(np.int64)
    number = np.empty(len(times), np.int64)
    firsts = np.flatnonzero(np.diff(group, prepend=-1)).tolist()
    for begin, end in zip(firsts, [*firsts[1:], len(times)], strict=True):
        if ticks:
            number[begin:end] = np.arange(end - begin) // ticks
            continue
        at, bar, held = int(begin), 0, 0
        upto = np.cumsum(qty[begin:end]).astype(np.int64)
        while at < end:
            # The trade that fills the bar belongs to it; the next begins anew.
            full = int(begin) + int(np.searchsorted(upto, held + volume)) + 1
            stop = min(full, int(end))
            number[at:stop] = bar
            held, at, bar = int(upto[stop - 1 - begin]), stop, bar + 1
    return number
