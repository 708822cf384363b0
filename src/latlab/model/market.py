"""What market data comes to: counts, errors with their places, depth, and what was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SCHEMA = 1


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
        out_of_order: messages with an earlier time stamp than the one before.
        anomalies: what books could not apply, by kind.
        transport: packets, gaps, duplicates and such, by kind; zeros for a plain file.
        first_ns: the first message's time in ns since midnight.
        last_ns: the last message's.
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

    def document(self) -> dict[str, Any]:
        """The census as JSON, schema 1."""
        return {
            "schema": SCHEMA,
            "messages": self.messages,
            "by_type": self.by_type,
            "symbols": self.symbols,
            "errors": [{"offset": e.offset, "what": e.what} for e in self.errors],
            "first_ns": self.first_ns,
            "last_ns": self.last_ns,
            "dialect": self.dialect,
            "framing": self.framing,
            "unknown": self.unknown,
            "empty": self.empty,
            "malformed": self.malformed,
            "out_of_order": self.out_of_order,
            "anomalies": self.anomalies,
            "transport": self.transport,
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
