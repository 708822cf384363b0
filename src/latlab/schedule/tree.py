"""Processes and their threads as /proc shows them: who belongs to a program, and what its descriptors are."""

from __future__ import annotations

import os
import stat
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from latlab.words import printable

__all__ = [
    "Descriptors",
    "Member",
    "Stretch",
    "alive",
    "among_all",
    "children_of",
    "command_of",
    "descends",
    "described",
    "descriptors_of",
    "leads",
    "member",
    "narrow",
    "threads_of",
    "tree_of",
]


@dataclass(frozen=True, slots=True)
class Member:
    """A thread as /proc had it: its state is proc(5)'s letter, its call as in /proc/PID/syscall or ()."""

    tid: int
    pid: int
    name: str
    state: str = "?"
    call: tuple[int, ...] = ()


_WORD_BYTES = struct.calcsize("P")
_FIRST_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h


def among_all(link: str = "/proc/self/ns/pid") -> bool:
    """Whether processes have the numbers that the kernel itself tells: False in a container with its own."""
    try:
        return os.stat(link).st_ino == _FIRST_NAMESPACE  # noqa: PTH116 - as all here
    except OSError:
        return True  # a kernel without such namespaces


def _text(path: str) -> str:
    # A process may end between two looks: then it has nothing to say.
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def member(pid: int, tid: int) -> Member | None:
    """The thread now; None if it has gone."""
    stat = _text(f"/proc/{pid}/task/{tid}/stat")
    if not stat:
        return None
    name, _, rest = stat.partition("(")[2].rpartition(")")
    words = _text(f"/proc/{pid}/task/{tid}/syscall").split()
    call = tuple(int(word, 0) for word in words[:4]) if len(words) >= 4 else ()
    return Member(tid, pid, name, rest.split()[0] if rest.split() else "?", call)


def alive(pid: int) -> bool:
    """Whether it is there, and hasn't ended; one that has may wait for its parent yet."""
    rest = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return bool(rest) and rest[0] not in "ZX"


def leads(tid: int) -> bool:
    """Whether it is a process, and not one of its threads, that is there."""
    return f"\nTgid:\t{tid}\n" in _text(f"/proc/{tid}/status")


def threads_of(pid: int) -> list[Member]:
    """The threads of a process; none if it has gone."""
    try:
        tids = [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 - a hot place
    except OSError:
        return []
    return [found for tid in sorted(tids) if (found := member(pid, tid)) is not None]


def descends(pid: int, ancestor: int) -> bool:
    """Whether a process is a child of another, or of one of its children; False where one has gone."""
    while pid > 1:
        rest = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if len(rest) < 2:
            return False
        pid = int(rest[1])
        if pid == ancestor:
            return True
    return False


def children_of(pid: int) -> list[int]:
    """The processes that a process' threads have made and that are still its children."""
    try:
        tids = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:
        return []
    return [int(word) for tid in tids for word in _text(f"/proc/{pid}/task/{tid}/children").split()]


def tree_of(pids: Iterable[int]) -> list[int]:
    """The processes and all below them."""
    found: list[int] = []
    waiting = list(pids)
    while waiting:
        pid = waiting.pop(0)
        if pid not in found:
            found.append(pid)
            waiting += children_of(pid)
    return found


def command_of(pid: int) -> tuple[str, ...]:
    """The command line of a process; () of a kernel thread, or one that has gone."""
    return tuple(printable(word) for word in _text(f"/proc/{pid}/cmdline").split("\0") if word)


def descriptors_of(pid: int) -> list[int]:
    """The descriptors that a process has now; none where it has gone, or is another user's."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/fd")]  # noqa: PTH208
    except OSError:
        return []


def narrow(pid: int) -> bool:
    """Whether a process runs a 32-bit program beside our 64-bit one; False where it has gone."""
    try:
        with open(f"/proc/{pid}/exe", "rb") as file:
            return _WORD_BYTES == 8 and file.read(5) == b"\x7fELF\x01"  # EI_CLASS: ELFCLASS32
    except OSError:
        return False


def described(pid: int, descriptor: int) -> str:
    """What a descriptor is: "pipe:[12]", "socket:[34]", "anon_inode:[…]", "fifo:PATH", a path; "" if gone."""
    try:
        link = os.readlink(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH115
        named = link.startswith("/") and stat.S_ISFIFO(os.stat(f"/proc/{pid}/fd/{descriptor}").st_mode)  # noqa: PTH116
        return printable(f"fifo:{link}" if named else link)
    except OSError:
        return ""


#: What a descriptor was at its first and at its last look that found it so (CLOCK_MONOTONIC, ns), and at all
#: between them.
Stretch = tuple[int, int, str]
_FIRST_PAUSE_NS, _LONGEST_PAUSE_NS = 20_000_000, 1_000_000_000


class Descriptors:
    """What the descriptors of processes were, each time that one was looked at.

    One that is found unchanged is looked at less and less often, once a second at last: its number may be
    another file's by then.

    Attributes:
        latest: (process, descriptor) -> what it was last.
    """

    def __init__(self) -> None:
        self.latest: dict[tuple[int, int], str] = {}
        self._stretches: dict[tuple[int, int], list[Stretch]] = {}
        self._pauses: dict[tuple[int, int], tuple[int, int]] = {}

    def look(self, pid: int, descriptor: int) -> str:
        """What it is where that is news; "" where it is what it was, was looked at just now, or is gone."""
        key, now = (pid, descriptor), time.monotonic_ns()
        again, pause = self._pauses.get(key, (0, 0))
        link = described(pid, descriptor) if now >= again else ""
        if not link:
            return ""
        news = link != self.latest.get(key)
        stretches = self._stretches.setdefault(key, [])
        if news:
            stretches.append((now, now, link))
        else:
            stretches[-1] = (stretches[-1][0], now, link)
        pause = _FIRST_PAUSE_NS if news else min(2 * pause, _LONGEST_PAUSE_NS)
        self.latest[key], self._pauses[key] = link, (now + pause, pause)
        return link if news else ""

    def changed(self) -> Mapping[tuple[int, int], tuple[Stretch, ...]]:
        """Of the descriptors that were one thing after another: what, in the order of time."""
        return {key: tuple(found) for key, found in self._stretches.items() if len(found) > 1}
