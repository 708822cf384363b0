"""Application jitter: a task of the user's, repeated, and how long each repetition took."""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from latlab.errors import UsageError
from latlab.model.machine.jitter import CoreJitter, JitterResult

__all__ = ["measure_task", "resolve_task"]

Array = np.ndarray[Any, Any]


def resolve_task(task: str) -> Callable[[], object]:
    """A function from ``module:function``, or one that runs a command and waits for its end.

    Raises:
        UsageError: there is no such module, function or program.
    """
    module_name, colon, function_name = task.partition(":")
    if colon and all(part.isidentifier() for part in module_name.split(".")) and function_name.isidentifier():
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does: the user's module lies where they stand
        try:
            function = getattr(importlib.import_module(module_name), function_name)
        except ImportError as error:
            raise UsageError(f"the task's module can't be imported ({error})") from None
        except AttributeError:
            raise UsageError(f"module {module_name} has no function {function_name}") from None
        finally:
            sys.path.pop(0)
        if not callable(function):
            raise UsageError(f"{task} is not a function")
        return function  # type: ignore[no-any-return]
    try:
        words = shlex.split(task)
    except ValueError as error:
        raise UsageError(f"the task's command can't be read ({error})") from None
    if not words:
        raise UsageError("the task is empty", remedy="give --task 'command' or --task module:function")
    if shutil.which(words[0]) is None:
        raise UsageError(f"the task {words[0]} is not a program that can be run", remedy="give its path")

    def run() -> None:
        try:
            done = subprocess.run(words, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False)
        except OSError as error:
            raise UsageError(f"the task {words[0]} can't be run ({error.strerror})") from None
        if done.returncode:
            raise UsageError(
                f"the task failed with exit code {done.returncode}", remedy="run it by itself first"
            )

    return run


def measure_task(task: str, seconds: float, cpu: int) -> JitterResult:
    """Repeat a task for `seconds` on one CPU.

    The first repetition warms up and is not counted. Durations hold the reading of the clock, about 0.1 µs.

    Raises:
        UsageError: the task can't be run, or raises.
    """
    function = resolve_task(task)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    clock = time.perf_counter_ns
    starts: list[int] = []
    ends: list[int] = []
    try:
        try:
            function()
            begin = clock()
            deadline = begin + int(seconds * 1e9)
            at = begin
            while at < deadline or not ends:
                at = clock()
                starts.append(at)
                function()
                at = clock()
                ends.append(at)
        except UsageError:
            raise
        except Exception as error:
            raise UsageError(f"the task raised {type(error).__name__}: {error}") from error
    finally:
        os.sched_setaffinity(0, before)
    return JitterResult((_core(np.array(starts), np.array(ends), begin, cpu),), task=task)


def _core(starts: Array, ends: Array, begin: int, cpu: int) -> CoreJitter:
    each = ends - starts
    values, counts = np.unique(each, return_counts=True)
    threshold = int(np.sort(each)[(len(each) * 99 + 99) // 100 - 1])
    over = each > threshold
    wall = int(ends[-1] - begin)
    pure, gap = int(each[~over].sum()), int(each[over].sum())
    return CoreJitter(
        cpu=cpu,
        deltas=len(each),
        wall_ticks=wall,
        pure_ticks=pure,
        bridge_ticks=wall - pure - gap,
        gap_ticks=gap,
        paused_ticks=0,
        threshold_ticks=threshold,
        counter_hz=1e9,
        quantum_ticks=1,
        start_ns=begin,
        values_ticks=values,
        counts=counts,
        outliers=int(over.sum()),
        max_ticks=int(each.max()),
        gap_start_ns=starts[over].astype(float),
        gap_each_ns=each[over].astype(float),
        preempted=np.full(int(over.sum()), 2, np.uint8),
    )
