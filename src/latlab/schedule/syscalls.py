"""On what a thread waits, by the system call that it is in. Pure.

Numbers are x86-64's and the generic table's of arm64 (Linux, include/uapi/asm-generic/unistd.h).
"""

from __future__ import annotations

import platform
from collections.abc import Mapping

from latlab.model.schedule import Wait

__all__ = ["BY_DESCRIPTOR", "SYNCED", "TIMED", "UNREAD", "WAITS", "of_32_bit", "waits_of"]

#: No call that is known here.
UNREAD = -2

#: Calls whose first argument is the descriptor that is waited for: what it is decides.
BY_DESCRIPTOR = 255

_NAMES: dict[str, int] = {
    **dict.fromkeys(("futex", "futex_waitv"), Wait.FUTEX),
    **dict.fromkeys(
        ("read", "readv", "pread64", "preadv", "write", "writev", "pwrite64", "pwritev",
         "recvfrom", "recvmsg",
         "recvmmsg", "sendto", "sendmsg", "sendmmsg", "accept", "accept4", "connect", "splice",
         "sendfile", "ioctl",
         "close"),
        BY_DESCRIPTOR,
    ),
    **dict.fromkeys(
        ("epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"),
         Wait.POLL
    ),
    **dict.fromkeys(("nanosleep", "clock_nanosleep"), Wait.TIMER),
    **dict.fromkeys(("wait4", "waitid"), Wait.CHILD),
    **dict.fromkeys(("fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync"), Wait.SYNC),
    **dict.fromkeys(("pause", "rt_sigsuspend", "rt_sigtimedwait"), Wait.SIGNAL),
    "io_uring_enter": Wait.IO_URING,
    **dict.fromkeys(("flock", "fcntl"), Wait.FILE_LOCK),  # of the calls of fcntl only those for locks block
    **dict.fromkeys(("semop", "semtimedop"), Wait.SEMAPHORE),
}  # fmt: skip

_X86_64 = {
    "read": 0, "write": 1, "close": 3, "poll": 7, "ioctl": 16, "pread64": 17, "pwrite64": 18,
    "readv": 19,
    "writev": 20, "select": 23, "msync": 26, "pause": 34, "nanosleep": 35, "sendfile": 40,
    "connect": 42,
    "accept": 43, "sendto": 44, "recvfrom": 45, "sendmsg": 46, "recvmsg": 47, "wait4": 61, "semop": 65,
    "fcntl": 72, "flock": 73,
    "fsync": 74, "fdatasync": 75, "rt_sigtimedwait": 128, "rt_sigsuspend": 130, "sync": 162, "futex": 202,
    "semtimedop": 220,
    "clock_nanosleep": 230, "epoll_wait": 232, "waitid": 247, "pselect6": 270, "ppoll": 271,
    "splice": 275,
    "sync_file_range": 277, "epoll_pwait": 281, "accept4": 288, "preadv": 295, "pwritev": 296,
    "recvmmsg": 299,
    "syncfs": 306, "sendmmsg": 307, "io_uring_enter": 426, "epoll_pwait2": 441, "futex_waitv": 449,
}  # fmt: skip

_AARCH64 = {
    "epoll_pwait": 22, "fcntl": 25, "ioctl": 29, "flock": 32, "close": 57, "read": 63, "write": 64,
    "readv": 65,
    "writev": 66, "pread64": 67,
    "pwrite64": 68, "preadv": 69, "pwritev": 70, "sendfile": 71, "pselect6": 72, "ppoll": 73,
    "splice": 76,
    "sync": 81, "fsync": 82, "fdatasync": 83, "sync_file_range": 84, "waitid": 95, "futex": 98,
    "nanosleep": 101,
    "clock_nanosleep": 115, "rt_sigsuspend": 133, "rt_sigtimedwait": 137,
    "semtimedop": 192, "semop": 193, "accept": 202,
    "connect": 203,
    "sendto": 206, "recvfrom": 207, "sendmsg": 211, "recvmsg": 212, "msync": 227, "accept4": 242,
    "recvmmsg": 243,
    "wait4": 260, "syncfs": 267, "sendmmsg": 269, "io_uring_enter": 426, "epoll_pwait2": 441,
    "futex_waitv": 449,
}  # fmt: skip


# A 32-bit program on x86-64 numbers its calls otherwise, and passes arguments in other registers
# (arch/x86/entry/syscalls/syscall_32.tbl). Of those calls that say what is waited
# for without an argument: the 64-bit ones that say as much, and ask for none.
_OF_I386 = {
    **dict.fromkeys((7, 114), "wait4"), 284: "waitid", 29: "pause",
    **dict.fromkeys((36, 118, 148, 314, 344), "sync"), 144: "msync",
    **dict.fromkeys((168, 256, 319), "poll"), **dict.fromkeys((309, 414), "ppoll"),
    **dict.fromkeys((82, 142), "select"), **dict.fromkeys((308, 413), "pselect6"),
    162: "nanosleep", **dict.fromkeys((267, 407), "clock_nanosleep"),
    **dict.fromkeys((72, 179), "rt_sigsuspend"), **dict.fromkeys((177, 421), "rt_sigtimedwait"),
}  # fmt: skip


def of_32_bit(machine: str) -> Mapping[int, int]:
    """The number of a 32-bit program's system call -> of a call of this machine that waits for the same.

    What isn't in it can't be told by the number alone.
    """
    return {number: _X86_64[name] for number, name in _OF_I386.items()} if machine == "x86_64" else {}


def waits_of(machine: str) -> Mapping[int, int]:
    """The wait of each blocking system call by its number: a `Wait`, or BY_DESCRIPTOR."""
    numbers = {"x86_64": _X86_64, "aarch64": _AARCH64}.get(machine, {})
    return {number: int(_NAMES[name]) for name, number in numbers.items()}


def synced_of(machine: str) -> frozenset[int]:
    """The numbers of those calls that make one file durable, whose first argument is its descriptor."""
    numbers = {"x86_64": _X86_64, "aarch64": _AARCH64}.get(machine, {})
    return frozenset(numbers[name] for name in ("fsync", "fdatasync", "syncfs", "sync_file_range") if numbers)


def timed_of(machine: str) -> frozenset[int]:
    """The numbers of those calls whose fourth argument is for how many ms they wait at most; -1: for ever."""
    numbers = {"x86_64": _X86_64, "aarch64": _AARCH64}.get(machine, {})
    return frozenset(numbers[name] for name in ("epoll_wait", "epoll_pwait") if name in numbers)


WAITS = waits_of(platform.machine())
SYNCED = synced_of(platform.machine())
TIMED = timed_of(platform.machine())
