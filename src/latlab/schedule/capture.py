"""Captures the schedule of a command, or of running processes, with their children.

Over 400 lines: the two ways to begin, and who belongs to what is captured, which only its events tell.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from latlab.errors import InputError, UsageError
from latlab.model.schedule import Schedule
from latlab.schedule.code.sampling import Sampling
from latlab.schedule.collect import FAULTS, LIVES, PAYLOAD_BYTES, SOCKETS, Collector
from latlab.schedule.derive import Facts, derive, kin_of
from latlab.schedule.looks import Looks
from latlab.schedule.pipes import PIPES, inherits_pipes, joined, pipe_transfers, pipes_of
from latlab.schedule.sockets import local_sockets
from latlab.schedule.tree import (
    Member,
    alive,
    command_of,
    described,
    descriptors_of,
    leads,
    member,
    threads_of,
    tree_of,
)
from latlab.system.cpus import ahead_of_others
from latlab.system.kernel.samples import Events, name_of

__all__ = ["Transfers", "capture_command", "capture_pids"]

_GRACE_S = 2.0  # from SIGTERM to SIGKILL
_LEAST_WAKES = 10  # of our threads, before another program counts as one that ours talks to
_SENT_MOST = (
    0.3  # of the packets that woke our threads were delivered while one that has gone ran: it sent them
)
_MOST_HOPS = 3  # from the program to another one that it waits for through others
_MOST_PEERS = 16
_MOST_EVENTS = 3_000_000  # of a program's threads, of all of which a schedule is made
_SETTLE_S = 0.01
_ASK_S, _ASK_PIDS_S = 0.01, 0.1
_LATE_S = 0.2  # after its time, who is woken among hundreds that want the CPUs

Stop = Callable[[], bool]


@dataclass(frozen=True)
class Transfers:
    """What went in and out of the observed processes' sockets.

    Attributes:
        sent, received: one row a call: `time_ns` at its end, `pid`, `tid`, `sk` (the socket), `ret` (bytes),
            `argument` (the descriptor), `payload` (the first bytes, of which `captured` are the call's).
        ready: one row an arrival in a socket's receive queue: `time_ns`, `skaddr` (the socket).
        descriptors: (process, descriptor) -> what it was.
        ends: inode of a socket -> its own address, and whether somebody listens there.
        pids: the observed processes.
        lost: events that found no room.
        lives: one row a TCP socket that begins or ends: `time_ns`, `skaddr`, `oldstate`, `newstate`, `sport`;
            as the kernel numbers states (include/net/tcp_states.h). Empty where it doesn't tell.
        faults: thread -> when a page was missing to it, in order.
        sampled_share: of the sockets, those of which this tells; what others did is left out.
    """

    sent: Mapping[str, np.ndarray[Any, Any]]
    received: Mapping[str, np.ndarray[Any, Any]]
    ready: Mapping[str, np.ndarray[Any, Any]]
    descriptors: Mapping[tuple[int, int], str]
    ends: Mapping[int, tuple[str, bool]]
    pids: frozenset[int]
    lost: int
    sampled_share: float = 1.0
    lives: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    faults: Mapping[int, np.ndarray[Any, Any]] = field(default_factory=dict)


def capture_command(
    command: Sequence[str],
    seconds: float | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    output: int | None = None,
    follow_peers: bool = True,
    method: str = "auto",
    stacks: bool = True,
    transfers: Callable[[Transfers], None] | None = None,
    beside: Callable[[], object] = lambda: None,
    over: Callable[[], None] = lambda: None,
) -> Schedule:
    """Run a command and capture what its threads do until it ends, or `seconds` are over.

    When the time is over, all of its processes are told to end, and killed when they don't.

    Args:
        command: the program and its arguments.
        environment: of the command; ours when None.
        output: a descriptor for its output; ours when None.
        follow_peers: follow other programs on this machine that wake its threads.
        method: "bpf", "perf", "auto" for the first of them that is allowed, or "proc", which needs no rights.
        stacks: sample where in the code its threads run and block.
        transfers: given what went in and out of the processes' sockets, which is collected then.
        beside: called many times a second while it runs.
        over: called when the command has ended, or its time is over, before it is told to end.

    Raises:
        UsageError: there is no such command.
        UnavailableError: no rights to trace.
    """
    if not command or shutil.which(command[0]) is None:
        raise UsageError(
            f"unknown command '{command[0] if command else ''}'", remedy="give a program on the PATH"
        )
    sampling = Sampling(stacks and method != "proc")
    piped = transfers is not None and method != "proc" and inherits_pipes(output)
    collector = _collector(method, sampling, sockets=transfers is not None, pipes=piped)
    with collector, sampling:
        process = subprocess.Popen(list(command), stdout=output, env=environment, start_new_session=True)
        began = time.monotonic_ns()
        sampling.follow([process.pid])
        own = _own(process.pid)
        collector.follow([process.pid])
        with _Punctual() as punctual:
            try:
                code = _wait(process, seconds, beside, punctual)
            finally:
                ended = time.monotonic_ns()
                over()
                _end(process, collector)
            sockets = local_sockets()
            time.sleep(_SETTLE_S)
    if isinstance(collector, Looks):
        return collector.schedule(began, ended, code)
    collector.members.setdefault(process.pid, own)
    events = collector.events()
    began = _first_run(events, process.pid, began)
    if transfers is not None:
        transfers(_transfers(collector, events))
    schedule = _schedule(collector, events, dict(sockets), began, ended, code, follow_peers)
    return sampling.joined_to(schedule)


def capture_pids(
    pids: Sequence[int],
    seconds: float,
    *,
    follow_peers: bool = True,
    method: str = "auto",
    stop: Stop = lambda: False,
    stacks: bool = True,
    transfers: Callable[[Transfers], None] | None = None,
) -> Schedule:
    """Capture what the threads of running processes and their children do, and leave them as they are.

    Args:
        stop: asked several times a second; True ends the capture early.
        stacks: sample where in the code their threads run and block.
        transfers: given what went in and out of their sockets, which is collected then.

    Raises:
        InputError: no such process.
        UnavailableError: no rights to trace.
    """
    for pid in pids:
        if not threads_of(pid):
            what = "there is no such process, or it has ended"
            raise InputError(f"process {pid}", what, remedy="see `ps -e`")
    sampling = Sampling(stacks and method != "proc")
    piped = transfers is not None and method != "proc" and bool(pipes_of(tree_of(pids)))
    collector = _collector(method, sampling, sockets=transfers is not None, pipes=piped)
    with collector, sampling:
        sampling.follow(pids)
        collector.follow(pids)
        began = time.monotonic_ns()
        with _Punctual() as punctual:
            while time.monotonic_ns() - began < seconds * 1e9 and not stop():
                if not any(alive(pid) for pid in pids):  # one that has ended may wait for its parent yet
                    break
                punctual.sleep(min(_ASK_PIDS_S, max(0.0, seconds - (time.monotonic_ns() - began) / 1e9)))
            ended = time.monotonic_ns()
            sockets = local_sockets()
            time.sleep(_SETTLE_S)
    if isinstance(collector, Looks):
        return collector.schedule(began, ended, None)
    events = collector.events()
    if transfers is not None:
        transfers(_transfers(collector, events))
    schedule = _schedule(collector, events, dict(sockets), began, ended, None, follow_peers)
    return sampling.joined_to(schedule)


def _collector(method: str, sampling: Sampling, *, sockets: bool, pipes: bool) -> Collector | Looks:
    """What watches the threads: the kernel's events, or looks at /proc."""
    if method == "proc":
        return Looks()
    return Collector(method, sockets=sockets, pipes=pipes, stacks=sampling.sampler)


def _transfers(collector: Collector, events: Events) -> Transfers:
    sent, received, ready = (
        collector.sampled(events[name], key)
        for name, key in zip(SOCKETS, ("sk", "sk", "skaddr"), strict=True)
    )
    if collector.with_pipes:
        tables = {name: events[name].columns for name in PIPES}
        piped = pipe_transfers(tables, collector.descriptors.latest, collector.pids, PAYLOAD_BYTES)
        sent, received, ready = (
            joined(one, other) for one, other in zip((sent, received, ready), piped, strict=True)
        )
    lives = collector.sampled(events[LIVES], "skaddr") if LIVES in events else {}
    return Transfers(
        sent, received, ready, dict(collector.descriptors.latest), dict(collector.ends), collector.pids,
        events.lost, collector.sampled_share, lives, _faults(events),
    )  # fmt: skip


def _faults(events: Events) -> dict[int, np.ndarray[Any, Any]]:
    tables = [events[name] for name in FAULTS if name in events]
    if not tables:
        return {}
    tids, times = (np.concatenate([one[key] for one in tables]) for key in ("tid", "time_ns"))
    order = np.lexsort((times, tids))
    ids, starts = np.unique(tids[order], return_index=True)
    parts = np.split(times[order], starts[1:]) if len(ids) else []
    return dict(zip(ids.tolist(), parts, strict=True))


def _own(pid: int) -> Member:
    found = member(pid, pid)
    return found if found is not None else Member(pid, pid, str(pid))


class _Punctual:
    """Who sleeps until an observation's end; one who wakes late goes ahead of the program from then on.

    Not before: what latlab does meanwhile would keep the program from a CPU in one piece.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._late = False

    def __enter__(self) -> _Punctual:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def sleep(self, seconds: float, wait: Callable[[float], object] = time.sleep) -> None:
        """For so long, or until `wait` comes back."""
        began = time.monotonic()
        try:
            wait(seconds)
        finally:
            if not self._late and time.monotonic() - began > seconds + _LATE_S:
                self._late = True
                self._stack.enter_context(ahead_of_others())


def _wait(
    process: subprocess.Popen[bytes],
    seconds: float | None,
    beside: Callable[[], object],
    punctual: _Punctual,
) -> int | None:
    until = None if seconds is None else time.monotonic() + seconds
    while until is None or time.monotonic() < until:
        left = _ASK_S if until is None else min(_ASK_S, max(0.0, until - time.monotonic()))
        try:
            punctual.sleep(left, process.wait)
        except subprocess.TimeoutExpired:
            beside()
        else:
            return process.returncode
    return None


def _end(process: subprocess.Popen[bytes], collector: Collector | Looks) -> None:
    """End what the command left behind, but for what has been there before."""
    known = [process.pid, *(pid for pid in collector.pids if leads(pid))]
    still = [pid for pid in tree_of(known) if pid != os.getpid() and leads(pid)]
    for number, patience in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
        for pid in still:
            _send(pid, number)
        until = time.monotonic() + patience
        while still and time.monotonic() < until:
            process.poll()
            still = [pid for pid in still if alive(pid)]
            time.sleep(0.01)
        if not still:
            break
    process.poll()


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
        os.kill(pid, signal.SIGCONT)  # a stopped one can't end
    except (ProcessLookupError, PermissionError):
        return  # it has ended by itself, or is another user's: then it isn't ours to end


def _first_run(events: Events, pid: int, otherwise: int) -> int:
    forks = events["sched:sched_process_fork"]
    rows = np.flatnonzero(forks["child_pid"] == pid)
    return int(forks["time_ns"][rows[0]]) if len(rows) else otherwise


def _schedule(
    collector: Collector,
    events: Events,
    sockets: dict[int, str],
    began: int,
    ended: int,
    code: int | None,
    follow_peers: bool,
) -> Schedule:
    members = dict(collector.members)
    commands = dict(collector.commands)
    peers: frozenset[int] = frozenset()
    observers = _observers(events, members)
    if follow_peers:
        # The kernel makes threads of its own in a process, such as io_uring's, and reports no birth of them.
        for pid in _peers(events, members, began, ended, sockets) & {one.pid for one in members.values()}:
            for one in (*threads_of(pid), *gone(events, pid)):
                members.setdefault(one.tid, one)
        for _ in range(_MOST_HOPS):
            # Whom a server asks in its turn may be what all wait for.
            new = _peers(events, members, began, ended, sockets) - observers - peers
            new -= {one.pid for one in members.values()}
            if not new or len(peers | new) > _MOST_PEERS:
                break
            peers |= new
            for pid in new:
                commands.setdefault(pid, command_of(pid))
                for one in threads_of(pid) or gone(events, pid):
                    members.setdefault(one.tid, one)
                    commands[pid] = commands[pid] or (one.name,)
    facts = Facts(
        members, commands, dict(collector.descriptors.latest), sockets, peers, observers,
        collector.programs(commands), collector.descriptors.changed(),
    )  # fmt: skip
    # Requests are looked for in all of the time; by the threads alone the last of it tells enough.
    served = any(len(events[name]) for name in SOCKETS[:2] if name in events)
    most = None if served else _MOST_EVENTS
    schedule = derive(events, facts, began, ended, collector.method, code, most=most)
    schedule = replace(schedule, disk_limit=collector.quotas.disk, dropped=collector.drops.dropped)
    worst = collector.quotas.worst
    if worst is None:
        return schedule
    part = (schedule.ended_ns - schedule.began_ns) / max(1, ended - began)
    return replace(schedule, quota=worst.quota, throttled_ns=round(part * worst.time_ns))


def _observers(events: Events, members: Mapping[int, Member]) -> frozenset[int]:
    """This process, and the reader of Python stacks that it has started."""
    switches = events["sched:sched_switch"]
    readers = np.unique(switches["pid"][switches["prev_comm"] == b"py-spy"]).tolist()
    return frozenset((os.getpid(), *readers)) - {one.pid for one in members.values()}


def _peers(
    events: Events, members: Mapping[int, Member], began: int, ended: int, sockets: Mapping[int, str]
) -> frozenset[int]:
    """Processes of other programs that wake our threads often, while they run themselves."""
    from latlab.model.schedule import Source
    from latlab.schedule.context import sources_of

    ours = np.fromiter(kin_of(events, members), np.int64)
    wakings = events["sched:sched_waking"]
    woken = wakings["event_pid"] if "event_pid" in wakings.columns else wakings["pid"]
    inside = (wakings["time_ns"] >= began) & (wakings["time_ns"] <= ended)
    rows = np.flatnonzero(
        inside & np.isin(woken, ours) & ~np.isin(wakings["tid"], ours) & (wakings["tid"] != 0)
    )
    source = sources_of(events, rows)
    processes: Any = wakings.columns["pid"] if "event_pid" in wakings.columns else wakings["tid"]
    by_itself = Counter(processes[rows[source == Source.THREAD]].tolist())
    by_packets = Counter(processes[rows[source == Source.NETWORK]].tolist())
    own = {one.pid for one in members.values()}
    found = {
        pid
        for pid in by_itself.keys() | by_packets.keys()
        if by_itself[pid] >= _LEAST_WAKES
        or (
            by_itself[pid] + by_packets[pid] >= _LEAST_WAKES
            and _sends(pid, by_packets[pid] / by_packets.total(), sockets)
        )
    }
    return frozenset(
        pid
        for pid in found
        if pid not in (os.getpid(), 1)
        and (pid in own or command_of(pid) or not Path(f"/proc/{pid}").exists())
    )


def _sends(pid: int, part: float, sockets: Mapping[int, str]) -> bool:
    """Whether a process may have sent the packets that were delivered while it ran.

    Those that come from outside are delivered on whatever runs at that moment. Of who has gone its part of
    them tells.

    Args:
        part: of all packets that woke the program's threads.
        sockets: what they are, by their inodes.
    """
    if not Path(f"/proc/{pid}").exists():
        return part >= _SENT_MOST
    links = (described(pid, number) for number in descriptors_of(pid))
    inodes = (link[8:-1] for link in links if link.startswith("socket:["))
    return any(sockets.get(int(inode), "unix").split(" ")[0] != "unix" for inode in inodes)


def gone(events: Events, pid: int) -> list[Member]:
    """The threads of a process that has ended, as a server's worker does with its connection."""
    switches = events["sched:sched_switch"]
    mine = switches["pid"] == pid
    names = dict(zip(switches["tid"][mine].tolist(), switches["prev_comm"][mine].tolist(), strict=True))
    return [Member(tid, pid, name_of(name)) for tid, name in sorted(names.items())]
