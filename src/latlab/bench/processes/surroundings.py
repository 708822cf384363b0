"""What latlab's own thread takes on while it starts processes that measure, and waits for them."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from typing import Any

from latlab.model.bench import Settings

__all__ = ["LEAST_NICE", "conditions", "unrandomized"]

LEAST_NICE = -20
_ASK, _NO_RANDOMIZE = 0xFFFFFFFF, 0x0040000  # of personality(2)


def conditions(settings: Settings) -> contextlib.AbstractContextManager[Any]:
    """What this thread takes on while it starts processes and waits for them, which inherit it.

    They start at once and end at once however busy the machine is, and this thread stays off their processor,
    which they choose themselves. With one processor that would leave nobody to end a process that hangs.
    """
    from latlab.system.settings.context import measuring

    if settings.cpus:
        return measuring(cpus=settings.cpus, priority=LEAST_NICE if settings.nice else None)
    others = sorted(os.sched_getaffinity(0) - {settings.cpu})
    if settings.priority == 0 or settings.cpu is None or not others:
        return contextlib.nullcontext()
    return measuring(cpus=others, scheduling="fifo", priority=settings.priority)


@contextlib.contextmanager
def unrandomized() -> Iterator[None]:
    """What this thread starts meanwhile finds its stack, heap and libraries where every process has them.

    Where that is not allowed, addresses stay as they are drawn, which the processes then say.
    """
    personality = ctypes.CDLL(None).personality
    personality.argtypes = [ctypes.c_ulong]
    before = personality(_ASK)
    personality(before | _NO_RANDOMIZE)
    try:
        yield
    finally:
        personality(before)
