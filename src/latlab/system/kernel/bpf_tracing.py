"""Kernel tracepoints of the whole machine by BPF programs: complete, and at less cost than perf's rings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from latlab._core.system import BpfTrace
from latlab.errors import UnavailableError, UsageError
from latlab.system.cpus import online_cpus
from latlab.system.kernel.samples import Events, Forgotten
from latlab.system.kernel.tracefs import EventFormat
from latlab.system.kernel.tracing import formats_of, tables_of

if TYPE_CHECKING:
    from latlab.system.kernel.stacks import Sampler

__all__ = ["BpfTracer"]

# What the kernel's own tracepoints give of these events, as cpu_rings.hpp has it: each field and its size.
_TYPED: dict[str, tuple[tuple[str, int], ...]] = {
    "sched:sched_switch": (
        ("prev_comm", 16),
        ("prev_pid", 4),
        ("prev_prio", 4),
        ("prev_state", 8),
        ("next_comm", 16),
        ("next_pid", 4),
        ("next_prio", 4),
    ),
    "sched:sched_waking": (("comm", 16), ("pid", 4), ("prio", 4), ("target_cpu", 4)),
    "sched:sched_migrate_task": (("comm", 16), ("pid", 4), ("prio", 4), ("orig_cpu", 4), ("dest_cpu", 4)),
    **dict.fromkeys(
        ("sock:sock_send_length", "sock:sock_recv_length"),
        (("sk", 8), ("family", 2), ("protocol", 2), ("ret", 4), ("flags", 4)),
    ),
    "sched:sched_process_fork": (
        ("parent_comm", 16),
        ("parent_pid", 4),
        ("child_comm", 16),
        ("child_pid", 4),
    ),
    "sock:sk_data_ready": (("skaddr", 8), ("family", 2), ("protocol", 2)),
    **dict.fromkeys(
        ("exceptions:page_fault_user", "exceptions:page_fault_kernel"),
        (("address", 8), ("ip", 8), ("error_code", 8)),
    ),
}
_MOST_WAITING = 2_000_000  # of some 100 bytes
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # bpf_program.hpp: kSpread


class BpfTracer:
    """Collects tracepoints of all CPUs by BPF programs: complete where perf misses switches out of idle.

    Used as `Tracer` is. See `native/core/system/bpf_trace.hpp`.

    Args:
        events: names as ``group:event``.
        registers: those of them for which the current thread's system call is read, too.
        payload_bytes: with registers, at most so many bytes of what that call reads or writes, as
            ``payload``, of which ``captured`` are its; the event has the call's result as its field ``ret``.
        chosen: events that come of the processes alone that `add_process` names.
        keys: an event's field by which `sample` chooses. counted: those of them that `counts` counts.
        watched: numbers of system calls whose first argument is a descriptor, which `notes` tells where a
            thread leaves its CPU in one.
        contexts: events that begin and end an interrupt: (place 0 to 3, the field with its number or "",
            whether it ends). They are not collected; the events of `reports` have the column ``context``
            instead: 16 bits a place, the number and 1 inside of it, 0 outside. Those of `counts` have there
            for how many ns their CPU had served interrupts until then, but for the numbers that are
            `untimed`, by place.
        reports, counts, untimed: see `contexts`.
        adopts: of a fork, the event's field with the child: the chosen events of a child come, too, from its
            first one on, if those of its parent do.
        latest: once twice this many samples have come, only this many are kept, the latest, beside all of
            `always`; all are kept when it is None, or as soon as one of `whole` came.
        typed: read the events of the scheduler, of interrupts, of sockets and of page faults from the
            kernel's own tracepoints where that is possible, which costs the observed program less; the same
            columns (of an arrival ``ip`` is 0).
        stacks: a sampler, which hasn't started, whose stacks of blocking threads are taken where the switches
            are read so.
        ring_bytes: for all CPUs together, a power of two; `most_bytes` is what is kept until it is taken.

    Attributes:
        typed: the events that are read so. takes_stacks: whether those of `stacks` are taken.

    Raises:
        UnavailableError: no rights, no such event, a kernel without BPF.
    """

    def __init__(
        self,
        events: Iterable[str],
        *,
        registers: Iterable[str] = (),
        payload_bytes: Mapping[str, int] | None = None,
        chosen: Iterable[str] = (),
        keys: Mapping[str, str] | None = None,
        contexts: Mapping[str, tuple[int, str, bool]] | None = None,
        reports: Iterable[str] = (),
        counts: Iterable[str] = (),
        untimed: Mapping[int, Iterable[int]] | None = None,
        adopts: Mapping[str, str] | None = None,
        counted: Iterable[str] = (),
        watched: Iterable[int] = (),
        latest: int | None = None,
        always: Iterable[str] = (),
        whole: Iterable[str] = (),
        typed: bool = True,
        stacks: Sampler | None = None,
        ring_bytes: int = 1 << 25,
        most_bytes: int = 1 << 30,
    ) -> None:
        self._formats = formats_of(events)
        wanted = set(registers)
        sizes = [max(one.offset_bytes + one.size_bytes for one in form.fields) for form in self._formats]
        flags = [form.name in wanted for form in self._formats]
        only, counting = set(chosen), set(counted)
        lengths = [
            _offset(form, "ret") if form.name in (payload_bytes or {}) else 0 for form in self._formats
        ]
        kept = [(contexts or {}).get(form.name, (-1, "", False)) for form in self._formats]
        telling = {**dict.fromkeys(reports, 1), **dict.fromkeys(counts, 2)}
        skipped = {place: sum(1 << one for one in set(numbers)) for place, numbers in (untimed or {}).items()}
        payloads = [(payload_bytes or {}).get(form.name, 0) for form in self._formats]
        try:
            self._trace: BpfTrace | None = BpfTrace(
                [form.id for form in self._formats], sizes, flags, payloads,
                lengths,
                [form.name in only for form in self._formats],
                [_offset(form, (keys or {}).get(form.name, "")) for form in self._formats],
                [2 * place if place >= 0 else -1 for place, _, _ in kept],
                [_offset(form, field) for form, (_, field, _) in zip(self._formats, kept, strict=True)],
                [ends for _, _, ends in kept],
                [skipped.get(place, 0) for place, _, _ in kept],
                [_offset(form, (adopts or {}).get(form.name, "")) for form in self._formats],
                [telling.get(form.name, 0) for form in self._formats],
                [form.name.partition(":")[2] if typed else "" for form in self._formats],
                [_places(form) for form in self._formats],
                [form.name in counting for form in self._formats],
                list(watched),
                stacks.share() if stacks is not None else [],
                ring_bytes, most_bytes,
            )  # fmt: skip
        except OSError as error:
            raise UnavailableError(
                f"the kernel refuses BPF programs ({error.strerror})",
                remedy="run as root, or with CAP_BPF and CAP_PERFMON",
            ) from None
        self.registers = bool(self._trace.registers)
        self.takes_stacks = bool(self._trace.stacks)
        if stacks is not None:
            stacks.shared(self.takes_stacks)
        self.typed = tuple(self._formats[index].name for index in self._trace.typed)
        self._salt = int(self._trace.salt)
        self._lost = 0
        self._taken: list[list[dict[str, Any]]] = []
        names = [form.name for form in self._formats]
        self._latest, self._always, self._whole = (
            latest, {names.index(one) for one in always}, {names.index(one) for one in whole}
        )  # fmt: skip
        self._kept, self._needed = 0, False
        self._forgotten = Forgotten()

    def __enter__(self) -> Self:
        if self._trace is None:
            raise UsageError("this tracer has ended; make another one")
        self._trace.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._trace is not None:
            self._trace.stop()
            self._take(self._trace)
            self._lost = int(self._trace.lost())
            self._trace = None

    def add_process(self, pid: int) -> None:
        """Let the chosen events of this process come, too."""
        if self._trace is not None:
            self._trace.add_process(pid)

    def sample(self, keys: np.ndarray[Any, Any], wanted: int) -> int:
        """From now on let only so many of these keys' events come, drawn by chance, and of others as many.

        Calls go on choosing among those that were chosen before. No system call is made.

        Returns:
            below which hash a key is chosen, for `sampled`.
        """
        hashes = sorted(self.hashes(keys).tolist())
        below = hashes[wanted - 1] + 1 if wanted <= len(hashes) else 1 << 32
        if self._trace is not None:
            self._trace.sample(below)
        return below

    def hashes(self, keys: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Of each key, by which `sample` chooses."""
        with np.errstate(over="ignore"):
            lower = keys.astype(np.uint64) & np.uint64(0xFFFFFFFF)
            return ((lower ^ np.uint64(self._salt)) * _SPREAD) >> np.uint64(32)

    @property
    def names(self) -> tuple[str, ...]:
        """The tracepoints that are open."""
        return tuple(form.name for form in self._formats)

    @property
    def lost(self) -> int:
        """Samples that found no room so far."""
        return self._lost if self._trace is None else int(self._trace.lost())

    def notes(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Rows of what came since the last time: process and descriptor of calls; parent and child of forks.

        A descriptor of an event with registers is told several times a second at most; of the call in which
        a thread leaves its CPU only one of `watched`. No columns are made: the program that is observed needs
        the CPU itself. How many found no room isn't asked: bpf(2) suspends programs on its CPU, and a thread
        that is preempted in it would keep them suspended.
        """
        if self._trace is None:
            return np.zeros((0, 2), np.int32), np.zeros((0, 2), np.int32)
        descriptors, children = self._trace.notes()
        return descriptors.reshape(-1, 2), children.reshape(-1, 2)

    def counts(self) -> dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
        """Of each event that is `counted` the keys that came since the last time, and how often each did."""
        if self._trace is None:
            return {}
        return {
            form.name: (keys, counts)
            for form, (keys, counts) in zip(self._formats, self._trace.counts(), strict=True)
        }

    def keep(self) -> None:
        """Take what has come, for `events`, once it is much; now and then, so that the oldest can be let go.

        Making columns of it costs as much as all else, and the program that is observed needs the CPU
        itself: what isn't much is left where it is.
        """
        if self._trace is None:
            return
        waiting = self._trace.waiting()
        self._needed |= any(waiting[index] for index in self._whole)
        count = sum(waiting)
        let_go = self._latest is not None and not self._needed
        if count > _MOST_WAITING or (let_go and self._kept + count > 2 * (self._latest or 0)):
            self._take(self._trace)

    def events(self) -> Events:
        """Everything so far."""
        if self._trace is not None:
            self._take(self._trace)
        tables = tables_of(self._formats, self._taken)
        return Events(tables, self.lost, tuple(online_cpus()), self._forgotten)

    def _take(self, trace: BpfTrace) -> None:
        """What has come; where too much did, the first of it goes: memory, and the time of an answer."""
        self._taken.append(trace.take())
        self._kept += sum(len(one["time_ns"]) for one in self._taken[-1])
        self._needed |= any(len(self._taken[-1][index]["time_ns"]) for index in self._whole)
        if self._latest is None or self._needed or self._kept <= 2 * self._latest:
            return
        for parts in self._taken[:-1]:
            if self._kept <= self._latest:
                break
            for index, part in enumerate(parts):
                if index not in self._always and len(part["time_ns"]):
                    self._kept -= len(part["time_ns"])
                    self._forgotten = self._forgotten.and_of(part["time_ns"])
                    parts[index] = {
                        key: value[:0].copy() if isinstance(value, np.ndarray) else value
                        for key, value in part.items()
                    }


def _offset(form: EventFormat, name: str) -> int:
    return next((one.offset_bytes for one in form.fields if one.name == name), 0)


def _places(form: EventFormat) -> list[int]:
    """Where the record has what its own tracepoint gives, 0: a text that isn't in place; [] if it differs."""
    fields = {one.name: one for one in form.fields}
    places = []
    for name, size in _TYPED.get(form.name, ()):
        one = fields.get(name)
        dynamic = one is not None and one.kind == "dynamic_text"
        if one is None or (one.size_bytes != size and not dynamic):
            return []
        places.append(0 if dynamic else one.offset_bytes)
    return places
