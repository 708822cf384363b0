"""What limits a program, seen from outside: its threads, what they wait for, and who ends their waits."""

from __future__ import annotations

from latlab.threads._analyse import analyse
from latlab.threads._verdict import SHORTEST_S

__all__ = ["SHORTEST_S", "analyse"]
