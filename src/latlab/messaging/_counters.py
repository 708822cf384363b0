"""Auxiliary counters: any other reading (NIC, interrupts, a file) on the window of the messages.

A counter is a function without arguments that returns a whole number which only grows. A plug-in registers
one under the entry point group ``latlab.counters``, or is named as ``module:function``.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from latlab.errors import UsageError

GROUP = "latlab.counters"
BUILT_IN = "interrupts, softirqs, context-switches, net-bytes:DEVICE, net-packets:DEVICE, file:PATH"


def _stat(word: str) -> int:
    """A line of /proc/stat, whose first number is the sum of all."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith(word + " "):
            return int(line.split()[1])
    raise OSError(f"/proc/stat has no {word}")


def _device(device: str, what: str) -> int:
    folder = Path("/sys/class/net", device, "statistics")
    return sum(int((folder / f"{way}_{what}").read_text()) for way in ("rx", "tx"))


def _file(path: str) -> int:
    return int(Path(path).read_text().split()[0])


def counter(name: str) -> Callable[[], int]:
    """The function behind a counter's name, tried once.

    Raises:
        UsageError: for a name that nobody knows, or a counter that can't be read here.
    """
    kind, _, rest = name.partition(":")
    known: dict[str, Callable[[], int]] = {
        "interrupts": partial(_stat, "intr"),
        "softirqs": partial(_stat, "softirq"),
        "context-switches": partial(_stat, "ctxt"),
        "net-bytes": partial(_device, rest, "bytes"),
        "net-packets": partial(_device, rest, "packets"),
        "file": partial(_file, rest),
    }
    read = known.get(kind) or _plug_in(name)
    try:
        read()
    except Exception as error:  # noqa: BLE001 (whatever a plug-in raises is one line)
        raise UsageError(f"the counter '{name}' can't be read: {error}") from None
    return read


def _plug_in(name: str) -> Callable[[], int]:
    from importlib.metadata import entry_points

    remedy = f"there are {BUILT_IN}, plug-ins and module:function"
    try:
        for point in entry_points(group=GROUP, name=name):
            found: Callable[[], int] = point.load()
            return found
        module, _, attribute = name.partition(":")
        if not attribute:
            raise UsageError(f"unknown counter '{name}'", remedy=remedy)
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"unknown counter '{name}': {error}", remedy=remedy) from None
    return found


class Readings:
    """Counters read beside the count of received messages: (message, CLOCK_MONOTONIC ns, value) each.

    Args:
        names: of the counters.
        told: hears at every reading how many messages have been received.
    """

    def __init__(self, names: Iterable[str], told: Callable[[int], None] | None = None) -> None:
        self._told = told
        self._read = {name: counter(name) for name in names}
        self._taken: dict[str, list[tuple[int, int, int]]] = {name: [] for name in self._read}

    def take(self, received: int) -> None:
        """Read them all."""
        if self._told is not None:
            self._told(received)
        for name, read in self._read.items():
            self._taken[name].append((received, time.monotonic_ns(), int(read())))

    def since(self, start_ns: int) -> dict[str, tuple[tuple[int, int, int], ...]]:
        """What was read, with times from `start_ns` on CLOCK_MONOTONIC."""
        return {
            name: tuple((message, at - start_ns, value) for message, at, value in taken)
            for name, taken in self._taken.items()
        }
