"""Starts the processes that measure, and turns what becomes of them into samples or one-line errors."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import marshal
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from latlab.bench.judging.measures import tail_quantile
from latlab.bench.processes import commands, moved, surroundings
from latlab.bench.processes.stops import Watch
from latlab.bench.processes.surroundings import LEAST_NICE
from latlab.bench.results import google
from latlab.bench.results.targets import Target
from latlab.errors import LatlabError, NotTrustworthyError, SkippedError, UsageError
from latlab.model.bench import COSTS, Sample, Settings
from latlab.stats.quantiles import nearest_rank
from latlab.words import seconds

__all__ = ["conditions_for", "draws_places", "fixtures", "measure_once", "measure_pair", "takes_seed"]

_WARM_SHARE = 0.02  # of the time that a process may take
_SAID = 8  # lines of its own standard error that a failure shows
_THREW, _UNEVEN, _AFFINITY, _MEMORY, _MISSING, _COMMAND, _PEER = 10, 11, 12, 13, 14, 16, 17
_SKIPPED = 18


def fixtures(
    target: Target, *, timeout_s: float = 60.0
) -> tuple[dict[str, dict[str, list[Any]]], dict[str, str]]:
    """(fixtures of the target's file with their parameters, the user's words for the report).

    Raises:
        LatlabError: the file can't be loaded.
    """
    if target.kind == "command":
        return {}, {}
    if target.kind == "python":
        found = _listed(target, timeout_s)
        return found["fixtures"], {k: str(v) for k, v in found["report"].items()}
    if target.kind == "google":
        return {name: {} for name in google.listed(_run(target, commands.listing(target), timeout_s))}, {}
    try:
        document = json.loads(_run(target, [*commands.native(target), "--list", "1"], timeout_s))
    except ValueError:
        raise LatlabError(f"{target.text}: it ended before its fixtures could be listed") from None
    return {name: {} for name in reversed(document["fixtures"])}, dict(document.get("report", {}))


def takes_seed(target: Target, *, timeout_s: float = 60.0) -> bool:
    """Whether a fixture's input can be drawn anew: one in Python declares a parameter `seed`.

    One in C++ asks for it by name, so that its file contains the word; a C function gets its size alone.
    """
    if target.apart or target.path is None:
        return False
    if target.kind != "python":
        return (
            target.fixture in fixtures(target, timeout_s=timeout_s)[0] and b"seed" in target.path.read_bytes()
        )
    config = {"path": str(target.path), "list": True, "sys_path": commands.search_path(target)}
    return (
        target.fixture
        in _unpacked(target, _run(target, commands.python(target, config), timeout_s))["seeded"]
    )


def _listed(target: Target, timeout_s: float) -> Any:
    config = {"path": str(target.path), "list": True, "sys_path": commands.search_path(target)}
    return _unpacked(target, _run(target, commands.python(target, config), timeout_s))


def measure_once(target: Target, settings: Settings) -> Sample:
    """Measure one side in one fresh process, which has the processor to itself.

    Raises:
        NotTrustworthyError: the fixture changed its affinity, or its counts differ.
        LatlabError: it threw, hung, took too much memory, or isn't there.
    """
    return _measured([target], dataclasses.replace(settings, turn=0, unmeasured=0))[0]


def measure_pair(first: Target, second: Target, settings: Settings, place: int = 0) -> tuple[Sample, Sample]:
    """Measure both sides in two fresh processes.

    They take turns of `settings.turn` iterations on the processor, `first` beginning; where that is 0, or a
    side is a command, the second is started when the first has ended.

    Args:
        first: the side that begins.
        second: the other.
        settings: how they measure.
        place: number of the pair in its block: where compiled files are moved, four consecutive ones lie
            differently within a line of the cache. Both sides are moved by one distance.

    Raises:
        as `measure_once`.
    """
    theirs = {"command", "program", "google"} & {first.kind, second.kind}
    layout = 0 if theirs else random.randrange(1, 1 << 32)
    further = moved.drawn(place) if settings.moved else None
    if settings.turn == 0 or first.apart or second.apart:
        settings = dataclasses.replace(settings, turn=0, unmeasured=0)
        one, other = (_measured([side], settings, layout, further)[0] for side in (first, second))
    else:
        one, other = _measured([first, second], settings, layout, further)
    return one, dataclasses.replace(other, position=1)


def draws_places(a: Target, b: Target, settings: Settings) -> tuple[bool, bool]:
    """Whether copies of both sides' compiled files can be placed anew for each pair, and whether that draws
    every place within a line of the cache that another build might have.

    Each is tried once, by the distance that breaks the most alignments.

    Raises:
        as `measure_once`, of a side that fails where it isn't moved.
    """
    how = [None if (file := commands.compiled(side)) is None else moved.moving(file) for side in (a, b)]
    if None in how:
        return False, False
    few = dataclasses.replace(settings, iterations=1, warmup=0, batch=1, turn=0, unmeasured=0)
    for target in (a, b):
        try:
            _measured([target], few, further=moved.drawn(1))
        except LatlabError:
            measure_once(target, few)  # or it fails by itself
            return False, False
    return True, all(one is not None and one.draws_lines for one in how)


def conditions_for(a: Target, b: Target, settings: Settings) -> tuple[Settings, float]:
    """The settings that suit both sides, and the seconds that the longer call of the two takes.

    Commands and fixtures that start threads get all processors, before all other ordinary work. What takes
    long is called few times to get warm, or it would not end within a process's time; of a command nothing is
    known yet (0 s).

    Raises:
        as `measure_once`.
    """
    every = tuple(sorted(os.sched_getaffinity(0)))
    free = dataclasses.replace(settings, cpu=None, cpus=every, priority=0, nice=True, fitting=False)
    few = dataclasses.replace(free if settings.fitting else settings, iterations=1, warmup=0, batch=1)
    fitted, longest_s = dataclasses.replace(settings, fitting=False), 0.0
    for target in (a,) if a == b else (a, b):
        if target.apart:
            fitted = free if settings.fitting else fitted
            continue
        sample = measure_once(target, few)
        longest_s = max(longest_s, float(sample.times_ns[0]) * sample.operations * 1e-9, sample.measuring_s)
        if settings.fitting and "threads" in sample.context:
            fitted = free
    longest_s = max(longest_s, 1e-9)
    # A time-out may be infinite.
    allowed = min(max(1.0, settings.warm_s / longest_s), _WARM_SHARE * settings.timeout_s / longest_s)
    return dataclasses.replace(fitted, warmup=int(min(settings.warmup, allowed))), longest_s


def _measured(
    targets: Sequence[Target],
    settings: Settings,
    layout: int = 0,
    further: int | None = None,
    *,
    again: bool = True,
) -> list[Sample]:
    """The samples of one process a target, which take turns if there are two.

    Args:
        targets: one or two.
        settings: how they measure.
        layout: draws where code and data lie and how Python hashes, the same for each; 0 leaves it to chance.
        further: the distance by which their compiled files are moved; None leaves them.
        again: whether to measure once more where they were stopped: the iteration in which that happened
            would be the longest by far. Which side it hit decides nothing, so that the coins stay fair.
    """
    begin = time.perf_counter()
    watch = Watch(settings.timeout_s)
    with contextlib.ExitStack() as stack:
        stack.enter_context(surroundings.conditions(settings))
        if layout:
            stack.enter_context(surroundings.unrandomized())
        ends: list[socket.socket | None] = [None]
        if len(targets) == 2:
            ends = [stack.enter_context(end) for end in socket.socketpair()]
        running = [
            stack.enter_context(_Process(target, settings, end, layout, further, first=i == 0))
            for i, (target, end) in enumerate(zip(targets, ends, strict=True))
        ]
        for end in ends:
            if end is not None:
                end.close()  # or a side that has gone would not be noticed by the other
        outputs = _outputs(running, watch)
    if watch.lost_s and again:
        return _measured(targets, settings, layout, further, again=False)
    process_s = time.perf_counter() - begin - watch.lost_s
    samples = [_sample(*both, settings, process_s) for both in zip(targets, outputs, strict=True)]
    if all(process.nice for process in running):
        return [dataclasses.replace(s, context=("nice", *s.context)) for s in samples]
    return samples


def _sample(target: Target, output: bytes, settings: Settings, process_s: float) -> Sample:
    if target.kind == "google":
        return google.sample(_named(target), output, process_s)
    if target.kind == "python":
        measured, done = _unpacked(target, output)
        raw, batch, operations, hz, quantum, read, measuring_ns, singles = measured
    else:
        head, _, raw = output.partition(b"\n")
        try:
            done = json.loads(head)
            batch, operations, hz = done["batch"], done["operations"], done["hz"]
            quantum, read, measuring_ns = done["quantum_ticks"], done["read_ticks"], done["measuring_ns"]
        except (ValueError, KeyError):
            raise LatlabError(
                f"{_named(target)}: the measuring process ended before it wrote its result"
            ) from None
        singles = raw[8 * settings.iterations :]
        raw = raw[: 8 * settings.iterations]
    ticks = np.frombuffer(raw, dtype="<u8")
    if len(ticks) != settings.iterations or hz <= 0:
        raise LatlabError(f"{_named(target)}: {len(ticks)} of {settings.iterations} iterations came back")
    alone = np.maximum(np.frombuffer(singles, dtype="<u8") - float(read), quantum) * (1e9 / hz / operations)
    q = tail_quantile(len(alone))
    return Sample(
        times_ns=ticks * (1e9 / hz / batch / operations),
        batch=batch,
        operations=operations,
        quantum_ns=quantum * 1e9 / hz,
        read_ns=read * 1e9 / hz,
        process_s=process_s,
        turn=settings.turn,
        measuring_s=measuring_ns * 1e-9,
        context=tuple(key for key in ("pinned", "fifo", "locked", "placed", "threads") if done.get(key)),
        singles_ns=alone,
        tail_quantile=q,
        tail_ns=nearest_rank(alone, q) if q else 0.0,
        items=float(done.get("items", 0.0)),
        bytes=float(done.get("bytes", 0.0)),
        costs=_costs(done, settings.count),
    )


def _costs(done: Mapping[str, Any], calls: int) -> dict[str, float]:
    """What a call costs beside its time, where that was counted."""
    found = zip(COSTS, done.get("costs", ()), strict=False)
    return {name: total / int(done.get("counted", calls)) for name, total in found if total >= 0}


def _unpacked(target: Target, output: bytes) -> Any:
    try:
        return marshal.loads(output)
    except (EOFError, ValueError, TypeError):  # the fixture ended the process with success
        raise LatlabError(
            f"{_named(target)}: the measuring process ended before it wrote its result"
        ) from None


class _Process:
    """One measuring process, with all that it has started, until it has ended or is ended."""

    def __init__(
        self,
        target: Target,
        command: Sequence[str] | Settings,
        peer: socket.socket | None = None,
        layout: int = 0,
        further: int | None = None,
        *,
        first: bool = True,
    ) -> None:
        self.target = target
        counting = nice = False
        handed = [] if peer is None else [peer.fileno()]
        path = commands.compiled(target)
        copy = None if further is None or path is None else moved.copied(path, further)
        if isinstance(command, Settings):
            counting, nice = command.count > 0, command.nice
            command = commands.command(target, command, peer, layout, copy, first=first)
        # A session of its own, so that what a hanging fixture has started ends with it.
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=commands.environment(layout, target, counting=counting),
            cwd=target.cwd,
            pass_fds=handed if copy is None else [*handed, copy],
        )
        if copy is not None:
            os.close(copy)
        of_process = Path(f"/proc/{self.popen.pid}")
        # Where memory runs out, this process goes and not another.
        with contextlib.suppress(OSError):
            (of_process / "oom_score_adj").write_text("1000")
        # What its session gets is weighed against other sessions before nice values count (autogroups).
        self.nice = nice and self._is_nice()
        if self.nice:
            with contextlib.suppress(OSError):
                (of_process / "autogroup").write_text(str(LEAST_NICE))

    def _is_nice(self) -> bool:
        try:
            return os.getpriority(os.PRIO_PROCESS, self.popen.pid) == LEAST_NICE
        except ProcessLookupError:
            return False  # it has ended

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.communicate()
        if self.target.kind == "python":  # where asv's benchmarks write
            shutil.rmtree(Path(tempfile.gettempdir()) / f"latlab-asv-{self.popen.pid}", ignore_errors=True)


def _outputs(running: Sequence[_Process], watch: Watch) -> list[bytes]:
    """What each wrote; where one failed, its error, and not that of the other who missed it."""
    outputs: list[bytes] = []
    failed: dict[int, LatlabError] = {}
    for process in running:
        try:
            output, errors = watch.output(process.popen, [p.popen for p in running])
        except subprocess.TimeoutExpired:
            if failed:
                break
            names = " or ".join(dict.fromkeys(_named(p.target) for p in running))
            raise LatlabError(
                f"{names}: one process has not ended within {seconds(watch.timeout_s)}",
                remedy="give it fewer iterations or more time by --timeout",
            ) from None
        outputs.append(output)
        if process.popen.returncode != 0:
            lines = errors.decode(errors="replace").strip().splitlines()
            said = lines[-1] if lines else "it printed nothing"
            if (
                len(lines) > 1 and process.popen.returncode != _SKIPPED
            ):  # what the fixture or the command said itself, before our own line
                said += "".join(f"\n  | {line}" for line in lines[-1 - _SAID : -1])
            failed[process.popen.returncode] = _error(process.target, process.popen.returncode, said)
    if failed:
        raise next((e for code, e in failed.items() if code != _PEER), next(iter(failed.values())))
    return outputs


def _run(target: Target, command: Sequence[str], timeout_s: float) -> bytes:
    with _Process(target, command) as process:
        return _outputs([process], Watch(timeout_s))[0]


def _named(target: Target) -> str:
    """A target as an error calls it."""
    return target.text if target.fixture is None or ":" in target.text else f"{target.text}:{target.fixture}"


def _error(target: Target, code: int, said: str) -> LatlabError:
    name = _named(target)
    if code == _THREW:
        return LatlabError(f"{name}: it threw: {said}")
    if code == _UNEVEN:
        return NotTrustworthyError(f"{name}: {said}", remedy="let every run() do the same operations")
    if code == _AFFINITY:
        return NotTrustworthyError(f"{name}: {said}", remedy="leave the processor to --cpus")
    if code == _MEMORY:
        return LatlabError(f"{name}: {said}", remedy="fix the fixture or raise --memory")
    if code == _SKIPPED:
        return SkippedError(f"{name}: skipped: {said}")
    if code == _MISSING:
        return UsageError(f"{name}: {said}")
    if code == _COMMAND:
        return LatlabError(f"{name}: {said}")
    ended = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    return LatlabError(f"{name}: the measuring process {ended}: {said}")
