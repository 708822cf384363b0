"""Pipes and FIFOs as connections: what a process reads of one and writes to another is one peer's."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from latlab.schedule.tree import described

__all__ = ["MOVED", "PIPES", "inherits_pipes", "is_pipe", "joined", "peers_of", "pipe_transfers", "pipes_of"]

#: What the observed processes and those at the other ends of their pipes read and write, and when they begin
#: to write. Tracing system calls slows every one of the machine a little: only of processes that have pipes.
PIPES = (
    "syscalls:sys_exit_write", "syscalls:sys_exit_read", "syscalls:sys_enter_write",
    "syscalls:sys_exit_writev", "syscalls:sys_exit_readv", "syscalls:sys_enter_writev",
)  # fmt: skip
#: Those of them whose bytes are of interest.
MOVED = tuple(name for name in PIPES if "_exit_" in name)
_MOST_PROCESSES = 4096  # that are looked at for the other ends

Array = np.ndarray[Any, Any]
Table = dict[str, Array]


def is_pipe(link: str) -> bool:
    """Whether a descriptor of this name is a pipe or a FIFO."""
    return link.startswith(("pipe:", "fifo:"))


def pipes_of(pids: Iterable[int]) -> set[str]:
    """The pipes and FIFOs of those of the processes that read one and write to another, as servers do."""
    found: set[str] = set()
    for pid in pids:
        ends = [(link, mode) for link, mode in _links(pid) if is_pipe(link)]
        read = {link for link, mode in ends if mode & stat.S_IRUSR}
        written = {link for link, mode in ends if mode & stat.S_IWUSR}
        if read - written and written - read:
            found |= read ^ written  # one that it has both ends of is its own
    return found


def inherits_pipes(output: int | None) -> bool:
    """Whether a command that we start now reads a pipe and writes to one."""
    try:
        return all(stat.S_ISFIFO(os.fstat(fd).st_mode) for fd in (0, 1 if output is None else output))
    except OSError:
        return False


def _links(pid: int) -> list[tuple[str, int]]:
    """What each descriptor is, and in which way it was opened (proc(5): the link's own permissions)."""
    found = []
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            found.append((described(pid, int(number)), os.lstat(f"/proc/{pid}/fd/{number}").st_mode))
    except OSError:
        return found  # it has ended or closed one, or is another user's
    return found


def peers_of(pipes: set[str], pids: Iterable[int]) -> list[int]:
    """Other processes that have one of these pipes open."""
    own = {*pids, os.getpid()}
    others = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in own]  # noqa: PTH208
    return [pid for pid in others[:_MOST_PROCESSES] if any(link in pipes for link, _ in _links(pid))]


def pipe_transfers(
    events: Mapping[str, Mapping[str, Array]],
    descriptors: Mapping[tuple[int, int], str],
    pids: frozenset[int],
    width: int,
) -> tuple[Table, Table, Table]:
    """What was sent, received and arrived through pairs of pipes, as the tables of `Transfers`.

    Args:
        events: the columns of PIPES. width: of a payload.
    """
    wrote, read, begun = (
        _through_pipes(joined(events[name], events[also]), descriptors)
        for name, also in zip(PIPES[:3], PIPES[3:], strict=True)
    )
    ids = _paired(wrote, read, pids)

    def chosen(rows: _Rows, key: str, ours: bool, links: set[str]) -> Table:
        table, names = rows
        keep = [
            at for at, link in enumerate(names) if link in links and (int(table["pid"][at]) in pids) == ours
        ]
        out = {name: column[keep] for name, column in table.items()}
        out[key] = np.array([ids[names[at]] for at in keep], np.uint64)
        return out

    came, went = (set(names) & ids.keys() for _, names in (read, wrote))
    sent = _as_call(chosen(wrote, "sk", True, went), width)
    received = _as_call(chosen(read, "sk", True, came), width)
    arrived = chosen(begun, "skaddr", False, came)
    return sent, received, {key: arrived[key] for key in ("time_ns", "skaddr", "pid", "tid")}


_Rows = tuple[Table, list[str]]


def _through_pipes(table: Mapping[str, Array], descriptors: Mapping[tuple[int, int], str]) -> _Rows:
    if not len(table["time_ns"]):
        return {"argument": np.zeros(0, np.int64), **table}, []
    names = [
        descriptors.get(key, "")
        for key in zip(table["pid"].tolist(), table["argument"].tolist(), strict=True)
    ]
    keep = [at for at, name in enumerate(names) if is_pipe(name)]
    return {key: column[keep] for key, column in table.items()}, [names[at] for at in keep]


def _paired(wrote: _Rows, read: _Rows, pids: frozenset[int]) -> dict[str, int]:
    """A number for each pair of a pipe that an observed process reads and one that it answers on.

    They belong together where one other process is at both other ends; else standard input and output do.
    """
    peers: dict[str, set[int]] = {}
    ours: dict[str, set[tuple[int, int, bool]]] = {}  # process, descriptor, whether it reads
    for (table, names), reads in ((wrote, False), (read, True)):
        for link, pid, fd in zip(names, table["pid"].tolist(), table["argument"].tolist(), strict=True):
            if pid in pids:
                ours.setdefault(link, set()).add((pid, fd, reads))
            else:
                peers.setdefault(link, set()).add(pid)
    sources = [(link, pid, fd) for link, ends in ours.items() for pid, fd, reads in ends if reads]
    sinks = [(link, pid, fd) for link, ends in ours.items() for pid, fd, reads in ends if not reads]
    inner = {link for link, ends in ours.items() if len({reads for *_, reads in ends}) == 2}
    found: dict[str, int] = {}
    for link, pid, fd in sources:
        if link in inner or link in found:
            continue
        mine = [one for one in sinks if one[1] == pid and one[0] not in inner and one[0] not in found]
        shared = [one for one in mine if peers.get(link, set()) & peers.get(one[0], set())]
        standard = [one for one in mine if (fd, one[2]) == (0, 1)]
        for choice in (shared, standard, mine):
            if len(choice) == 1:
                number = len(found) + 1  # no socket has such an address
                found[link] = found[choice[0][0]] = number
                break
    return found


def _as_call(table: Table, width: int) -> Table:
    count = len(table["time_ns"])
    kept = {key: table[key] for key in ("time_ns", "pid", "tid", "sk", "argument")}
    kept["ret"] = table["ret"].astype(np.int64)
    kept["flags"] = np.zeros(count, np.int64)
    kept["captured"] = table.get("captured", np.zeros(count, np.int64))
    kept["payload"] = table.get("payload", np.zeros(count, f"V{width}"))
    return kept


def joined(one: Mapping[str, Array], other: Mapping[str, Array]) -> Mapping[str, Array]:
    """Both tables' rows, of the columns that both have."""
    if not len(other["time_ns"]):
        return one
    if not len(one["time_ns"]):
        return other
    return {key: np.concatenate([one[key], other[key]]) for key in one if key in other}
