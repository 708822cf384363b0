"""Who had the CPU that a runnable thread waited for: a thread, what observes, a quota, or nobody. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from latlab.model.evidence.requests import Occupant
from latlab.model.evidence.said import kind_of, said
from latlab.model.schedule import Schedule, State, Stretches

__all__ = ["OBSERVED", "UNOCCUPIED", "Occupants"]

#: What observes had it, or nobody: it was woken, or served interrupts or the hypervisor.
OBSERVED, UNOCCUPIED = said(Occupant.OBSERVER), said(Occupant.NOBODY)
_OBSERVER, _WATCHES = "latlab", -2
_LEAST_STOP_NS = 1_000_000  # of a wait that a quota may be the cause of
_MOSTLY, _SOMETIMES = 0.7, 0.2  # of such waits, that it explains

Array = np.ndarray[Any, Any]
_TURN = np.dtype([("begin", np.int64), ("end", np.int64), ("thread", np.int64), ("tid", np.int64)])


class Occupants:
    """Who had which CPU when, and what a quota stopped, in one schedule.

    Args:
        doing: who a thread of the schedule is in a stretch in which it ran, with its function where known.
        clients: threads that ask.
    """

    def __init__(
        self, schedule: Schedule, doing: Callable[[int, int, int], str], clients: frozenset[int] = frozenset()
    ) -> None:
        self._schedule = schedule
        self._doing = doing
        self._clients = clients
        self._ask = {one.pid for one in schedule.threads if one.peer and one.tid in clients}
        self._own = {one.name for one in schedule.threads if not one.peer}
        self._turns = {cpu: Stretches(turns) for cpu, turns in _turns(schedule).items()}
        self._stopped = _stopped_by_quota(schedule)

    def by_quota(self, row: Any) -> bool:
        """Whether a quota may be why a thread had no CPU in this interval."""
        return (self._stopped >= _SOMETIMES and _long(row)) or kind_of(self._limited(row)) is Occupant.QUOTA

    def of(self, row: Any, begin: int, end: int) -> list[tuple[str, int, int, int]]:
        """Who had the CPU in this stretch of a runnable thread's interval, in order: since when, until when.

        They sum to the stretch: nobody has what no thread had. "" where its CPU isn't known. Last which of
        the program's own threads it was; -1 for all others.
        """
        if limited := self._limited(row):
            return [(limited, begin, end, -1)]
        cpu, at = int(row["cpu"]), begin
        if cpu < 0:
            return [("", begin, end, -1)]
        had: list[tuple[str, int, int, int]] = []
        for turn in self._between(cpu, begin, end):
            since, until = max(int(turn["begin"]), at), min(int(turn["end"]), end)
            had += [(UNOCCUPIED, at, since, -1)] if since > at else []
            name = self._who(turn, since, until)
            who = OBSERVED if name == _OBSERVER else _had_by(name, self._asks(turn)) if name else ""
            had.append((who, since, until, int(turn["thread"]) if self._is_own(turn) else -1))
            at = max(at, until)
        return had + ([(UNOCCUPIED, at, end, -1)] if end > at else [])

    def _limited(self, row: Any) -> str:
        """The quota that stopped a thread in this interval, surely or maybe; "" where none did."""
        if not self._schedule.quota or not _long(row):
            return ""
        begin, end, cpu = int(row["begin"]), int(row["end"]), int(row["cpu"])
        turns = self._between(cpu, begin, end)
        had = np.minimum(turns["end"], end) - np.maximum(turns["begin"], begin)
        idle = cpu >= 0 and int(had.sum()) < (end - begin) / 2
        if self._stopped < _SOMETIMES and not idle:
            return ""
        # A thread that a quota stops stays runnable, whoever has the CPU meanwhile, or nobody.
        certain = self._stopped >= _MOSTLY or idle
        which = Occupant.QUOTA if certain else Occupant.QUOTA_OR_OTHERS
        return said(which, quota=self._schedule.quota)

    def _between(self, cpu: int, begin: int, end: int) -> Array:
        turns = self._turns.get(cpu)
        return turns.between(begin, end) if turns is not None else np.zeros(0, _TURN)

    def _who(self, turn: Any, begin: int, end: int) -> str:
        if turn["thread"] >= 0:
            return self._doing(int(turn["thread"]), begin, end)
        if turn["thread"] == _WATCHES:
            return _OBSERVER
        return self.stranger(int(turn["tid"]))

    def _is_own(self, turn: Any) -> bool:
        """Whether it is a thread of the program's, and of no client's."""
        return turn["thread"] >= 0 and not (
            self._schedule.threads[int(turn["thread"])].peer or self._asks(turn)
        )

    def _asks(self, turn: Any) -> bool:
        """Whether it is a thread of a client's."""
        if turn["thread"] < 0:
            return int(turn["tid"]) in self._clients
        one = self._schedule.threads[int(turn["thread"])]
        return one.tid in self._clients or (one.peer and one.pid in self._ask)

    def stranger(self, tid: int) -> str:
        """How a thread of another program is called, told from one of this program with the same name."""
        name = self._schedule.foreign_names.get(tid, "")
        return f"another {name}" if name in self._own else name


@cache
def _had_by(name: str, asks: bool) -> str:
    """Said of each interval, and of few threads."""
    return said(Occupant.CLIENT if asks else Occupant.HAD, name=name)


def _long(row: Any) -> bool:
    return int(row["end"]) - int(row["begin"]) >= _LEAST_STOP_NS


def _stopped_by_quota(schedule: Schedule) -> float:
    """A quota's part of the time in which a thread of ours was runnable without a CPU."""
    if not schedule.quota:
        return 0.0
    ours = [index for index, one in enumerate(schedule.threads) if not one.peer]
    rows = schedule.intervals[np.isin(schedule.intervals["thread"], ours)]
    waited = rows[(rows["state"] == State.RUNNABLE) & (rows["end"] - rows["begin"] >= _LEAST_STOP_NS)]
    order = np.argsort(waited["begin"], kind="stable")
    begin, end = waited["begin"][order], np.maximum.accumulate(waited["end"][order])
    before = np.concatenate([begin[:1], end[:-1]])
    together = int(np.maximum(end - np.maximum(begin, before), 0).sum())
    return schedule.throttled_ns / together if together else 0.0


def _turns(schedule: Schedule) -> dict[int, Array]:
    """Who had each CPU, ours, strangers and who observes, in order."""
    ours = schedule.intervals[
        (schedule.intervals["state"] == State.RUNNING) & (schedule.intervals["cpu"] >= 0)
    ]
    foreign, watching = schedule.foreign, schedule.watching
    turns = np.zeros(len(ours) + len(foreign) + len(watching), _TURN)
    for key in ("begin", "end"):
        turns[key] = np.concatenate([ours[key], foreign[key], watching[key]])
    others = (np.full(len(foreign), -1), np.full(len(watching), _WATCHES))
    turns["thread"] = np.concatenate([ours["thread"], *others])
    turns["tid"] = np.concatenate([np.full(len(ours), -1), foreign["tid"], watching["tid"]])
    cpus = np.concatenate([ours["cpu"], foreign["cpu"], watching["cpu"]])
    order = np.argsort(turns["begin"], kind="stable")
    return {int(cpu): turns[order][cpus[order] == cpu] for cpu in np.unique(cpus).tolist()}
