"""Market data: ITCH and PITCH feeds to books, statistics and delays."""

from __future__ import annotations

from latlab.market._generate import generate

__all__ = ["generate"]
