"""Scheduler events of one run, from kernel tracepoints, `perf script` text or LTTng."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from latlab.errors import InputError, UnavailableError

TRACEPOINTS = (
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "sched:sched_process_wait",
    "sched:sched_stat_runtime",
)
FAULTS = "exceptions:page_fault_user"
# Bits of common_flags (include/linux/trace_events.h): a waker in an interrupt is whoever was interrupted.
IN_INTERRUPT = 0x08 | 0x10 | 0x40
_STATES = {"R": 0, "S": 1, "D": 2, "T": 4, "t": 8, "X": 16, "Z": 32, "P": 64, "I": 128}
DEAD = 16 | 32


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        kind: "switch", "waking", "fork", "exec", "exit", "wait", "runtime" or "fault".
        tid: the current thread (of "switch" the one that leaves; of "runtime" the one that ran).
        other: the thread that comes ("switch"), is woken ("waking"), is made ("fork") or waited for ("wait").
        value: the leaving thread's state ("switch": 0 is still runnable), ns ("runtime"), and for "waking"
            whether an interrupt did it.
    """

    time_ns: int
    kind: str
    tid: int
    other: int = 0
    value: int = 0
    cpu: int = 0


@dataclass(frozen=True)
class EventLog:
    """Events in order of time, with the threads' names, their processes where known, and what was lost."""

    events: tuple[Event, ...]
    names: Mapping[int, str] = field(default_factory=dict)
    lost: int = 0
    processes: Mapping[int, int] = field(default_factory=dict)


def from_tracer(events: Any) -> EventLog:
    """Turn what `latlab.system.kernel.tracing.Tracer` saw into events."""
    found: list[Event] = []
    switch = events["sched:sched_switch"]
    rows = zip(
        switch["time_ns"].tolist(), switch["prev_pid"].tolist(), switch["next_pid"].tolist(),
        switch["prev_state"].tolist(), switch["cpu"].tolist(), strict=True,
    )  # fmt: skip
    found += [
        Event(t, "switch", prev, following, state & 0xFF, cpu) for t, prev, following, state, cpu in rows
    ]
    waking = events["sched:sched_waking"]
    flags = waking["common_flags"].tolist() if "common_flags" in waking.columns else [0] * len(waking)
    rows = zip(
        waking["time_ns"].tolist(), waking["tid"].tolist(), waking["event_pid"].tolist(), flags,
        waking["cpu"].tolist(), strict=True,
    )  # fmt: skip
    found += [
        Event(t, "waking", waker, tid, int(bool(f & IN_INTERRUPT)), cpu) for t, waker, tid, f, cpu in rows
    ]
    fork = events["sched:sched_process_fork"]
    found += [
        Event(t, "fork", parent, child)
        for t, parent, child in zip(
            fork["time_ns"].tolist(), fork["tid"].tolist(), fork["child_pid"].tolist(), strict=True
        )
    ]
    for name, kind in (("exec", "exec"), ("exit", "exit")):
        table = events[f"sched:sched_process_{name}"]
        found += [
            Event(t, kind, tid)
            for t, tid in zip(table["time_ns"].tolist(), table["event_pid"].tolist(), strict=True)
        ]
    wait = events["sched:sched_process_wait"]
    found += [
        Event(t, "wait", tid, pid)
        for t, tid, pid in zip(
            wait["time_ns"].tolist(), wait["tid"].tolist(), wait["event_pid"].tolist(), strict=True
        )
    ]
    runtime = events["sched:sched_stat_runtime"]
    found += [
        Event(t, "runtime", pid, 0, ns)
        for t, pid, ns in zip(
            runtime["time_ns"].tolist(),
            runtime["event_pid"].tolist(),
            runtime["runtime"].tolist(),
            strict=True,
        )
    ]
    if FAULTS in events:
        table = events[FAULTS]
        found += [
            Event(t, "fault", tid)
            for t, tid in zip(table["time_ns"].tolist(), table["tid"].tolist(), strict=True)
        ]
    found.sort(key=lambda event: event.time_ns)
    return EventLog(tuple(found), dict(events.comm()), events.lost)


_PERF_FILE = b"PERFILE2"
_LINE = re.compile(
    r"^\s*(?P<comm>.+?)\s+(?:(?P<pid>-?\d+)/)?(?P<tid>-?\d+)\s+(?:\[(?P<cpu>\d+)\]\s+)?(?:[\w.]{4,5}\s+)?"
    r"(?P<seconds>\d+)\.(?P<fraction>\d{6,9}):\s+(?:\d+\s+)?(?:(?P<group>\w+):)?(?P<event>\w+):\s*(?P<rest>.*)$"
)
_PAIR = re.compile(r"(\w+)=(.*?)(?=\s+\w+=|\s*$)")
_LOST = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)?:? lost(?: samples)?:? (\d+)")
_SHORT_SWITCH = re.compile(r"^(.*):(-?\d+) \[-?\d+\] (\S+) ==> (.*):(-?\d+) \[-?\d+\]")
_SHORT_WAKE = re.compile(r"^(?:comm=)?(.*?)[: ](?:pid=)?(\d+) (?:\[|prio=)")


def from_perf_script(path: str | Path) -> EventLog:
    """Read what perf recorded: its file (perf.data), or the text that `perf script` prints of it.

    Of a `perf sched record`, or of a `perf record` of the tracepoints above.

    Raises:
        UnavailableError: it is perf's file, and perf isn't installed.
        InputError: there are no scheduler events in it.
    """
    try:
        with Path(path).open("rb") as file:
            begin = file.read(len(_PERF_FILE))
            text = "" if begin == _PERF_FILE else (begin + file.read()).decode("utf-8", errors="replace")
    except OSError as error:
        raise InputError(path, f"can't be read ({error.strerror})") from error
    if begin == _PERF_FILE:
        text = _printed(path)
    names: dict[int, str] = {0: "swapper"}
    processes: dict[int, int] = {}
    found = _in_order(
        path,
        _parse_script(text, names, processes),
        remedy="write it with: perf record -e 'sched:*' -a -- COMMAND && perf script > FILE",
    )
    return EventLog(found, names, sum(map(int, _LOST.findall(text))), processes)


def _in_order(path: str | Path, events: Iterable[Event], remedy: str) -> tuple[Event, ...]:
    """Events as they are parsed, by time.

    Raises:
        InputError: a record lacks a field, or no record is a switch.
    """
    try:
        found = sorted(events, key=lambda event: event.time_ns)
    except (KeyError, ValueError, IndexError) as error:
        raise InputError(path, f"holds a scheduler event without its fields ({error})") from error
    if not any(event.kind == "switch" for event in found):
        raise InputError(path, "holds no sched_switch events", remedy=remedy)
    return tuple(found)


def _printed(path: str | Path) -> str:
    """perf's file as its own text, with nanoseconds and the process of each thread."""
    import shutil
    import subprocess

    program = shutil.which("perf")
    if program is None:
        raise UnavailableError(
            "perf's files are read by perf, which isn't installed: apt-get install linux-perf"
        )
    fields = "comm,pid,tid,cpu,time,event,trace"
    for lost in (["--show-lost-events"], []):  # perf before 5.1 doesn't know it
        done = subprocess.run(
            [program, "script", "--ns", "-F", fields, *lost, "-i", str(path)],
            capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
        if not done.returncode or "unknown option" not in done.stderr:
            break
    if done.returncode:
        raise InputError(path, f"perf can't read it: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    return done.stdout


def _state(word: str) -> int:
    return sum({_STATES.get(part, 0) for part in word.rstrip("+").split("|")})


def _parse_script(text: str, names: dict[int, str], processes: dict[int, int]) -> Iterator[Event]:
    current: dict[int, int] = {}  # by CPU: who runs there
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        time_ns = int(match["seconds"]) * 1_000_000_000 + int(match["fraction"].ljust(9, "0"))
        tid, cpu, rest = int(match["tid"]), int(match["cpu"] or 0), match["rest"]
        if (
            tid < 0
        ):  # it has no number any more at its last switch: perf prints ":-1", and who it was is known
            tid = current.get(cpu, 0)
        else:
            names.setdefault(tid, match["comm"].strip())
            if match["pid"]:
                processes[tid] = int(match["pid"])
        event = match["event"].removeprefix("sched_")
        pairs = dict(_PAIR.findall(rest.replace("==>", "")))
        if event == "switch":
            short = _SHORT_SWITCH.match(rest)
            if short is not None:
                names[int(short[2])], names[int(short[5])] = short[1].strip(), short[4].strip()
                current[cpu] = int(short[5])
                yield Event(time_ns, "switch", int(short[2]), int(short[5]), _state(short[3]), cpu)
            elif "prev_pid" in pairs and "next_pid" in pairs:
                previous, following = int(pairs["prev_pid"]), int(pairs["next_pid"])
                names[previous] = pairs.get("prev_comm", "")
                names[following] = pairs.get("next_comm", "")
                current[cpu] = following
                yield Event(time_ns, "switch", previous, following, _state(pairs.get("prev_state", "S")), cpu)
        elif event in ("waking", "wakeup", "wakeup_new"):
            wake = _SHORT_WAKE.match(rest)
            woken = int(pairs["pid"]) if "pid" in pairs else int(wake[2]) if wake else None
            if woken is not None and event != "wakeup_new":
                # perf's text doesn't say whether an interrupt did it: the idle task can't have.
                yield Event(time_ns, "waking", tid, woken, int(tid == 0), cpu)
        elif event == "process_fork" and "child_pid" in pairs:
            names[int(pairs["child_pid"])] = pairs.get("child_comm", "")
            yield Event(time_ns, "fork", tid, int(pairs["child_pid"]), 0, cpu)
        elif event in ("process_exec", "process_exit"):
            yield Event(time_ns, event.removeprefix("process_"), int(pairs.get("pid", tid)), 0, 0, cpu)
        elif event == "process_wait" and "pid" in pairs:
            yield Event(time_ns, "wait", tid, int(pairs["pid"]), 0, cpu)
        elif event == "stat_runtime" and "runtime" in pairs:
            yield Event(time_ns, "runtime", int(pairs["pid"]), 0, int(pairs["runtime"].split()[0]), cpu)
        elif event.startswith("page_fault"):
            yield Event(time_ns, "fault", tid, 0, 0, cpu)


_CTF_LINE = re.compile(
    r"\[(?:(?P<h>\d+):(?P<m>\d+):)?(?P<s>\d+)\.(?P<ns>\d{9})\].*?"
    r"\b(?P<event>sched_\w+|exceptions_page_fault_user): (?P<rest>\{.*)"
)
# Also of an enumeration, ( "TASK_RUNNING" : container = 0 ), whose name is taken.
_CTF_FIELD = re.compile(r'(\w+) = (?:\( )?(?:"((?:[^"\\]|\\.)*)"|([^,:} ]+))')


def from_ctf(source: str | Path) -> EventLog:
    """Read an LTTng trace (or perf's CTF): the folder, through ``babeltrace2``, or the text that this prints.

    LTTng says on which CPU a thread was woken and not by whom: who ran there did it.

    Raises:
        UnavailableError: it is a folder, and babeltrace2 isn't installed.
        InputError: there are no scheduler events in it.
    """
    source = Path(source)
    if source.is_dir():
        import shutil
        import subprocess

        program = shutil.which("babeltrace2")
        if program is None:
            raise UnavailableError(
                "an LTTng trace is read by babeltrace2, which isn't installed: apt-get install babeltrace2"
            )
        done = subprocess.run(
            [program, "--clock-seconds", str(source)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise InputError(source, f"babeltrace2 can't read it: {(done.stderr.splitlines() or ['?'])[-1]}")
        text = done.stdout
    else:
        try:
            text = source.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise InputError(source, f"can't be read ({error.strerror})") from error
    names: dict[int, str] = {0: "swapper"}
    remedy = "record it with: lttng enable-event --kernel 'sched_*'"
    return EventLog(_in_order(source, _parse_ctf(text, names), remedy), names)


def _ctf_state(name: str) -> int:
    """Runnable, gone, or waiting for something."""
    return 0 if "RUNNING" in name else DEAD if "DEAD" in name or "ZOMBIE" in name else 1


def _parse_ctf(text: str, names: dict[int, str]) -> Iterator[Event]:
    current: dict[int, int] = {}  # by CPU: who runs there
    for line in text.splitlines():
        match = _CTF_LINE.match(line)
        if match is None:
            continue
        seconds = int(match["h"] or 0) * 3600 + int(match["m"] or 0) * 60 + int(match["s"])
        time_ns = seconds * 1_000_000_000 + int(match["ns"])
        fields = {key: quoted or plain for key, quoted, plain in _CTF_FIELD.findall(match["rest"])}
        for key in [key for key in fields if key.endswith("pid")]:
            # perf's own CTF (perf data convert) has the kernel's names, which call a thread's number pid.
            fields.setdefault(key.removesuffix("pid") + "tid", fields[key])
        event, cpu = match["event"].removeprefix("sched_"), int(fields.get("cpu_id", 0))
        running = int(fields.get("perf_tid", current.get(cpu, 0)))
        if event == "switch":
            leaving, coming = int(fields["prev_tid"]), int(fields["next_tid"])
            names[leaving], names[coming] = fields["prev_comm"], fields["next_comm"]
            state = fields["prev_state"]
            value = int(state) & 0xFF if state.isdigit() else _ctf_state(state)
            current[cpu] = coming
            yield Event(time_ns, "switch", leaving, coming, value, cpu)
        elif event == "waking":
            interrupt = running == 0 or bool(int(fields.get("common_flags", "0")) & IN_INTERRUPT)
            yield Event(time_ns, "waking", running, int(fields["tid"]), int(interrupt), cpu)
        elif event == "process_fork":
            child = int(fields["child_tid"])
            names[child] = fields.get("child_comm", "")
            yield Event(time_ns, "fork", int(fields["parent_tid"]), child, 0, cpu)
        elif event in ("process_exec", "process_exit"):
            yield Event(time_ns, event.removeprefix("process_"), int(fields["tid"]), 0, 0, cpu)
        elif event == "process_wait":
            yield Event(time_ns, "wait", running, int(fields["tid"]), 0, cpu)
        elif event == "stat_runtime":
            yield Event(time_ns, "runtime", int(fields["tid"]), 0, int(fields["runtime"]), cpu)
        elif event.endswith("page_fault_user"):
            yield Event(time_ns, "fault", running, 0, 0, cpu)
