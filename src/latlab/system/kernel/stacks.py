"""Where in the code the threads of running processes are: sampled user stacks, with function, file and line.

While measuring the kernel copies registers and the top of each sampled stack into preallocated memory
(perf_event_open(2)): at the ticks of the CPU's clock for running threads, and where a thread leaves the CPU.
Unwinding and names come afterwards. The interpreter's own frames of Python programs come from py-spy, if it
is installed."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from latlab._core.stacks import StackSampler, libdw
from latlab.errors import UnavailableError
from latlab.formats.rust_names import rust_name
from latlab.model.schedule import Frame
from latlab.system.cpus import online_cpus
from latlab.system.kernel.binaries.unwind_table import UnwindTable
from latlab.system.kernel.jit_map import jit_name, read_jit_map
from latlab.system.kernel.polling import Polling
from latlab.system.kernel.python_graft import graft
from latlab.system.kernel.python_stacks import PythonStacks, process_tree

__all__ = ["Sampler", "Stacks", "unwinds_by_dwarf"]

_WORTH_TELLING = 0.02  # of all samples without a name in one module
_MODULES_TOLD = 3
_WORTH_READING = 0.05  # of the running samples, in one module
_GO = re.compile(r"^runtime\.(goexit|mcall|mstart)")
_OF_GO = re.compile(r"^(runtime|sync|internal)[./]")
_MOST_CLOCK = 8  # frames of what reads the clock


@dataclass(frozen=True)
class Stacks:
    """Sampled stacks of processes.

    Attributes:
        time_ns: int64, CLOCK_MONOTONIC, sorted. pid, tid: int32.
        running: uint8, 1: sampled by the CPU clock; 0: where the thread left the CPU, blocked or preempted.
        stack: int32, indices into `stacks`, whose members are indices into `frames`, innermost first.
        base: uint64, the address at which a sample's stack begins, which is another one for each thread and
            for each coroutine with a stack of its own, such as a goroutine; 0 where that was out of reach.
        every_thread: switches were sampled by thread; else every n-th of a CPU.
        lost: samples that the kernel had to drop. thinned: one in so many samples of a thread was kept.
        notes: what is missing, and the command that would get it.
    """

    time_ns: np.ndarray[Any, Any]
    pid: np.ndarray[Any, Any]
    tid: np.ndarray[Any, Any]
    running: np.ndarray[Any, Any]
    stack: np.ndarray[Any, Any]
    stacks: tuple[tuple[int, ...], ...]
    frames: tuple[Frame, ...]
    base: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0, np.uint64))
    every_thread: bool = True
    lost: int = 0
    thinned: int = 1
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.time_ns)

    def frames_of(self, sample: int) -> tuple[Frame, ...]:
        """Of one sample, innermost first."""
        return tuple(self.frames[index] for index in self.stacks[int(self.stack[sample])])


class Sampler:
    """Samples the stacks of processes and of their children between `start` and `stop`.

        with Sampler([pid]) as sampler:
            ...
        stacks = sampler.stop()

    Args:
        pids: of processes; one that was forked by another one of them is followed by itself.
        running_hz: how often a second a running thread's stack is taken.
        switches_hz: how many stacks a second, over all threads, are taken where threads leave the CPU.
        stack_bytes: how much of a stack is copied; what is deeper stays unknown.
        arena_bytes: memory for the copies; when it is full, half of each thread's samples are let go.
        python: read the frames of Python programs too, if py-spy is installed.
        most: samples that are unwound at most.

    Raises:
        UnavailableError: no rights.
    """

    def __init__(
        self,
        pids: Sequence[int] = (),
        *,
        running_hz: int = 499,
        switches_hz: int = 400,
        stack_bytes: int = 8192,
        arena_bytes: int = 96 << 20,
        python: bool = True,
        most: int = 20_000,
    ) -> None:
        try:
            self._sampler = StackSampler(
                online_cpus(), list(pids), running_hz, switches_hz, stack_bytes, arena_bytes
            )
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                raise UnavailableError(
                    f"stacks can't be sampled ({error})",
                    remedy="run as root, or with CAP_PERFMON, or set kernel.perf_event_paranoid to -1",
                ) from None
            raise UnavailableError(f"stacks can't be sampled ({error})") from None
        self._pids = list(pids)
        self._python = PythonStacks() if python else None
        self._most = most
        self._running = False

    def start(self) -> None:
        """Begin; a process that is just being started may be given while it stands still before its exec."""
        self._sampler.start()
        self._running = True
        for pid in self._pids:
            self._with_children(pid)
        if self._python is not None:
            self._python.start(self._pids)

    def share(self) -> list[int]:
        """Before `start`: what a `BpfTracer` takes the stacks of blocking threads by, at less cost."""
        return list(self._sampler.share())

    def shared(self, taken: bool) -> None:
        """Then: whether it does."""
        self._sampler.shared(taken)

    def follow(self, pid: int) -> None:
        """Sample one more process, and its children."""
        self._sampler.follow(pid)
        self._pids.append(pid)
        self._with_children(pid)
        if self._python is not None:
            self._python.follow(pid)

    def _with_children(self, pid: int) -> None:
        """Those that were forked before the process itself was followed: nobody told of their forks."""
        for child in process_tree([pid])[1:]:
            self._sampler.follow(child)

    def halt(self) -> None:
        """End sampling; what was sampled is kept for `stop`."""
        if self._running:
            self._running = False
            self._sampler.stop()
            if self._python is not None:
                self._python.stop()

    def stop(self) -> Stacks:
        """End, unwind and name what was sampled."""
        self.halt()
        raw = self._sampler.unwound(self._most)
        places = [tuple(place) for place in raw["places"]]
        stacks = _stacks(raw, places, self._sampler)
        stacks = _with_mutexes(_with_polling(stacks))
        if self._python is not None:
            stacks = _with_python(stacks, self._python)
        return replace(stacks, notes=stacks.notes + _without_symbols(stacks))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.halt()


def _with_polling(stacks: Stacks) -> Stacks:
    """The same, with the loops marked that only look: of the places where many samples run.

    A sample in what reads the clock counts for the place that called it.
    """
    polling = Polling()
    frames = list(stacks.frames)
    note = ("capstone distinguishes loops that only wait from work: pip install 'latlab[code]'",)
    if polling.missing:
        return replace(stacks, notes=stacks.notes + note)
    numbers, counts = np.unique(stacks.stack[stacks.running == 1], return_counts=True)
    at: dict[int, int] = {}
    of_module: dict[str, int] = {}
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        place = _outside_of_clock(polling, frames, stacks.stacks[number])
        if place >= 0:
            at[place] = at.get(place, 0) + count
            of_module[frames[place].module] = of_module.get(frames[place].module, 0) + count
    for index in at:
        frame = frames[index]
        if of_module[frame.module] < _WORTH_READING * sum(at.values()):
            continue
        # The frames of one address differ by what was inlined there: the place is the same.
        if kind := polling.kind(frame.module, frame.offset):
            frames[index] = replace(frame, polls=kind)
    return replace(stacks, frames=tuple(frames))


def _with_mutexes(stacks: Stacks) -> Stacks:
    """The same, with those places in a Go program's functions marked that hold a mutex, by their code."""
    go = {one.module for one in stacks.frames if _GO.match(one.function)}
    polling = Polling()
    if not go or polling.missing:
        return stacks
    frames = [
        replace(one, in_mutex=True)
        if one.module in go and not _OF_GO.match(one.function) and polling.in_go_mutex(one.module, one.offset)
        else one
        for one in stacks.frames
    ]
    return replace(stacks, frames=tuple(frames))


def _outside_of_clock(polling: Polling, frames: Sequence[Frame], stack: Sequence[int]) -> int:
    """The innermost frame of a stack that does more than to read the clock; -1 without one."""
    for index in stack[:_MOST_CLOCK]:
        frame = frames[index]
        if not frame.module.startswith("[vdso") and not polling.reads_clock(frame.module, frame.offset):
            return index
    return -1


def _with_python(stacks: Stacks, python: PythonStacks) -> Stacks:
    """The same with the interpreter's frames replaced by the program's own."""
    frames = list(stacks.frames)
    known = list(stacks.stacks)
    stack = graft(stacks.time_ns, stacks.tid, stacks.running, stacks.stack, known, frames, python.samples())
    return replace(
        stacks,
        stack=stack,
        stacks=tuple(known),
        frames=tuple(frames),
        notes=stacks.notes + python.notes,
    )


def _stacks(raw: Mapping[str, Any], places: Sequence[tuple[Any, ...]], sampler: StackSampler) -> Stacks:
    jit = {pid: read_jit_map(pid) for pid in {place[6] for place in places if not place[3]}}
    frames = []
    tables: dict[str, UnwindTable | None] = {}
    for function, file, line, module, offset, address, pid, behind in places:
        name = rust_name(function)
        if not name and not module and jit[pid]:
            name = jit_name(jit[pid], address)
        begin = 0
        if (not name or behind) and module.startswith("/"):
            if module not in tables:
                tables[module] = UnwindTable.read(module)
            table = tables[module]
            around = None if table is None else table.around(offset)
            begin = 0 if around is None else around[0]
            if name and begin > offset - behind:  # another function begins between the symbol and here
                name = ""
            elif name:
                begin = 0
        frames.append(Frame(name, file, line, module, offset if module else address, begin=begin))
    notes = []
    if not raw["by_dwarf"]:
        notes.append("stacks are read along frame pointers only, and without names: apt install libdw1")
    if not sampler.every_thread:
        notes.append(
            "threads that rarely block may lack a stack: BPF is not allowed here; run as root or with CAP_BPF"
        )
    if sampler.lost:
        notes.append(f"the kernel dropped {sampler.lost} samples of stacks")
    return Stacks(
        raw["time_ns"],
        raw["pid"],
        raw["tid"],
        raw["running"],
        raw["stack"],
        tuple(raw["stacks"]),
        tuple(frames),
        raw["base"],
        sampler.every_thread,
        sampler.lost,
        sampler.thinned,
        tuple(notes),
    )


def _without_symbols(stacks: Stacks) -> tuple[str, ...]:
    """One line for each module whose functions have no names, if it has a part in the samples."""
    frames = stacks.frames
    counts = np.bincount(stacks.stack, minlength=len(stacks.stacks))
    of_module: dict[str, int] = {}
    for stack, count in zip(stacks.stacks, counts.tolist(), strict=True):
        # Innermost of what isn't named: a starter routine far outside does nobody harm.
        inner = next((frames[i] for i in stack[:3] if frames[i].module and not frames[i].function), None)
        if inner is not None:
            of_module[inner.module] = of_module.get(inner.module, 0) + count
    told = sorted(of_module.items(), key=lambda item: -item[1])[:_MODULES_TOLD]
    return tuple(
        f"{os.path.basename(module)} has no symbols: install its debug package "  # noqa: PTH119
        f"(`find-dbgsym-packages {module}` names it), or keep them when you build it"
        for module, count in told
        if count >= _WORTH_TELLING * max(1, len(stacks)) and not module.startswith("[")
    )


def unwinds_by_dwarf() -> bool:
    """Whether elfutils' libdw is installed."""
    return bool(libdw())
