"""What the options of `latlab market` hold: symbols, times of day."""

from __future__ import annotations

from typing import Any

from latlab.errors import UsageError

__all__ = ["names_of", "period_of", "time_of"]


def names_of(symbols: str) -> tuple[str, ...]:
    """The symbols of a list with commas."""
    return tuple(name.strip() for name in symbols.split(",") if name.strip())


def period_of(from_: str | None, to: str | None) -> dict[str, Any]:
    """The arguments `from_ns` and `to_ns`, as far as they are given."""
    period = {}
    if from_ is not None:
        period["from_ns"] = time_of(from_, "--from")
    if to is not None:
        period["to_ns"] = time_of(to, "--to")
    return period


def time_of(text: str, option: str) -> int:
    """A time of day in ns since midnight."""
    from decimal import Decimal, InvalidOperation

    try:
        if ":" not in text:
            ns = int(text)
        else:
            hours, minutes, seconds = (text + ":0").split(":")[:3]
            ns = int((Decimal(hours) * 3600 + Decimal(minutes) * 60 + Decimal(seconds)) * 1_000_000_000)
    except (ValueError, InvalidOperation):
        ns = -1
    if not 0 <= ns < 1 << 63:
        raise UsageError(f"{option} must be HH:MM:SS[.fraction] or ns since midnight, not '{text}'")
    return ns
