"""What a beat in the gaps comes from, where that is not one source."""

from __future__ import annotations

from latlab.model.evidence.said import Kind

__all__ = ["BeatCause"]


class BeatCause(Kind):
    """Why no single source is named."""

    UNKNOWN = "cause unknown"
    UNDECIDED = "cause unknown: {candidates:or}"
