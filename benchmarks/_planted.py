"""What the benchmarks of planted programs share: what became of a case, and a neighbour that computes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

C = TypeVar("C")


@dataclass(frozen=True)
class Outcome(Generic[C]):
    case: C
    mark: str
    said: str
    confidence: float


@contextlib.contextmanager
def neighbour(*before: str, there: bool = True) -> Iterator[None]:
    """A process that computes while the block runs; `before` stands in front of its command."""
    if not there:
        yield
        return
    beside = subprocess.Popen([*before, sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        beside.kill()
        beside.wait()
