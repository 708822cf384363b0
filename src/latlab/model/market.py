"""What market data comes to: counts, errors with their places, depth, and what was written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

SCHEMA = 1


class DamagedInputWarning(UserWarning):
    """An input was read leniently, and is damaged or not whole: a result from it is not to be trusted."""


# Of a census, under these names in its JSON.
_COUNTED = (
    "messages", "by_type", "symbols", "first_ns", "last_ns", "dialect", "framing", "unknown", "empty",
    "malformed", "early_ends", "out_of_order", "anomalies", "transport",
)  # fmt: skip


@dataclass(frozen=True)
class FeedError:
    """Something wrong in an input.

    Args:
        offset: where in the (decompressed) input.
        what: what is wrong.
    """

    offset: int
    what: str


@dataclass(frozen=True)
class Census:
    """What an input holds.

    Args:
        dialect: ``ITCH``, ``PITCH`` or ``PITCH ASCII``.
        framing: ``binary``, ``pcap``, ``soup``, ``units`` or ``lines``.
        by_type: well-formed messages by type as on the wire; binary PITCH types and unprintable ones in hex.
        symbols: how many were named.
        errors: at most the first 1,000; `malformed` counts the messages that a lenient reading skipped.
        out_of_order: messages with an earlier time stamp than the one before, in PITCH of its unit.
        anomalies: what books could not apply, by kind.
        transport: packets, gaps, duplicates and such, by kind; zeros for a plain file.
        first_ns: the first message's time in ns since midnight.
        last_ns: the last message's.
        absent: symbols that were asked for and that the input has not.
        early_ends: frames of length zero, which end a session, with messages of the same day behind them.
        jumped: bytes that hold no message, over which a lenient reading jumped.
        unchecked: by what the input is compressed, where that carries no checksum: then damage can go unseen.
    """

    dialect: str
    framing: str
    messages: int
    by_type: dict[str, int]
    symbols: int
    errors: tuple[FeedError, ...]
    unknown: int
    empty: int
    malformed: int
    out_of_order: int
    first_ns: int
    last_ns: int
    anomalies: dict[str, int]
    transport: dict[str, int]
    absent: tuple[str, ...] = ()
    early_ends: int = 0
    jumped: int = 0
    unchecked: str = field(default="", compare=False)

    def damage(self, *, books: bool) -> dict[str, int]:
        """By kind, what says that the input is not whole: a result from it is not to be trusted.

        Args:
            books: the result is made from books, which also need every order in its order.
        """
        transport = ("lost", "late", "malformed")
        found = {"errors": len(self.errors), "malformed": self.malformed, "early_ends": self.early_ends}
        # A feed's new version may have types that this reader doesn't know; a flipped bit makes them, too.
        found |= {"unknown": self.unknown} | {f"packets {k}": self.transport.get(k, 0) for k in transport}
        found |= {"out_of_order": self.out_of_order}
        if books:
            found |= {kind: n for kind, n in self.anomalies.items() if kind != "zero_quantity"}
        return {kind: n for kind, n in found.items() if n}

    def document(self) -> dict[str, Any]:
        """The census as JSON, schema 1."""
        return {
            "schema": SCHEMA,
            **{key: getattr(self, key) for key in _COUNTED},
            "errors": [{"offset": e.offset, "what": e.what} for e in self.errors],
            "jumped_bytes": self.jumped,
        }


@dataclass(frozen=True)
class Written:
    """What a pass over an input wrote.

    Args:
        rows: lines or rows in the output.
        census: of the input.
        side_counts: how often the array side of the books had to move, by kind; zeros for the others.
    """

    rows: int
    census: Census
    side_counts: dict[str, int]


@dataclass(frozen=True)
class Depth:
    """How deep in the book events are, and how deep the books.

    Args:
        events: book events counted.
        event_depth: quantiles of the ticks between an event's price and the inside of its side after it.
        book_depth: quantiles of the levels on the side of each event after it.
        census: of the input.
    """

    events: int
    event_depth: dict[str, int]
    book_depth: dict[str, int]
    census: Census

    def document(self) -> dict[str, Any]:
        """The depths as JSON, schema 1."""
        return {
            "schema": SCHEMA,
            "events": self.events,
            "quantiles": self.event_depth,
            "book_depth": self.book_depth,
        }


@dataclass(frozen=True)
class StatisticsTable:
    """Statistics by symbol, as `latlab market stats` writes them.

    Args:
        names: of the symbols, ``__aggregate__`` among them when the file has it.
        columns: by their names in the file, of a number for each symbol.
    """

    names: tuple[str, ...]
    columns: dict[str, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class CountLaw:
    """A law fitted to the symbols' counts.

    Args:
        name: of the law.
        parameters: fitted by maximum likelihood.
        log_likelihood: of all counts.
        aic: Akaike's criterion; the least is the best.
        vuong_z: how far the likeliest law stands before this one, in standard errors.
        vuong_p: how likely such a lead would be if both were equally near the truth.
        cumulative: the law's distribution function.
    """

    name: str
    parameters: dict[str, float]
    log_likelihood: float
    aic: float
    vuong_z: float
    vuong_p: float
    cumulative: Callable[[Any], Any]


@dataclass(frozen=True)
class CountFit:
    """How the symbols' counts are distributed.

    Args:
        symbols: that had any event.
        chi_square: of the counts against the fitted geometric, in bins that it fills equally.
        degrees_of_freedom: of it.
        p_value: of it.
        laws: the likeliest first.
    """

    symbols: int
    chi_square: float
    degrees_of_freedom: int
    p_value: float
    laws: tuple[CountLaw, ...]


@dataclass(frozen=True)
class Microbursts:
    """How messages bunch: a value for each stretch of 100 seconds that has any.

    Args:
        at_s: where it begins, seconds since midnight.
        mean_per_ms: messages in a millisecond, on average.
        most_in_ms: in the busiest millisecond.
    """

    at_s: tuple[float, ...]
    mean_per_ms: tuple[float, ...]
    most_in_ms: tuple[int, ...]
