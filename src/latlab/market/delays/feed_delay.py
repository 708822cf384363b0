"""The delay between two feeds: the mode of the lags between the moves that both have, window by window."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab._core.market import Pipeline
from latlab.errors import InputError, UsageError
from latlab.market.books.passes import Input, Tell, absent, census_of, tell_census
from latlab.market.books.selection import MAX_NS, symbol_list
from latlab.market.delays.lags import Times, pairs_within, window_delay
from latlab.market.files.open import FollowedSource, Piece, Source
from latlab.market.wire.source import source_of
from latlab.model.market import FeedError
from latlab.system.beside import Beside

_TIME_BITS = 46  # of a key: 19 hours; the symbol and the side stand above them
_PIECES_AHEAD = 4


@dataclass(frozen=True)
class FeedDelay:
    """The delay of feed B behind feed A in one window.

    Args:
        at_ns: where the window begins, ns since midnight.
        delay_ns: positive when B is later.
        confidence: the share of estimates of such a confidence that are within 1 us of the truth.
    """

    at_ns: int
    delay_ns: float
    confidence: float


def delay(a: Input, b: Input, **options: Any) -> list[FeedDelay]:
    """The delay between two feeds of the same market, window by window; see `delay_windows`."""
    return list(delay_windows(a, b, **options))


def delay_windows(
    a: Input,
    b: Input,
    *,
    symbols: tuple[str, ...] = (),
    window_ns: int = 60_000_000_000,
    max_delay_ns: int = 5_000_000,
    bin_ns: int = 1_000,
    least_pairs: int = 10,
    lenient: bool = False,
    follow_s: float | None = None,
    tell: Tell = None,
    nothing: Callable[[int], None] = lambda begin_ns: None,
) -> Iterator[FeedDelay]:
    """The delay between two feeds of the same market, each window as soon as both feeds are past it.

    Moves of one side of a symbol's inside to the same price are matched, and the lags of all symbols are one
    histogram. No clock but the feeds' own stamps is used; an ITCH and a PITCH feed may be compared. Memory is
    that of a window's moves, whatever the feeds' length.

    Args:
        a: the leading feed: a file, or ``udp://GROUP:PORT`` (see `parse_udp`).
        b: the other.
        symbols: only these; those that both feeds have when empty.
        window_ns: of an estimate.
        max_delay_ns: look no further.
        bin_ns: resolution of the lag histogram.
        least_pairs: a window with fewer matched moves gives no estimate.
        lenient: skip malformed messages.
        follow_s: files grow: wait for more, until none came for so many seconds.
        tell: is given the census of each feed that was read to its end; without it damage is a
            `DamagedInputWarning`.
        nothing: is given the begin of each window that has moves, and too few that both feeds share.

    Raises:
        InputError: a file is bad.
        UsageError: an argument out of range.
    """
    if not 1 <= bin_ns <= max_delay_ns <= window_ns or window_ns + 2 * max_delay_ns >= 1 << _TIME_BITS:
        raise UsageError(
            "the bin must be at least 1 ns, and no more than the delay, nor that than the window, nor that "
            "than 19 hours"
        )
    names: dict[str, int] = {}
    with ExitStack() as stack:
        left, right = (
            stack.enter_context(_Feed(_followed(path, follow_s), symbols, names, lenient, tell))
            for path in (a, b)
        )
        while True:
            while (begin := left.window(window_ns)) is not None:
                # Both are past what may still pair with the window's moves.
                if min(left.latest, right.latest) <= begin + window_ns + max_delay_ns:
                    break
                one = left.take(begin, begin + window_ns)
                other = right.between(begin - max_delay_ns, begin + window_ns + max_delay_ns)
                right.forget(begin + window_ns - max_delay_ns)
                base = begin - max_delay_ns
                lags = _matched(one, other, base, max_delay_ns)
                if len(lags) >= least_pairs:
                    found = window_delay(lags, max_delay_ns=max_delay_ns, bin_ns=bin_ns)
                    yield FeedDelay(begin, *found)
                else:
                    nothing(begin)
            if left.over and (right.over or begin is None):
                # What is damaged behind the last window is told, too, but a growing feed is not waited for.
                while not (right.over or right.grows):
                    right.pull()
                return
            behind = left if right.over or (not left.over and left.latest <= right.latest) else right
            behind.pull()


def _followed(path: Input, follow_s: float | None) -> Source:
    live = isinstance(path, Source) or (isinstance(path, str) and path.startswith("udp://"))
    return source_of(path) if live or follow_s is None else FollowedSource(path, follow_s)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Moves:
    """Moves of insides to a price: by time, symbol and side in one number, and price."""

    times: Times
    keys: Times
    prices: Times

    def where(self, kept: npt.NDArray[np.bool_]) -> _Moves:
        return _Moves(self.times[kept], self.keys[kept], self.prices[kept])

    def by_key(self, base: int) -> tuple[Times, Times]:
        """Symbol, side and time since base in one number, rising, and the prices: one search pairs all."""
        keys = (self.keys << _TIME_BITS) + (self.times - base)
        order = np.argsort(keys, kind="stable")
        return keys[order], self.prices[order]


_NO_MOVES = _Moves(*(np.empty(0, np.int64) for _ in range(3)))


def _matched(one: _Moves, other: _Moves, base: int, reach: int) -> Times:
    """Lags of the moves to the same price."""
    a, prices_a = one.by_key(base)
    b, prices_b = other.by_key(base)
    (at_a, at_b), lags = pairs_within(a, b, reach)
    same: Times = lags[prices_a[at_a] == prices_b[at_b]]
    return same


class _Feed(Beside):
    """A feed's moves as they come; a thread of its own reads the source a few pieces ahead.

    Args:
        source: of the feed.
        symbols: only these; all when empty.
        names: numbers of symbols, which both feeds share.
        lenient: skip malformed messages.
        tell: is given the census at the end.
    """

    def __init__(
        self,
        source: Source,
        symbols: tuple[str, ...],
        names: dict[str, int],
        lenient: bool,
        tell: Tell,
    ) -> None:
        super().__init__()
        self._source, self._names, self._lenient, self._tell = source, names, lenient, tell
        self._errors: list[FeedError] = []
        self._symbols = symbols
        self.grows = source.live or isinstance(source, FollowedSource)
        self._pipeline = Pipeline.inside(
            source.framing, lenient, "ladder", 8192, 1, False, 0, symbol_list(symbols), 0, MAX_NS
        )
        self._moves = _NO_MOVES
        self._numbers = np.full(1 << 16, -1, np.int64)
        self._last = np.zeros((2, 1 << 16), np.int64)
        self._pieces: queue.Queue[Piece | BaseException | None] = queue.Queue(_PIECES_AHEAD)
        self.latest = -1
        self.over = False

    def __exit__(self, *error: Any) -> None:
        self._ended.set()
        self._source.stop()
        while self._thread.is_alive():
            try:
                self._pieces.get(timeout=0.01)
            except queue.Empty:
                continue
        super().__exit__(*error)

    def _run(self) -> None:
        try:
            with self._source.pieces() as pieces:
                for piece in pieces:
                    self._pieces.put(piece)
                    if self._ended.is_set():
                        return
            self._pieces.put(None)
        except Exception as error:  # noqa: BLE001 - raised again where the feed is pulled
            self._pieces.put(error)

    def pull(self) -> None:
        """Wait for the next piece, and take its moves."""
        piece = self._pieces.get()
        if isinstance(piece, InputError) and self._lenient:
            self._errors.append(FeedError(self._pipeline.counts()["offset"], piece.what))
            piece = None
        if isinstance(piece, BaseException):
            raise piece
        if piece is None:
            self._pipeline.finish()
        else:
            self._pipeline.feed(piece)
        self._take_moves()
        errors = self._pipeline.take_errors()
        if errors and not self._lenient:
            offset, what = errors[0]
            raise InputError(
                self._source.path, what, place=f"offset {offset}", remedy="--lenient skips what is damaged"
            )
        self._errors += [FeedError(offset, what) for offset, what in errors]
        if piece is None or self._pipeline.over:
            self.over, self.latest = True, MAX_NS
            missing = absent(self._pipeline, self._symbols)
            tell_census(census_of(self._source, self._pipeline, self._errors, missing), self._tell)
        else:
            self.latest = max(self.latest, self._pipeline.counts()["last_ns"])

    def _take_moves(self) -> None:
        times, locates, values = self._pipeline.take_columns()
        if self._pipeline.take_ended():
            raise InputError(self._source.path, "holds several days", remedy="give each day a file")
        if not len(times):
            return
        self._name(locates)
        order = np.argsort(locates, kind="stable")
        locates, times, values = locates[order], times[order].astype(np.int64), values.reshape(-1, 4)[order]
        begins = np.flatnonzero(np.diff(locates, prepend=np.uint16(0)) != 0)
        if not len(begins) or begins[0] != 0:
            begins = np.concatenate([[0], begins])
        ends = np.append(begins[1:], len(locates)) - 1
        parts = [self._moves]
        for side, column in enumerate((0, 2)):
            price = values[:, column].astype(np.int64)
            before = np.concatenate([[0], price[:-1]])
            before[begins] = self._last[side][locates[begins]]
            self._last[side][locates[begins]] = price[ends]
            moved = (price != before) & (price != 0)
            keys = self._numbers[locates[moved]] * 2 + side
            parts.append(_Moves(times[moved], keys, price[moved]))
        joined = [np.concatenate([getattr(p, name) for p in parts]) for name in ("times", "keys", "prices")]
        self._moves = _Moves(*joined)

    def _name(self, locates: npt.NDArray[np.uint16]) -> None:
        if (self._numbers[locates] >= 0).all():
            return
        for number, name in self._pipeline.symbols().items():
            text = name.decode("latin-1")
            self._numbers[number] = self._names.setdefault(text, len(self._names))

    def window(self, window_ns: int) -> int | None:
        """Where the window begins in which the first move stands that was not taken."""
        return int(self._moves.times.min()) // window_ns * window_ns if len(self._moves.times) else None

    def between(self, begin: int, end: int) -> _Moves:
        """Moves from begin on, up to the end and with it."""
        return self._moves.where((self._moves.times >= begin) & (self._moves.times <= end))

    def take(self, begin: int, end: int) -> _Moves:
        """Moves before the end, which are then gone."""
        taken = self._moves.where((self._moves.times >= begin) & (self._moves.times < end))
        self.forget(end)
        return taken

    def forget(self, before: int) -> None:
        """Drop the moves before a time."""
        self._moves = self._moves.where(self._moves.times >= before)
