"""In whose context a wake-up came: a thread, a timer, the network, the disk, another interrupt. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from latlab.model.schedule import INTERRUPTED, Source
from latlab.system.kernel.samples import Events

__all__ = ["CONTEXTS", "UNTIMED", "interrupted_turns", "sources_of"]

Array = np.ndarray[Any, Any]

# Soft interrupts by their number (include/linux/interrupt.h).
_SOFT = {1: Source.TIMER, 2: Source.NETWORK, 3: Source.NETWORK, 4: Source.DISK, 8: Source.TIMER}
_DISK_WORDS = ("nvme", "virtio", "vd", "ahci", "mmc", "scsi", "sd")
_NET_WORDS = ("eth", "ens", "enp", "mlx", "ixgbe", "ice", "virtio-net", "input", "output")


#: By what a BPF program keeps a CPU's context: the place in the word, the field with the interrupt's number,
#: and whether it ends there. A hard interrupt may come into a soft one, and so has the higher place.
CONTEXTS: dict[str, tuple[int, str, bool]] = {
    "irq:softirq_entry": (0, "vec", False),
    "irq:softirq_exit": (0, "vec", True),
    "irq:irq_handler_entry": (1, "irq", False),
    "irq:irq_handler_exit": (1, "", True),
    "irq_vectors:local_timer_entry": (2, "", False),
    "irq_vectors:local_timer_exit": (2, "", True),
    "timer:hrtimer_expire_entry": (2, "", False),
    "timer:hrtimer_expire_exit": (2, "", True),
}


_FEW_INTERRUPTS = 0.02  # of a turn, below which it isn't told

#: Soft interrupts of the network: who sends to this machine delivers by one, and that is its own work.
UNTIMED: dict[int, tuple[int, ...]] = {0: (2, 3)}


class _Layer:
    """One kind of interrupt: when each began and ended on a CPU, and what it was."""

    def __init__(
        self, events: Events, entry: str, leave: str, what: Mapping[int, int] | None, default: int
    ) -> None:
        self._empty = entry not in events or leave not in events
        if self._empty:
            return
        begins, ends = events[entry], events[leave]
        time = np.concatenate([begins["time_ns"], ends["time_ns"]])
        cpu = np.concatenate([begins["cpu"], ends["cpu"]])
        if what is None:
            kinds = np.full(len(begins), default)
        else:
            column = begins["vec"] if "vec" in begins.columns else begins["irq"]
            kinds = np.array([what.get(int(one), default) for one in column], np.int64)
        kind = np.concatenate([kinds, np.full(len(ends), -1)]).astype(np.int64)
        # At one instant the end of what came before stands first.
        order = np.lexsort((kind >= 0, time, cpu))
        self._time, self._cpu, self._kind = time[order], cpu[order], kind[order]

    def at(self, cpu: Array, time: Array) -> Array:
        """The source of each instant, or -1 outside of such an interrupt."""
        found = np.full(len(time), -1, np.int64)
        if self._empty or not len(self._time):
            return found
        for one in np.unique(cpu):
            rows = np.flatnonzero(cpu == one)
            low, high = np.searchsorted(self._cpu, [one, one + 1])
            if low == high:
                continue
            last = np.searchsorted(self._time[low:high], time[rows], side="right") - 1
            found[rows] = np.where(last >= 0, self._kind[low:high][np.maximum(last, 0)], -1)
        return found


def interrupted_turns(switches: Any, index: Callable[[Array], Array], began_ns: int, ended_ns: int) -> Array:
    """Of our threads' turns, how long their CPU served interrupts meanwhile: its count before and after.

    Args:
        index: of a column of thread numbers the threads' indices, -1 for strangers.
    """
    parts = [np.zeros(0, INTERRUPTED)]
    if "context" in switches.columns:
        for cpu in np.unique(switches["cpu"]).tolist():
            rows = np.flatnonzero(switches["cpu"] == cpu)
            time, served = switches["time_ns"][rows], switches["context"][rows]
            thread = index(switches["next_pid"][rows])[:-1]
            begin, end, took = time[:-1], time[1:], np.diff(served)
            # One whose end was not seen would count up to the next.
            whole = (begin >= began_ns) & (end <= ended_ns) & (took <= end - begin)
            kept = np.flatnonzero((thread >= 0) & whole & (took > _FEW_INTERRUPTS * (end - begin)))
            part = np.zeros(len(kept), INTERRUPTED)
            part["thread"], part["begin"], part["end"] = thread[kept], begin[kept], end[kept]
            part["ns"] = took[kept]
            parts.append(part)
    found = np.concatenate(parts)
    return found[np.lexsort((found["begin"], found["thread"]))]


def sources_of(events: Events, rows: Array) -> Array:
    """The `Source` of these rows of the wake-ups; THREAD where no interrupt was served on that CPU."""
    wakings = events["sched:sched_waking"]
    if "context" in wakings.columns:
        return _by_context(wakings["context"][rows])
    cpu, time = wakings["cpu"][rows], wakings["time_ns"][rows]
    found = np.full(len(time), int(Source.THREAD), np.int64)
    handlers: dict[int, int] = {}
    if "irq:irq_handler_entry" in events:
        handlers = _handlers()
    layers = (
        _Layer(events, "irq:softirq_entry", "irq:softirq_exit", {k: int(v) for k, v in _SOFT.items()},
               int(Source.INTERRUPT)),
        _Layer(events, "irq:irq_handler_entry", "irq:irq_handler_exit", handlers, int(Source.INTERRUPT)),
        _Layer(events, "irq_vectors:local_timer_entry", "irq_vectors:local_timer_exit", None,
               int(Source.TIMER)),
        _Layer(events, "timer:hrtimer_expire_entry", "timer:hrtimer_expire_exit", None, int(Source.TIMER)),
    )  # fmt: skip
    for layer in layers:  # a hard interrupt may have come into a soft one
        inside = layer.at(cpu, time)
        found = np.where(inside >= 0, inside, found)
    return found


def _by_context(context: Array) -> Array:
    found = np.full(len(context), int(Source.THREAD), np.int64)
    soft, hard, timer = ((context >> (16 * place)) & 0xFFFF for place in range(3))
    known = {number: int(source) for number, source in _SOFT.items()}
    for numbers, what in ((soft, known), (hard, _handlers() if hard.any() else {})):
        for one in np.unique(numbers[numbers > 0]).tolist():
            found[numbers == one] = what.get(one - 1, int(Source.INTERRUPT))
    return np.where(timer > 0, int(Source.TIMER), found)


def _handlers() -> dict[int, int]:
    """Interrupt number -> DISK or NETWORK, by the device's name in /proc/interrupts."""
    found: dict[int, int] = {}
    try:
        with open("/proc/interrupts", encoding="utf-8") as file:
            lines = file.readlines()
    except OSError:
        return found
    for line in lines:
        number, colon, rest = line.partition(":")
        if not colon or not number.strip().isdigit():
            continue
        name = rest.split()[-1].lower() if rest.split() else ""
        if any(word in name for word in _NET_WORDS):
            found[int(number)] = int(Source.NETWORK)
        elif any(word in name for word in _DISK_WORDS):
            found[int(number)] = int(Source.DISK)
    return found
