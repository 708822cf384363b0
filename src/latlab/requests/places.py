"""Where in the code a thread runs and waits, by its sampled stacks. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from latlab.model.schedule import Frame, Schedule, State, Wait
from latlab.requests.where import in_function
from latlab.schedule.code.names import (
    awaits_news,
    caller_of,
    is_own,
    makes_durable,
    of_library,
    plain,
    telling,
)
from latlab.system.kernel.python_graft import COLLECTS

__all__ = ["COLLECTION", "INTERPRETER", "Places"]

COLLECTION = "the interpreter's garbage collection"
INTERPRETER = "the interpreter's lock"
_TAKES = "take_gil"  # CPython, Python/ceval_gil.h
_C_LIBRARY = re.compile(r"(^|/)(libc[.-]|libpthread[.-]|ld-)")
_BY_ONE = 0.9  # of a function's samples, called by one other: by whom tells nothing then
_MOSTLY = 0.6  # of the sampled waits of one kind for one thing, for the others to be taken for the same

Array = np.ndarray[Any, Any]
_NONE = np.zeros(0, np.int64)


class Places:
    """The functions of one schedule.

    Args:
        servers: the threads that serve, by whose sampled waits those without a sample are told.
    """

    def __init__(self, schedule: Schedule, servers: Iterable[int]) -> None:
        self._schedule = schedule
        self._running = _running(schedule)
        self._names: dict[int, str] = {}
        self._shared = self._called_by_several()
        stacks = [[schedule.frames[one] for one in stack] for stack in schedule.stacks]
        self._interpreters = self._words_of([any(_is_taking(one) for one in stack) for stack in stacks])
        self._conditions = self._words_of([awaits_news(stack) for stack in stacks]) - self._interpreters
        self._usual = self._usual_of(np.array(sorted(servers), np.int64))

    def samples(self, thread: int, begin: int, end: int) -> list[str]:
        """In which functions a thread was sampled running meanwhile, "" where one has no name."""
        return [self.function(stack) for stack in self.stacks(thread, begin, end)]

    def stacks(self, thread: int, begin: int, end: int) -> list[int]:
        """The stacks with which a thread was sampled running meanwhile."""
        times, stacks = self._running.get(thread, (_NONE, _NONE))
        low, high = np.searchsorted(times, [begin, end])
        return list(stacks[low:high].tolist())

    def durable(self, stack: int) -> bool:
        """Whether a stack ends in a call that makes data durable."""
        frames = self._schedule.stacks[stack]
        return bool(frames) and makes_durable([self._schedule.frames[one] for one in frames])

    def computes(self, stack: int) -> bool:
        """Whether a stack ends in a function without system calls: those have names, or are the C library's.

        Without symbols a program may have the C library's in itself, another shared library hardly.
        """
        frames = self._schedule.stacks[stack]
        inner = self._schedule.frames[frames[0]] if frames else None
        if inner is None or _C_LIBRARY.search(inner.module):
            return False
        return "syscall" not in inner.function.lower() if inner.function else ".so" in inner.module

    def waiting(self, row: Any) -> str:
        """In which function a blocked interval began: by its own stack, or as most of those like it."""
        if int(row["sample"]) < 0:
            return self._usual.get(_like(row), "")
        stack = int(self._schedule.samples["stack"][int(row["sample"])])
        # In which library's function it waits says nothing of the program.
        own = any(is_own(self._schedule.frames[index]) for index in self._schedule.stacks[stack])
        return self.function(stack) if own else ""

    def interpreters(self, row: Any) -> bool:
        """Whether a thread waits for the interpreter's lock in a futex, by a sampled stack of such a wait."""
        return int(row["object"]) in self._interpreters

    def awaits_news(self, row: Any) -> bool:
        """Whether a thread waits in a futex for something that another one has for it, and for no lock."""
        return int(row["wait"]) == Wait.FUTEX and int(row["object"]) in self._conditions

    def lock(self, row: Any) -> str:
        """Which lock a thread waits for in a futex: the interpreter's, or its address."""
        return INTERPRETER if self.interpreters(row) else f"futex {int(row['object']):#x}"

    def _words_of(self, stacks: Sequence[bool]) -> frozenset[int]:
        """The futex words for which most of the sampled waits have a stack of which this is true."""
        rows = self._schedule.intervals
        waits = rows[(rows["sample"] >= 0) & (rows["state"] == State.BLOCKED) & (rows["wait"] == Wait.FUTEX)]
        of = self._schedule.samples["stack"][waits["sample"]]
        sampled, true = Counter[int](), Counter[int]()
        for address, stack in zip(waits["object"].tolist(), of.tolist(), strict=True):
            sampled[address] += 1
            true[address] += stacks[stack]
        # A stack may be of the next wait already.
        return frozenset(address for address, number in true.items() if number > sampled[address] / 2)

    def function(self, stack: int) -> str:
        """The innermost function of the program's own, or what it was called in; of a shared one by whom."""
        if stack not in self._names:
            function, caller = self._place(stack)
            shared = caller and function in self._shared
            self._names[stack] = in_function(function, caller if shared else "")
        return self._names[stack]

    def _place(self, stack: int) -> tuple[str, str]:
        """A function, and which other of the program's own called it; "" where there is none."""
        frames = [self._schedule.frames[index] for index in self._schedule.stacks[stack]]
        if any(one.function.startswith(COLLECTS) for one in frames):
            return COLLECTION, ""
        # A template of C++'s library is inlined without its namespace: `wait<take()::<lambda()> >`.
        inlined = [one for one in frames if "<" in one.function and of_library(one.file)]
        named = [one for one in frames if one.function and one not in inlined] or inlined
        chosen = [one for one in named if one.file.endswith(".py")] or named
        frame = telling(chosen)
        return (plain(frame.function), caller_of(chosen, frame)) if frame is not None else ("", "")

    def _called_by_several(self) -> frozenset[str]:
        """The functions that do their work for several others: whose work it is, their callers tell."""
        samples = self._schedule.samples
        stacks, counts = np.unique(samples["stack"][samples["running"] == 1], return_counts=True)
        callers: dict[str, Counter[str]] = {}
        for stack, number in zip(stacks.tolist(), counts.tolist(), strict=True):
            function, caller = self._place(stack)
            if caller:
                callers.setdefault(function, Counter())[caller] += number
        return frozenset(
            function
            for function, counted in callers.items()
            if max(counted.values()) < _BY_ONE * sum(counted.values())
        )

    def _usual_of(self, servers: Array) -> dict[tuple[int, int], str]:
        rows = self._schedule.intervals
        sampled = rows[(rows["sample"] >= 0) & (rows["state"] == State.BLOCKED)]
        found: dict[tuple[int, int], Counter[str]] = {}
        for row in sampled[np.isin(sampled["thread"], servers)]:
            found.setdefault(_like(row), Counter())[self.waiting(row)] += 1
        usual = {}
        for key, counted in found.items():
            name, number = counted.most_common(1)[0]
            if number >= _MOSTLY * sum(counted.values()):
                usual[key] = name
        return usual


def _is_taking(frame: Frame) -> bool:
    return frame.function.startswith(_TAKES)


def _like(row: Any) -> tuple[int, int]:
    """Waits of one kind for one thing are of one place, mostly."""
    wait = int(row["wait"])
    return wait, int(row["object"]) if wait == Wait.FUTEX else -1


def _running(schedule: Schedule) -> dict[int, tuple[Array, Array]]:
    """Of each thread, when it was sampled running, and its stacks."""
    rows = schedule.samples[schedule.samples["running"] == 1]
    rows = rows[np.lexsort((rows["time"], rows["thread"]))]
    threads, starts = np.unique(rows["thread"], return_index=True)
    parts = np.split(rows, starts[1:]) if len(rows) else []
    return {
        int(thread): (part["time"], part["stack"])
        for thread, part in zip(threads.tolist(), parts, strict=True)
    }
