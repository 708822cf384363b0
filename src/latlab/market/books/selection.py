"""What of a feed is read: the keywords that whatever makes rows of one takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypedDict

from latlab.errors import UsageError

MAX_NS = (1 << 64) - 1


class Selecting(TypedDict, total=False):
    """The keywords of a `Selection`, for signatures."""

    symbols: tuple[str, ...]
    from_ns: int
    to_ns: int
    day: str | date | None
    lenient: bool


@dataclass(frozen=True)
class Selection:
    """A part of an input.

    Args:
        symbols: only these; all when empty.
        from_ns: the first time stamp (ns since midnight); books are exact from the start.
        to_ns: the last.
        day: of the session, for the column `time` of tables; by default what the file's name says.
        lenient: skip what is damaged.

    Raises:
        UsageError: the period ends before it begins.
    """

    symbols: tuple[str, ...] = ()
    from_ns: int = 0
    to_ns: int = MAX_NS
    day: str | date | None = None
    lenient: bool = False

    def __post_init__(self) -> None:
        check_period(self.from_ns, self.to_ns)

    def for_core(self) -> tuple[list[str], int, int]:
        """Symbols and period, in the order in which the native pipelines take them."""
        return symbol_list(self.symbols), self.from_ns, self.to_ns


def check_period(from_ns: int, to_ns: int) -> None:
    """Refuse a period that ends before it begins.

    Raises:
        UsageError: it does.
    """
    if from_ns > to_ns:
        raise UsageError(f"the period from {from_ns} to {to_ns}, in ns, ends before it begins")


def symbol_list(symbols: Sequence[str]) -> list[str]:
    """The symbols that were asked for.

    Raises:
        UsageError: they are one string, whose letters would each be taken for a symbol.
    """
    if isinstance(symbols, str):
        raise UsageError(f"symbols are a tuple: ({symbols!r},) and not {symbols!r}")
    return list(symbols)
