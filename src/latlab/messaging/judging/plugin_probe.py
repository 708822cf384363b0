"""Whether the ends of a native plug-in keep their promises, asked in a process that it may crash.

`python -m latlab.messaging.judging.plugin_probe` reads [PATH, OPTIONS, SIZE, BLOCK, LOSSLESS, ORDERED] as
JSON, and prints a JSON list: the kind of promise, and None, or the kind and the values of how it is broken.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import json
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from latlab.formats.documents import dumps
from latlab.messaging.judging.hangups import hears_an_end
from latlab.messaging.judging.woken import at_random, is_woken, receive_all, step_of
from latlab.model.evidence.messaging import Broken, Promise
from latlab.model.evidence.said import Said, said

__all__ = ["files_of_ours", "probe"]

Check = tuple[Promise, Said | None]
_LONGEST_S = 0.3  # a wait in receive or send is at most 100 ms; a busy machine may add to it
_SLOW_TIMES = 3
_TIMES = 40
_LOOKS, _WATCHED_S = 5, 0.5
_AT_ONCE_S = 50e-6  # no sleep is shorter, and what returns at once takes a tenth of it
_MANY = 100_000
_POINTER = ctypes.c_void_p
_LONG, _SIZE = ctypes.c_long, ctypes.c_size_t


class _Settings(ctypes.Structure):
    """`struct latlab_messaging_settings`, version 1."""

    _fields_ = (
        ("abi", ctypes.c_uint32), ("role", ctypes.c_uint32), ("size", ctypes.c_uint64),
        ("batch", ctypes.c_uint64), ("capacity", ctypes.c_uint64), ("block", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32), ("options", ctypes.c_char_p), ("peer", _POINTER),
    )  # fmt: skip


class _Plugin(ctypes.Structure):
    """`struct latlab_messaging`, version 1."""

    _fields_ = (
        ("abi", ctypes.c_uint32), ("traits", ctypes.c_uint32), ("max_bytes", ctypes.c_uint64),
        ("name", ctypes.c_char_p), ("title", ctypes.c_char_p),
        ("open", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Settings), ctypes.POINTER(_POINTER))),
        ("send", ctypes.CFUNCTYPE(_LONG, _POINTER, _POINTER, _SIZE, _SIZE)),
        ("receive", ctypes.CFUNCTYPE(_LONG, _POINTER, _POINTER, _SIZE, _SIZE)),
        ("close", ctypes.CFUNCTYPE(None, _POINTER)),
    )  # fmt: skip


class _Way:
    """Both ends of a way through a plug-in, used by one thread."""

    def __init__(self, plugin: _Plugin, options: bytes, size: int, block: bool) -> None:
        self._plugin, self.size, self._slow = plugin, size, 0
        self._settings = _Settings(1, 0, size, 1, 0, int(block), 0, options, None)
        self._receiver, self._sender = _POINTER(), _POINTER()
        self._open(self._receiver)
        self._settings.role, self._settings.peer = 1, self._receiver
        self._open(self._sender)
        self._room = ctypes.create_string_buffer(size)

    def _open(self, end: ctypes.c_void_p) -> None:
        number = self._plugin.open(ctypes.byref(self._settings), ctypes.byref(end))
        if number:
            raise OSError(number, os.strerror(number))

    def send(self, message: bytes) -> int:
        return int(self._plugin.send(self._sender, message, self.size, 1))

    def receive(self) -> tuple[int, bytes]:
        count = int(self._plugin.receive(self._receiver, self._room, self.size, 1))
        return count, self._room.raw

    def awaited(self) -> tuple[int, bytes]:
        """The next message, of which it is known that it was taken; none where each one is slow."""
        begin, waited, before = time.monotonic(), 0.0, time.monotonic()
        count, message = self.receive()
        while count == 0 and waited < _LONGEST_S:
            now = time.monotonic()
            waited, before = waited + min(now - before, _LONGEST_S / 3), now
            count, message = self.receive()
        self._slow = self._slow + 1 if time.monotonic() - begin > 2 * _LONGEST_S else 0
        return (count, message) if self._slow < _SLOW_TIMES else (0, message)

    def ended(self) -> int:
        """What a receive returns once the sender has closed; the news may take its time."""
        begin = time.monotonic()
        while (count := self.receive()[0]) == 0 and time.monotonic() - begin < _LONGEST_S:
            pass
        return count

    @property
    def distinct(self) -> bool:
        """Whether the sender has an end of its own."""
        return self._sender.value != self._receiver.value

    def close_sender(self) -> None:
        if self.distinct:
            self._plugin.close(self._sender)
        self._sender = self._receiver

    def close(self) -> None:
        self.close_sender()
        self._plugin.close(self._receiver)


def probe(
    path: str, options: str, size: int, block: bool, lossless: bool = True, ordered: bool = True
) -> list[Check]:
    """Ask a plug-in's ends, one check after the other, to the first that fails."""
    entry = ctypes.CDLL(path, mode=os.RTLD_NOW).latlab_messaging_plugin
    entry.restype = ctypes.POINTER(_Plugin)
    plugin = entry().contents

    def way() -> _Way:
        return _Way(plugin, options.encode(), size, block)

    def full(way: Callable[[], _Way]) -> Said | None:
        return _full(way, ordered)

    def idle(way: Callable[[], _Way]) -> Said | None:
        return _idle(way, block)

    found: list[Check] = []
    for what, check in (
        (Promise.IDLE_RETURNS, idle),
        (Promise.FULL_IS_SAID, full),
        (Promise.NOTHING_LEFT, _left),
        (Promise.CLOSED_IS_HEARD, _over),
    ):
        if check is full and not lossless:
            continue
        try:
            found.append((what, check(way)))
        except OSError as error:
            found.append((what, said(Broken.NOT_OPENED, why=error.strerror)))
        if found[-1][1] is not None:
            break
    return found


def _idle(way: Callable[[], _Way], block: bool) -> Said | None:
    one = way()
    took = float("inf")
    for _ in range(_SLOW_TIMES):  # the shortest: a busy machine stops any call once
        begin = time.monotonic()
        count, _ = one.receive()
        took = min(took, time.monotonic() - begin)
        if count != 0 or took <= _LONGEST_S:
            break
    wrong = None
    if count != 0:
        wrong = said(Broken.RETURNED, number=count)
    elif took > _LONGEST_S:
        wrong = said(Broken.TOOK, seconds=took)
    else:
        wrong = _waited(one) if block else _slept(one)
    one.close()
    return wrong


def _waited(one: _Way) -> Said | None:
    """How an end waits that may: asleep, and not looking again and again."""
    used, cpu, took = resource.getrusage(resource.RUSAGE_SELF), time.process_time(), 0.0
    while took < _WATCHED_S:  # of each call at most what it may take: a machine may stand still for longer
        begin = time.monotonic()
        one.receive()
        took += min(time.monotonic() - begin, _LONGEST_S)
    cpu = time.process_time() - cpu
    sleeps = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - used.ru_nvcsw
    step = step_of(sleeps, took)
    if step is not None and not _is_woken(one, step):
        return said(Broken.POLLS, times=sleeps, seconds=took)
    # On a busy machine what spins has little of the CPU; ten wake-ups a second take less than a tenth.
    return said(Broken.SPINS, cpu_s=cpu, seconds=took) if cpu > 0.1 * took else None


def _is_woken(one: _Way, step_s: float) -> bool:
    """Whether what another thread sends wakes an end that wakes up so often without it."""
    sent: list[float] = []
    message = bytes(one.size)
    sender = threading.Thread(target=lambda: sent.extend(at_random(lambda: one.send(message), step_s)))
    sender.start()
    received = receive_all(lambda: one.receive()[0], step_s)
    sender.join()
    return is_woken(sent, received, step_s)


def _slept(one: _Way) -> Said | None:
    """Whether an end sleeps that has to return at once. The shortest of some: others take the CPU, too."""
    shortest = float("inf")
    for _ in range(_LOOKS):
        sleeps, begin = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw, time.monotonic()
        one.receive()
        took = time.monotonic() - begin
        if resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw == sleeps:
            return None
        shortest = min(shortest, took)
    return said(Broken.SLEPT, slept_ns=shortest * 1e9) if shortest > _AT_ONCE_S else None


def _full(way: Callable[[], _Way], ordered: bool) -> Said | None:
    one = way()
    taken = 0
    width = min(one.size, 4)
    body = bytes(one.size - width)
    slow = 0  # in a row: what blocks does so each time, and a busy machine stops any call once
    while taken < _MANY:
        begin = time.monotonic()
        answer = one.send(taken.to_bytes(4, "little")[:width] + body)
        slow = slow + 1 if time.monotonic() - begin > _LONGEST_S else 0
        if slow == _SLOW_TIMES:
            return said(Broken.FULL_SEND_BLOCKS)
        if answer < 0:
            return said(Broken.FULL_SEND_REFUSED, error=errno.errorcode.get(-answer, -answer))
        if answer == 0 and slow == 0:
            break
        taken += answer
    came = []
    for number in range(taken):
        count, message = one.awaited()
        if count != 1:
            return said(Broken.BROUGHT_FEWER, taken=taken, brought=number)
        came.append(message[:width])
        if ordered and came[-1] != number.to_bytes(4, "little")[:width]:
            return said(Broken.BROUGHT_ANOTHER, number=number, taken=taken)
    if sorted(came) != sorted(number.to_bytes(4, "little")[:width] for number in range(taken)):
        return said(Broken.BROUGHT_OTHERS, taken=taken)
    one.close()
    return None


def _left(way: Callable[[], _Way]) -> Said | None:
    for _ in range(3):  # what is made once and kept is no leak
        way().close()
    before, grown, reserved = _held(), _memory_kib("RssAnon"), [_memory_kib("VmData")]
    for number in range(_TIMES):
        way().close()
        if number + 1 in (_TIMES // 2, _TIMES):
            reserved.append(_memory_kib("VmData"))
    after = _held()
    for name, (had, has) in {n: (before[n], after[n]) for n in before}.items():
        if has >= had + _TIMES // 2:
            return said(Broken.GREW, more=has - had, what=name, times=_TIMES)
    more = _memory_kib("RssAnon") - grown
    # What nobody wrote to yet is not resident. The allocator's own steps come once, a leak in either half.
    halves = [after_it - before_it for before_it, after_it in itertools.pairwise(reserved)]
    more = max(more, 2 * min(halves))
    return said(Broken.GREW, more=more, what="KiB", times=_TIMES) if more > _TIMES * 64 else None


def _held() -> dict[str, int]:
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 (counted, not walked)
        "threads": len(os.listdir("/proc/self/task")),  # noqa: PTH208
        "files": len(files_of_ours()),
    }


def files_of_ours() -> set[str]:
    """Files of this user where programs leave them."""
    found = set()
    for folder in {tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", str(Path.cwd())}:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                        found.add(entry.path)
    return found


def _memory_kib(kind: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1])
    return 0


def _over(way: Callable[[], _Way]) -> Said | None:
    before = _held()["descriptors"]
    one = way()
    distinct, in_memory = one.distinct, _held()["descriptors"] == before
    sent = bytes(one.size)
    if one.send(sent) != 1:
        return said(Broken.EMPTY_HAD_NO_ROOM)
    one.close_sender()
    count, _ = one.awaited()
    after = one.ended()
    # Both ends of a queue are one, and a server in between need not tell: 0 then is all that is known. But a
    # connection that the kernel calls closed, and memory of this process alone, do tell.
    swallowed = after == 0 and distinct and (in_memory or hears_an_end(os.getpid()))
    one.close()
    if count != 1:
        return said(Broken.LAST_DID_NOT_ARRIVE)
    if swallowed:
        return said(Broken.END_NOT_RETURNED)
    return None if after in (0, -errno.EPIPE) else said(Broken.THEN_RETURNED, number=after)


if __name__ == "__main__":
    answer = [
        (promise.name, None if broken is None else (broken.kind.name, broken.values))
        for promise, broken in probe(*json.load(sys.stdin))
    ]
    print(dumps(answer))  # noqa: T201 (what it is asked for)
