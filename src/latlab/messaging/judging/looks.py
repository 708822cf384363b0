"""What the parts of a run get of the CPUs, read from outside while it goes on: some 50 us a look."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from latlab.messaging.running.processes import Child, descendants, stopped, thread_name
from latlab.model.messaging.results import PartUse, Throttled
from latlab.system.quota import QuotaWatch, cpu_throttling

__all__ = ["Looks", "listener", "looks_at_loops", "parts_of_loops", "stolen_ns", "threads_of",
           "threads_of_library"]  # fmt: skip


def threads_of(*pids: int) -> list[str]:
    """The schedstat files of all threads of these processes and of what they started."""
    found = []
    for root in pids:
        for pid in descendants(root):
            with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/task") as tasks:
                found += [f"{task.path}/schedstat" for task in tasks]
    return found


class Looks:
    """Time on a CPU and time runnable without one, by part, look by look.

    Args:
        parts: by name, what gives the schedstat files of the part's threads at that moment.
        groups: by whose quota it is ("run", "broker"), the processes whose control groups are watched.
        stopped: whether a part stands still by a signal.
    """

    def __init__(
        self,
        parts: Mapping[str, Callable[[], Iterable[str]]],
        groups: Mapping[str, Iterable[int]],
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._parts, self._stopped = parts, stopped
        self._first: dict[str, dict[str, tuple[int, int]]] = {name: {} for name in parts}
        self._last: dict[str, dict[str, tuple[int, int]]] = {name: {} for name in parts}
        # Most runs have no quota; looking for one costs more than all the rest.
        self._groups = {
            name: (tuple(pids), QuotaWatch())
            for name, pids in groups.items()
            if any(cpu_throttling(pid=pid) is not None for pid in pids)
        }
        # A look is kept whole or not at all: a signal may end it anywhere.
        self._rows: list[tuple[int, ...]] = []
        self._begun = False
        self.got: dict[str, tuple[int, int]] = {}
        """By part: ns on a CPU and ns runnable without one, between the last two looks."""

    def take(self) -> None:
        """Look once."""
        row = [time.monotonic_ns()]
        for name, paths in self._parts.items():
            first, last = self._first[name], self._last[name]
            before = self._sums(name)
            for path in paths():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    ran, waited = (int(word) for word in Path(path).read_text().split()[:2])
                    # A thread that began after the first look used all of its time since then.
                    first.setdefault(path, (0, 0) if self._begun else (ran, waited))
                    last[path] = (ran, waited)
            ran, waited = self._sums(name)
            self.got[name] = (ran - before[0], waited - before[1])
            row.append(waited)
        self._begun = True
        longest = 0
        for pids, watch in self._groups.values():
            watch.look(pids)
            longest = max(longest, 0 if watch.worst is None else watch.worst.time_ns)
        self._rows.append((*row, longest, int(self._stopped())))

    def _sums(self, name: str) -> tuple[int, int]:
        """Time on a CPU and time runnable without one of all threads of a part since the first look."""
        first, last = self._first[name], self._last[name]
        ran = sum(last[path][0] - first[path][0] for path in last)
        return ran, sum(last[path][1] - first[path][1] for path in last)

    def parts(self, cpus: Mapping[str, int]) -> dict[str, PartUse]:
        """What each part used between the first and the last look; `cpus` are the cores they are held to."""
        found = {}
        for name in self._parts:
            used = [
                (self._last[name][path][0] - ran, self._last[name][path][1] - waited)
                for path, (ran, waited) in self._first[name].items()
            ]
            if used:
                found[name] = PartUse(
                    busiest_ns=max(ran for ran, _ in used),
                    waited_ns=sum(waited for _, waited in used),
                    cpu=cpus.get(name, -1),
                )
        return found

    def throttled(self) -> tuple[Throttled, ...]:
        """What quotas did meanwhile; of one group that holds both, it is said of the run."""
        found: dict[str, Throttled] = {}
        for name, (_, watch) in self._groups.items():
            if (worst := watch.worst) is not None:
                found.setdefault(worst.group, Throttled(name, worst.quota, worst.count, worst.time_ns))
        return tuple(found.values())

    def since(self, start_ns: int) -> dict[str, tuple[int, ...]]:
        """The looks, with times from `start_ns` on CLOCK_MONOTONIC; the rest counts from the first look."""
        names = ("at_ns", *self._parts, "throttled", "stopped")
        rows = {name: tuple(row[i] for row in self._rows) for i, name in enumerate(names)}
        return {**rows, "at_ns": tuple(at - start_ns for at in rows["at_ns"])}


def threads_of_library(name: str, before: Collection[str]) -> Callable[[], list[str]] | None:
    """What gives the schedstat files of the threads by which a library carries messages, in this process.

    Args:
        name: "zeromq" or "nats"; others have no threads, which is None.
        before: the process's threads before the library began.
    """
    if name == "zeromq":
        return lambda: [p for p in threads_of(os.getpid()) if thread_name(p).startswith("ZMQ")]
    if name == "nats":  # its threads have no names of their own
        return lambda: [p for p in threads_of(os.getpid()) if p not in before]
    return None


def looks_at_loops(
    run: Any, child: Child | None, *, library: Callable[[], list[str]] | None, attached: int | None = None
) -> Looks:
    """Looks at the native loops' threads, a broker of ours, and the threads of a library between them.

    Args:
        run: of the compiled core.
        child: the broker; None where there is none, or on a thread of ours.
        attached: the process of somebody else's broker, where it runs here.
        library: what gives the schedstat files of the threads of a library that carries the messages.
    """

    def loop(which: int) -> list[str]:
        number = run.threads()[which]
        return [f"/proc/{os.getpid()}/task/{number}/schedstat"] if number else []

    parts: dict[str, Callable[[], list[str]]] = {"sender": lambda: loop(0), "receiver": lambda: loop(1)}
    groups: dict[str, tuple[int, ...]] = {"run": (os.getpid(),)}
    if child is not None:
        parts["broker"] = lambda: threads_of(child.pid)
        groups["broker"] = (child.pid,)
    elif attached is not None:
        parts["broker"] = lambda: threads_of(attached)
        groups["broker"] = (attached,)
    if library is not None:
        parts["library"] = lambda: [p for p in library() if p not in (*loop(0), *loop(1))]
    broker = attached if child is None else child.pid
    return Looks(parts, groups, lambda: broker is not None and stopped(broker))


def parts_of_loops(
    looks: Looks, run: Any, broker_ns: int | None, cpus: tuple[int, int, int]
) -> dict[str, PartUse]:
    """What the parts got: the loops by their own exact clocks, and a broker on a thread of ours, too."""
    held = dict(zip(("sender", "broker", "receiver"), cpus, strict=True))
    found = looks.parts(held)
    for name, side in (("sender", run.sender()), ("receiver", run.receiver())):
        if side["cpu_ns"]:
            found[name] = PartUse(int(side["cpu_ns"]), int(side["waited_ns"]), held[name])
        else:
            found.pop(name, None)  # a ping-pong has one thread, which is the sender's
    if "broker" not in found and broker_ns is not None:
        found["broker"] = PartUse(broker_ns, 0, held["broker"])
    return found


def stolen_ns() -> int:
    """Time that the hypervisor had this machine's CPUs for others, since it booted (in steps of 10 ms)."""
    try:
        words = Path("/proc/stat").read_text().splitlines()[0].split()
        return int(words[8]) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))
    except (OSError, IndexError):
        return 0


def listener(host: str, port: int | None = None) -> int | None:
    """The process of this machine that listens there; None where it can't be known, or is only a relay.

    Args:
        host: name or address; the path of a Unix socket, or its @NAME, without a port.
        port: of TCP, or of UDP.
    """
    import ipaddress
    import socket

    import psutil

    try:
        if port is None:
            return next((c.pid for c in psutil.net_connections("unix") if c.laddr == host and c.pid), None)
        addresses = {str(a[4][0]) for a in socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP)}
        ours = {a.address.split("%")[0] for each in psutil.net_if_addrs().values() for a in each}
        if not any(a in ours or ipaddress.ip_address(a).is_loopback for a in addresses):
            return None
        for connection in psutil.net_connections("inet"):
            local = connection.laddr
            if connection.raddr or connection.pid is None or not local or local.port != port:
                continue
            if local.ip in addresses or local.ip in ("0.0.0.0", "::"):
                # Docker's relay listens for a server in another namespace: its CPU time is not the server's.
                name = psutil.Process(connection.pid).name()
                return None if name.startswith("docker-proxy") else int(connection.pid)
    except (OSError, ValueError, psutil.Error):
        return None
    return None
