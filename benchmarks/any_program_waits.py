"""Planted programs whose limit is easily mistaken: what spins in part, roles share, or lies elsewhere."""

from __future__ import annotations

from functools import partial

from benchmarks import any_program_cases as cases
from benchmarks.any_program_cases import planted
from benchmarks.any_program_idioms import MAKERS

__all__ = ["MAKERS"]

cpp = partial(cases.cpp, built="waits")
python = partial(cases.python, source="waits.py")

planted(
    "late at a barrier that spins",
    cpp,
    "spin_barrier how=1 slow=2000..4000 fast=300..900",
    ("thread",),
    "mill",
)
planted(
    "spins for a part", cpp, "spin_three how=1|2 stampers=1 slow=3000 fast=800..1600", ("thread",), "composer"
)
planted("a lock of three roles", cpp, "own_lock inside=300..800", ("lock",), "take", silent=True)
planted("a lock of programs", cpp, "elsewhere inside=300..800", ("lock",), "lock", silent=True)
planted("a lock beside a miner", cpp, "hog inside=300..800", ("lock",), "lock", silent=True)
planted("a source that is asked", cpp, "pull make=500..900 use=200..350", ("thread",), "quotes|next_quote")
planted("late by chance", cpp, "rounds", ("thread",), r"\d × tiler", silent=True)
planted(
    "a lock of spawned workers", python, "mplock start=spawn inside=2.0..5.0", ("lock",), "semaphore|lock"
)
planted("tasks at a semaphore", python, "tasks hold=5.0..20.0", ("thread",), "sem")
planted("a queue before a semaphore", python, "behind_queue hold=5.0..20.0", ("thread",), "sem")
