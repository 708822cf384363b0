"""How a process of the observed application ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one process ended.

    Attributes:
        role: "trading" or "execution".
        pid: the process.
        summary: the line that it wrote at its end; None if it died before.
        signal: the signal that killed it, or None.
        status: its exit status; -1 when it was killed.
    """

    role: str
    pid: int
    summary: dict[str, Any] | None
    signal: str | None
    status: int

    @property
    def died(self) -> bool:
        """True unless the process ended by itself with its summary."""
        return self.summary is None
