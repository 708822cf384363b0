"""Whether the kernel has told another process that a peer's connection is over: TCP, Unix sockets, pipes.

Its descriptors are borrowed for a moment (pidfd_getfd(2)) and asked, which changes nothing for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import stat
from collections.abc import Iterator

__all__ = ["hears_an_end"]

_GETFD = 438  # of all architectures
_FIRST = 3  # what every process is started with is its parent's
_RDHUP = 0x2000


def hears_an_end(pid: int) -> bool:
    """Whether a connection of this process was closed by its other end; False where that can't be seen."""
    try:
        process = os.pidfd_open(pid)
        numbers = sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 (only names)
    except OSError:
        return False
    try:
        return any(_over(one) for number in numbers if number >= _FIRST for one in _borrowed(process, number))
    finally:
        os.close(process)


def _borrowed(process: int, number: int) -> Iterator[int]:
    """A copy of another process's descriptor; none where it has gone or we may not."""
    copy = int(ctypes.CDLL(None, use_errno=True).syscall(_GETFD, process, number, 0))
    if copy < 0:
        return
    try:
        yield copy
    finally:
        os.close(copy)


def _over(number: int) -> bool:
    mode = os.fstat(number).st_mode
    if not (stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)):
        return False
    if stat.S_ISSOCK(mode):
        with socket.socket(fileno=os.dup(number)) as asked:
            if asked.type & 0xF not in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
                return False
            connected = False
            with contextlib.suppress(OSError):  # one that was never connected hangs up, too
                asked.getpeername()
                connected = True
            if not connected:
                return False
    poll = select.poll()
    poll.register(number, _RDHUP)
    return any(found & (select.POLLHUP | _RDHUP) for _, found in poll.poll(0))
