"""How measures of made experiments are judged, when all pairs are there."""

from __future__ import annotations

from typing import Any

RULED: dict[str, Any] = {
    "smallest_effect": 0.01, "declared": True, "alpha": 0.05, "block_pairs": 1, "final": True
}  # fmt: skip
