"""The interpreter's own frames of Python programs, read from outside by py-spy (https://github.com/benfred/py-spy).

It never stops the program (``--nonblocking``). Two of its recordings run side by side: of threads that run,
and of all threads."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from latlab.model.schedule import Frame
from latlab.system.scratch import scratch

__all__ = ["PythonSamples", "PythonStacks", "Seen", "parse_chrome_trace", "process_tree"]

_HZ = 50
_SOON = 0.1  # seconds between two looks for new interpreters, at first
_LATER = 1.0
_STOP_SECONDS = 10.0
_LONGEST_S = 600  # a recorder whose latlab was killed ends by itself
_THREAD = re.compile(r"thread \((\d+)\)")

#: Of one thread: when (ns of CLOCK_MONOTONIC, sorted), and the number of the stack.
Seen = tuple[np.ndarray[Any, Any], list[int]]


@dataclass(frozen=True)
class PythonSamples:
    """What py-spy saw.

    Attributes:
        running: by tid, of threads that ran. everything: of all threads.
        stacks: the frames, innermost first.
    """

    running: Mapping[int, Seen]
    everything: Mapping[int, Seen]
    stacks: Sequence[tuple[Frame, ...]]


def find_py_spy() -> str | None:
    """Its program: in our own environment or on the path."""
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if beside.exists() else shutil.which("py-spy")


def runs_python(pid: int, proc: Path = Path("/proc")) -> bool:
    """Whether a process is a CPython interpreter."""
    try:
        if re.match(r"python[\d.]*$", (proc / str(pid) / "exe").readlink().name):
            return True
        return "libpython" in (proc / str(pid) / "maps").read_text(errors="replace")
    except OSError:
        return False


class PythonStacks:
    """Runs py-spy on every interpreter among processes and their children."""

    def __init__(self, hz: int = _HZ) -> None:
        self._program = find_py_spy()
        self._hz = hz
        self._roots: list[int] = []
        self._recorders: list[tuple[bool, int, subprocess.Popen[bytes], Path]] = []
        self._attached: set[int] = set()
        self._folder = ""
        self._folders = ExitStack()
        self._texts: dict[Path, str] = {}
        self._end = threading.Event()
        self._watcher: threading.Thread | None = None
        self.notes: tuple[str, ...] = ()

    def start(self, pids: Iterable[int]) -> None:
        """Look for interpreters from now on."""
        self._roots = list(pids)
        self._watcher = threading.Thread(target=self._watch, name="latlab-python", daemon=True)
        self._watcher.start()

    def follow(self, pid: int) -> None:
        """Look at one more process."""
        self._roots.append(pid)

    def stop(self) -> None:
        """End every recording, and take what it holds: nothing of it stays in a file."""
        self._end.set()
        if self._watcher is not None:
            self._watcher.join()
        for _, _, _, path in self._recorders:
            try:
                self._texts[path] = path.read_text()
            except OSError:
                continue  # the program ended before py-spy had seen anything
        self._folders.close()
        self._folder = ""

    def samples(self) -> PythonSamples:
        """What was recorded, after `stop`."""
        running: dict[int, list[tuple[int, int]]] = {}
        everything: dict[int, list[tuple[int, int]]] = {}
        stacks: dict[tuple[Frame, ...], int] = {}
        for idle, began_ns, _, path in self._recorders:
            try:
                events = json.loads(self._texts.pop(path, ""))
            except ValueError:
                continue
            into = everything if idle else running
            parsed = parse_chrome_trace(events, 1_000_000 // self._hz)
            number_of: dict[int, int] = {}  # by the object: to hash every frame takes long
            for tid, time_us, stack in parsed:
                number = number_of.get(id(stack))
                if number is None:
                    number = number_of[id(stack)] = stacks.setdefault(stack, len(stacks))
                into.setdefault(tid, []).append((began_ns + time_us * 1000, number))
        return PythonSamples(_columns(running), _columns(everything), list(stacks))

    def _watch(self) -> None:
        began = time.monotonic()
        while not self._end.is_set():
            for pid in process_tree(self._roots):
                if pid not in self._attached and runs_python(pid):
                    self._attached.add(pid)
                    self._attach(pid)
            self._end.wait(_SOON if time.monotonic() - began < 3 else _LATER)
        # In this thread, which has started them: the kernel takes its end for that of their parent.
        for _, _, process, _ in self._recorders:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for _, _, process, _ in self._recorders:
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _attach(self, pid: int) -> None:
        if self._program is None:
            self.notes = ("the frames of Python are not read: pip install 'latlab[python]'",)
            return
        if not self._folder:
            self._folder = str(self._folders.enter_context(scratch("python")))
        for idle in (False, True):
            path = Path(self._folder) / f"{pid}-{int(idle)}.json"
            command = [
                *_ends_with_us(),
                self._program,
                "record",
                "--nonblocking",
                "--threads",
                "--format",
                "chrometrace",
            ]
            command += ["--rate", str(self._hz), "--duration", str(_LONGEST_S), "--output", str(path)]
            command += ["--pid", str(pid), *(["--idle"] if idle else [])]
            began_ns = time.monotonic_ns()
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a ^C is ours to pass on
            )
            self._recorders.append((idle, began_ns, process, path))


def _ends_with_us() -> list[str]:
    """What a command begins with whose process the kernel is to end when we are killed (prctl(2))."""
    program = shutil.which("setpriv")  # util-linux; without it, it ends by itself after a while
    return [program, "--pdeathsig", "KILL"] if program is not None else []


def process_tree(roots: Iterable[int]) -> list[int]:
    """Processes and all below them that live now."""
    found: list[int] = []
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid in found:
            continue
        found.append(pid)
        try:
            tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
        except OSError:
            continue
        for task in tasks:
            try:
                with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                    waiting.extend(int(word) for word in file.read().split())
            except OSError:
                continue
    return found


def _columns(
    samples: Mapping[int, list[tuple[int, int]]],
) -> dict[int, Seen]:
    out = {}
    for tid, pairs in samples.items():
        pairs.sort()
        out[tid] = (np.array([pair[0] for pair in pairs], np.int64), [pair[1] for pair in pairs])
    return out


def parse_chrome_trace(
    events: Sequence[Mapping[str, Any]], step_us: int
) -> list[tuple[int, int, tuple[Frame, ...]]]:
    """py-spy's trace events (begin and end of frames) as samples.

    Returns:
        (tid, microseconds since the recording began, frames innermost first); a stack that lasts over several
        steps is a sample at each.
    """
    # A thread is told by its process and Python's own number; the kernel's number stands in the first name.
    # Frames by their numbers, so that an equal stack is found by numbers and is the same object.
    open_frames: dict[tuple[int, int], list[int]] = {}
    numbers: dict[tuple[str, str, int], int] = {}
    frames: list[Frame] = []
    stacks: dict[tuple[int, ...], tuple[Frame, ...]] = {}
    since: dict[tuple[int, int], int] = {}
    tids: dict[tuple[int, int], int] = {}
    samples: list[tuple[int, int, tuple[Frame, ...]]] = []

    def close(key: tuple[int, int], now: int) -> None:
        opened = open_frames.get(key)
        begin = since.get(key, now)
        if opened and key in tids and now > begin:
            path = tuple(opened)
            stack = stacks.get(path)
            if stack is None:
                stack = stacks[path] = tuple(frames[number] for number in reversed(path))
            samples.extend((tids[key], at, stack) for at in range(begin, now, step_us))
        since[key] = now

    for event in events:
        key = (event["pid"], event["tid"])
        close(key, event["ts"])
        if event["ph"] == "B":
            thread = _THREAD.match(event["name"]) if not open_frames.get(key) else None
            if thread is not None and not event["args"].get("filename"):
                tids[key] = int(thread[1])
                open_frames[key] = []
                continue
            arguments = event["args"]
            place = (event["name"], arguments.get("filename") or "", int(arguments.get("line") or 0))
            number = numbers.setdefault(place, len(frames))
            if number == len(frames):
                frames.append(Frame(*place))
            open_frames.setdefault(key, []).append(number)
        elif event["ph"] == "E" and open_frames.get(key):
            open_frames[key].pop()
    return samples
