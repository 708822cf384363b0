"""A bar, and how it is printed: what was measured against what was promised."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    name: str
    measured: float
    limit: float
    unit: str = ""
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        verdict = "met" if self.met else "MISSED"
        return (
            f"{self.name}: {self.measured:.4g} {self.unit} (bar {sign} {self.limit:g} {self.unit}) {verdict}"
        )


def report(bars: list[Bar]) -> int:
    for bar in bars:
        print(bar)
    return 0 if all(bar.met for bar in bars) else 1
