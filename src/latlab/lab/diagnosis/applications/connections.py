"""What connections a program's processes hold: who accepts some, who asks whom, and waits for an answer."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from latlab.model.schedule import Schedule, Source, State, Wait
from latlab.words import printable

if TYPE_CHECKING:
    from latlab.schedule import Transfers

__all__ = ["Asked", "asked_of", "behind", "listening", "servers", "whom"]

_MOSTLY = 0.5  # of the time that a client's event loop waits with a time-out


@dataclass(frozen=True)
class Asked:
    """For whom clients that look up with a time-out wait.

    Attributes:
        answers: processes that wait for an answer, or for the rest of one.
        paces: processes that wait for a time of their own: then they go on, without that anything came.
    """

    answers: frozenset[int] = frozenset()
    paces: frozenset[int] = frozenset()


def asked_of(schedule: Schedule, moved: Transfers, clients: Iterable[int]) -> Asked:
    """What ends the waits of these processes that only their time-outs end: an arrival, or they themselves.

    Who sends next, or doesn't read what has arrived, waits for a time of its own. To whom something comes
    next, or who has sent last and gets nothing more, waits for that.
    """
    answers, paces = set(), set()
    rows = schedule.intervals
    looks = (rows["state"] == State.BLOCKED) & (rows["wait"] == Wait.TIMER)
    looks &= (rows["source"] == Source.TIMER) & (rows["object"] != -1)
    owner = np.array([thread.pid for thread in schedule.threads], np.int64)
    for pid in clients:
        happened = _happened(moved, pid)
        mine = np.isin(rows["thread"], np.flatnonzero(owner == pid))
        waits = rows[looks & mine]
        if not len(waits):
            # Nothing came for all of the time, to one that had sent something before it began to wait.
            last = happened["what"][-1:] == _SENT
            waited = rows[mine & (rows["state"] == State.BLOCKED) & (rows["wait"] != Wait.FUTEX)]
            if last.any() and len(waited) and waited["end"].max() >= schedule.ended_ns:
                answers.add(pid)
            continue
        spent = {_ARRIVED: 0, _SENT: 0}
        time = happened["time"]
        for begin, end in zip(waits["begin"].tolist(), waits["end"].tolist(), strict=True):
            before, after = (int(np.searchsorted(time, at)) for at in (begin, end))
            following = happened["what"][after] if after < len(time) else -1
            latest = happened["what"][before - 1] if before else -1
            missed = latest == _ARRIVED or (happened["what"][before:after] == _ARRIVED).any()
            if missed or following in (_SENT, _READ):
                spent[_SENT] += end - begin
            elif following == _ARRIVED or latest == _SENT:
                spent[_ARRIVED] += end - begin
        whole = int((waits["end"] - waits["begin"]).sum())
        if spent[_SENT] >= _MOSTLY * whole:
            paces.add(pid)
        elif spent[_ARRIVED] >= _MOSTLY * whole:
            answers.add(pid)
    return Asked(frozenset(answers), frozenset(paces))


_SENT, _READ, _ARRIVED = range(3)


def _happened(moved: Transfers, pid: int) -> np.ndarray[Any, Any]:
    """What a process sent and read, and what arrived for it, in the order of time."""
    parts, sockets = [], []
    others = [
        number for (one, number), link in moved.descriptors.items()
        if one == pid and not link.startswith("socket:")
    ]  # fmt: skip
    for what, table in ((_SENT, moved.sent), (_READ, moved.received)):
        rows = np.flatnonzero((table["pid"] == pid) & (table["ret"].astype(np.int64) > 0))
        if rows.size:  # (a table without any call has no columns of calls)
            rows = rows[~np.isin(table["argument"][rows], others)]
        sockets.append(table["sk"][rows])
        parts.append((table["time_ns"][rows], what))
    arrived = np.isin(moved.ready["skaddr"], np.concatenate(sockets))
    parts.append((moved.ready["time_ns"][arrived], _ARRIVED))
    found = np.empty(sum(len(time) for time, _ in parts), [("time", np.int64), ("what", np.int8)])
    found["time"] = np.concatenate([time for time, _ in parts]).astype(np.int64)
    found["what"] = np.concatenate([np.full(len(time), what) for time, what in parts])
    return np.sort(found, order=["time", "what"])


def servers(observed: Collection[int]) -> dict[object, str]:
    """Port, or file, of a door -> name of the process that holds it, of programs that were not observed."""
    import psutil

    found: dict[object, str] = {}
    try:
        connections = psutil.net_connections(kind="all")
    except psutil.Error:  # another user's are not to be seen
        return found
    for one in connections:
        listens = one.status == psutil.CONN_LISTEN or (one.family == socket.AF_UNIX and one.laddr)
        if not listens or not one.pid or one.pid in observed:
            continue
        try:
            found.setdefault(getattr(one.laddr, "port", one.laddr), printable(psutil.Process(one.pid).name()))
        except psutil.Error:
            continue  # it has ended
    return found


def whom(asks: Mapping[int, Set[object]], pids: Iterable[int]) -> dict[int, str]:
    """The program on this machine that each of these processes asks, where it asks one only."""
    named = servers(frozenset())
    found = {}
    for pid in pids:
        names = {named.get(door, "") for door in asks.get(pid, ())}
        if len(names) == 1 and "" not in names:
            (found[pid],) = names
    return found


def _takes_datagrams(connection: Any) -> bool:
    """Whether anybody may send to it: bound to a port, or to a file, and connected to nobody."""
    if connection.type != socket.SOCK_DGRAM or connection.raddr or not connection.laddr:
        return False
    return bool(getattr(connection.laddr, "port", connection.laddr))


def behind(doors: set[object]) -> frozenset[int]:
    """The programs that hold these doors, with what they have started."""
    import psutil

    found: set[int] = set()
    try:
        connections = psutil.net_connections(kind="all") if doors else []
    except psutil.Error:  # another user's are not to be seen
        return frozenset()
    for one in connections:
        listens = one.status == psutil.CONN_LISTEN or one.family == socket.AF_UNIX
        if one.pid and listens and getattr(one.laddr, "port", one.laddr) in doors:
            found.add(one.pid)
            with contextlib.suppress(psutil.Error):  # it has ended
                found |= {child.pid for child in psutil.Process(one.pid).children(recursive=True)}
    return frozenset(found)


def listening(pid: int | None) -> tuple[set[int], set[int], dict[int, set[object]], dict[int, set[str]]]:
    """Processes that hold a door for connections, those that are clients at one of these, at which doors of
    other programs each is a client, and the addresses of these.
    """
    import psutil

    from latlab.schedule.sockets import doors_asked

    found: dict[int, set[object]] = {}
    ends: dict[int, set[tuple[object, object, str]]] = {}
    asks: dict[int, set[object]] = {}
    by_file: set[int] = set()
    try:
        root = psutil.Process(pid)
        family = [*([root] if pid is not None else []), *root.children(recursive=True)]
    except psutil.Error:
        return set(), set(), {}, {}
    for one in family:
        try:
            connections = one.net_connections(kind="all")
        except psutil.Error:
            continue  # it has ended
        for connection in connections:
            if connection.status == psutil.CONN_LISTEN or _takes_datagrams(connection):
                found.setdefault(one.pid, set()).add(getattr(connection.laddr, "port", connection.laddr))
            elif connection.raddr:
                near = getattr(connection.laddr, "port", connection.laddr)
                far = getattr(connection.raddr, "port", connection.raddr)
                ends.setdefault(one.pid, set()).add((near, far, _address(connection.raddr)))
            elif connection.family == socket.AF_UNIX and not connection.laddr and one.pid not in by_file:
                by_file.add(one.pid)
                asks.setdefault(one.pid, set()).update(doors_asked(one.pid))
    doors = set().union(*found.values()) if found else set()
    for one_pid, pairs in ends.items():  # without those who came in by one of these doors
        asks.setdefault(one_pid, set()).update(far for near, far, _ in pairs if near not in doors)
    clients = {one for one, ports in asks.items() if ports & doors}
    named = {
        one_pid: {name for near, far, name in pairs if near not in doors and far not in doors}
        for one_pid, pairs in ends.items()
    }
    return set(found), clients, {one: ports - doors for one, ports in asks.items() if ports - doors}, named


def _address(end: Any) -> str:
    """As "10.0.0.9:6379", or the file of a unix socket."""
    host = getattr(end, "ip", None)
    return (
        printable(str(end))
        if host is None
        else f"[{host}]:{end.port}"
        if ":" in host
        else f"{host}:{end.port}"
    )
