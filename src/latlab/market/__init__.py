"""Market data: ITCH and PITCH feeds to books, statistics and delays."""

from __future__ import annotations

from latlab.market._generate import generate
from latlab.market._output import write_table
from latlab.market._passes import census, depth, inside, snapshot, trades

__all__ = ["census", "depth", "generate", "inside", "snapshot", "trades", "write_table"]
