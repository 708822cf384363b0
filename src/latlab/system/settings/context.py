"""The conditions of a measurement, taken on for a while and given back: CPUs, scheduling, memory, disk,
timers.

    with measuring(cpus=[1], scheduling="fifo", lock_memory=True, on_failure="warn") as conditions:
        ...

What can't be had is ignored, warned of or an error, as the caller chooses; what was done and what was not
stands in `conditions`, to be recorded beside the result.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, cast

from latlab.errors import UnavailableError, UsageError
from latlab.model.evidence.machine import ChangeSaid
from latlab.model.evidence.said import said
from latlab.words import duration

__all__ = ["Conditions", "ConditionsWarning", "OnFailure", "Scheduling", "measuring"]

Scheduling = Literal["other", "batch", "idle", "fifo", "round-robin"]
OnFailure = Literal["ignore", "warn", "error"]

_POLICIES: dict[str, int] = {
    "other": os.SCHED_OTHER,
    "batch": os.SCHED_BATCH,
    "idle": os.SCHED_IDLE,
    "fifo": os.SCHED_FIFO,
    "round-robin": os.SCHED_RR,
}
_PR_SET_TIMERSLACK, _PR_GET_TIMERSLACK = 29, 30
_MCL_CURRENT, _MCL_FUTURE = 1, 2
_IOPRIO_WHO_PROCESS, _IOPRIO_CLASS_SHIFT = 1, 13
_IOPRIO_CLASSES = {"realtime": 1, "best-effort": 2, "idle": 3}


class ConditionsWarning(UserWarning):
    """A condition of the measurement could not be had."""


@dataclass
class Conditions:
    """What was asked for, and what became of it.

    Attributes:
        applied: each condition that holds, as ``name: value``.
        failed: each that doesn't, with the reason.
    """

    applied: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Step:
    name: str
    value: str
    apply: Callable[[], Callable[[], None]]  # does it, and returns what undoes it
    remedy: str


@contextmanager
def measuring(
    *,
    cpus: Sequence[int] | None = None,
    scheduling: Scheduling | None = None,
    priority: int | None = None,
    lock_memory: bool = False,
    io_class: Literal["realtime", "best-effort", "idle"] | None = None,
    timer_slack_ns: int | None = None,
    on_failure: OnFailure = "ignore",
) -> Iterator[Conditions]:
    """Hold the calling thread (memory: the whole process) in the given conditions; restore the former ones.

    Threads and processes that are started inside inherit CPUs, scheduling and timer slack.

    Args:
        cpus: run on these alone.
        scheduling: the scheduling class.
        priority: 1 to 99 for ``fifo`` and ``round-robin`` (default 10: below the kernel's own threads at 50);
            a nice value of -20 to 19 for the others.
        lock_memory: keep every page, now and later, in memory (mlockall). The kernel can't say whether it was
            so before: it is unlocked afterwards unless locked memory shows that it was.
        io_class: the class of disk access.
        timer_slack_ns: by how much the kernel may delay a sleep's end (50,000 by default; 0 would mean the
            default: use 1).
        on_failure: what happens when one can't be had: nothing, a `ConditionsWarning`, or an error.

    Raises:
        UnavailableError: a condition can't be had and ``on_failure`` is ``error``; those before it are given
            back.
        UsageError: the arguments make no sense.
    """
    if on_failure not in ("ignore", "warn", "error"):
        raise UsageError(f"on_failure is '{on_failure}'", remedy="choose ignore, warn or error")
    steps = _steps(cpus, scheduling, priority, lock_memory, io_class, timer_slack_ns)
    conditions, undo = Conditions(), cast(list[Callable[[], None]], [])
    try:
        for step in steps:
            try:
                undo.append(step.apply())
            except OSError as error:
                reason = said(ChangeSaid.REFUSED, name=step.name, value=step.value, why=str(error.strerror))
                conditions.failed[step.name] = reason
                if on_failure == "error":
                    raise UnavailableError(reason, remedy=step.remedy) from None
                if on_failure == "warn":
                    warnings.warn(f"{reason}; {step.remedy}", ConditionsWarning, stacklevel=3)
            else:
                conditions.applied[step.name] = step.value
        yield conditions
    finally:
        # The last first: a thread must leave the real-time class before its memory is unlocked, not after.
        for restore in reversed(undo):
            restore()


def _steps(
    cpus: Sequence[int] | None,
    scheduling: str | None,
    priority: int | None,
    lock_memory: bool,
    io_class: str | None,
    timer_slack_ns: int | None,
) -> list[_Step]:
    steps = []
    if cpus is not None:
        if not cpus:
            raise UsageError("no CPU is named to measure on")
        steps.append(
            _Step(
                "cpus",
                ",".join(map(str, cpus)),
                lambda: _affinity(cpus),
                "see `latlab system show` for the allowed CPUs",
            )
        )
    if lock_memory:
        steps.append(_Step("memory", "locked", _lock_memory, "raise `ulimit -l`, or run as root"))
    if timer_slack_ns is not None:
        if timer_slack_ns < 1:
            raise UsageError("a timer slack is at least 1 ns")
        steps.append(_Step("timer slack", duration(timer_slack_ns), lambda: _timer_slack(timer_slack_ns), ""))
    if io_class is not None:
        if io_class not in _IOPRIO_CLASSES:
            raise UsageError(
                f"'{io_class}' is not a class of disk access", remedy=f"choose {', '.join(_IOPRIO_CLASSES)}"
            )
        steps.append(_Step("disk", io_class, lambda: _io_class(io_class), "run as root"))
    if scheduling is not None:
        steps.append(_scheduling_step(scheduling, priority))
    elif priority is not None:
        steps.append(_nice_step(priority))
    return steps


def _scheduling_step(scheduling: str, priority: int | None) -> _Step:
    if scheduling not in _POLICIES:
        raise UsageError(f"'{scheduling}' is not a scheduling class", remedy=f"choose {', '.join(_POLICIES)}")
    policy = _POLICIES[scheduling]
    if scheduling not in ("fifo", "round-robin"):
        return _Step("scheduling", scheduling, lambda: _schedule(policy, 0, priority), "run as root")
    level = 10 if priority is None else priority
    if not 1 <= level <= 99:
        raise UsageError(f"a real-time priority is 1 to 99, not {level}")
    remedy = "run as root, grant CAP_SYS_NICE, or raise `ulimit -r`"
    return _Step("scheduling", f"{scheduling} {level}", lambda: _schedule(policy, level, None), remedy)


def _nice_step(priority: int) -> _Step:
    if not -20 <= priority <= 19:
        raise UsageError(
            f"a nice value is -20 to 19, not {priority}", remedy="name a real-time scheduling class too"
        )

    def apply() -> Callable[[], None]:
        before = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, 0, priority)
        return lambda: os.setpriority(os.PRIO_PROCESS, 0, before)

    return _Step("nice", str(priority), apply, "run as root, or raise `ulimit -e`")


def _affinity(cpus: Sequence[int]) -> Callable[[], None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    refused = set(cpus) - os.sched_getaffinity(0)
    if refused:  # the kernel takes the part that the cpuset allows, and says nothing
        os.sched_setaffinity(0, before)
        raise OSError(22, f"CPU {min(refused)} is offline or outside of our cpuset")
    return lambda: os.sched_setaffinity(0, before)


def _schedule(policy: int, level: int, nice: int | None) -> Callable[[], None]:
    policy_before, level_before = os.sched_getscheduler(0), os.sched_getparam(0)
    nice_before = os.getpriority(os.PRIO_PROCESS, 0)
    os.sched_setscheduler(0, policy, os.sched_param(level))

    def restore() -> None:
        os.sched_setscheduler(0, policy_before, level_before)
        if nice is not None:
            os.setpriority(os.PRIO_PROCESS, 0, nice_before)

    if nice is not None:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, nice)
        except OSError:
            restore()
            raise
    return restore


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def _lock_memory() -> Callable[[], None]:
    libc = _libc()
    with open("/proc/self/status") as status:
        locked = any(line.startswith("VmLck:") and line.split()[1] != "0" for line in status)
    _checked(libc.mlockall(_MCL_CURRENT | _MCL_FUTURE))
    return (lambda: None) if locked else (lambda: _restored(libc.munlockall()))


def _restored(result: int) -> None:
    _checked(result)


def _timer_slack(slack_ns: int) -> Callable[[], None]:
    libc = _libc()
    before = _checked(libc.prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0))
    _checked(libc.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(slack_ns), 0, 0, 0))
    return lambda: _restored(libc.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(before), 0, 0, 0))


def _io_class(name: str) -> Callable[[], None]:
    import platform

    numbers = {"x86_64": (252, 251), "aarch64": (31, 30)}.get(platform.machine())
    if numbers is None:
        raise OSError(38, f"ioprio_get is not known on {platform.machine()}")
    get, put = numbers
    libc = _libc()
    before = _checked(libc.syscall(get, _IOPRIO_WHO_PROCESS, 0))
    level = 0 if name == "idle" else 4
    _checked(
        libc.syscall(put, _IOPRIO_WHO_PROCESS, 0, (_IOPRIO_CLASSES[name] << _IOPRIO_CLASS_SHIFT) | level)
    )
    return lambda: _restored(libc.syscall(put, _IOPRIO_WHO_PROCESS, 0, before))
