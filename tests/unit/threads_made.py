"""Schedules that are made by hand, for the tests of what limits."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from latlab.model import schedule as layouts
from latlab.model.schedule import Frame, Losses, Schedule, ScheduledThread, Source, State, Wait
from latlab.model.threads import LimitKind, ThreadFindings
from latlab.threads import analyse

MS = 1_000_000


SECOND = 1000 * MS


@dataclass
class Made:
    """A schedule in the making; times in ms."""

    seconds: float = 1.0
    names: list[str] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)
    commands: dict[int, tuple[str, ...]] = field(default_factory=dict)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    foreign: list[tuple[int, int, int, int]] = field(default_factory=list)
    samples: list[tuple[int, int, int, int]] = field(default_factory=list)
    stacks: list[tuple[int, ...]] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    parents: dict[int, int] = field(default_factory=dict)
    wakes: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)  # of the first samples

    def thread(self, name: str, pid: int = 100) -> int:
        self.names.append(name)
        self.pids.append(pid)
        return len(self.names) - 1

    def run(self, thread: int, begin: float, end: float) -> None:
        self.rows.append((thread, State.RUNNING, 0, 0, 0, int(begin * MS), int(end * MS), -1, -1, -1))

    def ready(self, thread: int, begin: float, end: float) -> None:
        self.rows.append((thread, State.RUNNABLE, 0, 0, 0, int(begin * MS), int(end * MS), -1, -1, -1))

    def wait(
        self,
        thread: int,
        begin: float,
        end: float,
        waker: int = -1,
        *,
        on: Wait = Wait.FUTEX,
        item: int = 4096,
        source: Source = Source.THREAD,
        sample: int = -1,
    ) -> None:
        self.rows.append(
            (thread, State.BLOCKED, on, source, -1, int(begin * MS), int(end * MS), waker, item, sample)
        )

    def turns(
        self, thread: int, ran: float, waker: int = -1, *, period: int = 10, on: Wait = Wait.FUTEX,
        item: int = 4096, source: Source = Source.THREAD,
    ) -> None:  # fmt: skip
        """Of every period it runs so many ms, and waits for the rest."""
        for at in range(0, 1000, period):
            self.run(thread, at, at + ran)
            self.wait(thread, at + ran, at + period, waker, on=on, item=item, source=source)

    def without_cpu(self, thread: int, ran: float, period: int = 10) -> None:
        """Of every period it runs so many ms, and has no CPU for the rest."""
        for at in range(0, 1000, period):
            self.run(thread, at, at + ran)
            self.ready(thread, at + ran, at + period)

    def in_turn(
        self, first: int, second: int, ran: float, *, on: Wait = Wait.FUTEX, item: int = 4096,
        sample: int = -1,
    ) -> None:  # fmt: skip
        """Of every 10 ms the first runs so many, and the second the rest; each waits for the other."""
        for at in range(0, 1000, 10):
            self.run(first, at, at + ran)
            self.wait(first, at + ran, at + 10, second, on=on, item=item, sample=sample)
            self.wait(second, at, at + ran, first, on=on, item=item, sample=sample)
            self.run(second, at + ran, at + 10)

    def stack(self, thread: int, *functions: str, running: bool = True, times: int = 1) -> int:
        """Samples of a stack, innermost first; the index of the first."""
        first = len(self.samples)
        self.frames += [Frame(name, "app.c", 7) for name in functions]
        self.stacks.append(tuple(range(len(self.frames) - len(functions), len(self.frames))))
        self.samples += [(i * MS, thread, int(running), len(self.stacks) - 1) for i in range(times)]
        return first

    def schedule(self, **losses: object) -> Schedule:
        end = int(self.seconds * SECOND)
        threads = tuple(
            ScheduledThread(
                tid=pid + sum(other == pid for other in self.pids[:index]),
                pid=pid,
                name=name,
                process=next(n for n, p in zip(self.names, self.pids, strict=True) if p == pid),
                began_ns=0,
                ended_ns=end,
                parent=self.parents.get(index, -1),
                command=self.commands.get(pid, ()),
            )
            for index, (name, pid) in enumerate(zip(self.names, self.pids, strict=True))
        )
        rows = np.array(self.rows, layouts.INTERVAL)
        return Schedule(
            0,
            end,
            (0, 1),
            threads,
            np.sort(rows, order=("thread", "begin")),
            np.array(sorted(self.wakes), layouts.WAKE),
            np.array(self.foreign, layouts.FOREIGN),
            Losses("bpf", **losses),  # type: ignore[arg-type]
            samples=np.array(self.samples, layouts.SAMPLE),
            bases=np.array(self.bases + [0] * (len(self.samples) - len(self.bases)), np.uint64),
            stacks=tuple(self.stacks),
            frames=tuple(self.frames),
            foreign_names={9: "neighbour"},
        )


def pipeline(fast: float, slow: float, *, period: float = 10.0) -> Made:
    """Source -> fast -> slow: `slow` ms of each period the last stage works, `fast` the first."""
    made = Made()
    main, first, last = made.thread("app"), made.thread("parse"), made.thread("book")
    made.wait(main, 0, 1000, source=Source.UNKNOWN, item=1)
    periods = int(1000 / period)
    for i in range(periods):
        at = i * period
        made.run(first, at, at + fast)
        made.wait(first, at + fast, at + period, last, item=8192)
        made.run(last, at, at + slow)
        if slow < period:
            made.wait(last, at + slow, at + period, first, item=4096)
    return made


def found_in(made: Made) -> ThreadFindings:
    return analyse(made.schedule())


def named_in(made: Made) -> tuple[LimitKind, str]:
    limit = found_in(made).limit
    return limit.kind, limit.name
