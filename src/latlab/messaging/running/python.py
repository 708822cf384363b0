"""Runs through the Python loop: processes for sender, receiver and (where no product is) a broker.

Over 400 lines: what is started, watched and closed is one sequence, which an interrupt may end at each place.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab.errors import LatlabError, UsageError
from latlab.formats.documents import dumps
from latlab.messaging._counters import Readings
from latlab.messaging.judging.looks import Looks, listener, stolen_ns, threads_of
from latlab.messaging.products.broker_processes import started
from latlab.messaging.running import processes as _processes
from latlab.messaging.running import python_loop
from latlab.messaging.running import shared as loop
from latlab.messaging.running.collected import since
from latlab.messaging.running.native import placement, waiting
from latlab.messaging.running.schedule import patience_s, schedule
from latlab.messaging.running.shared import Body, SharedLayout
from latlab.messaging.running.standing import Standing
from latlab.model.messaging.results import INTERRUPTED, Facts, Measurement, Settings, Side

_POLL_S = 0.05


@dataclass
class _Cast:
    """The processes of a run, by role."""

    children: dict[str, _processes.Child] = field(default_factory=dict)
    server: _processes.Child | None = None
    found: int | None = None  # a server that somebody else started on this machine

    def pids(self, role: str) -> tuple[int, ...]:
        """The processes of a role; those that they started are theirs, too."""
        if role == "broker" and self.server is not None:
            return (self.server.pid,)
        ours = tuple(child.pid for name, child in self.children.items() if name.split()[0] == role)
        return (self.found,) if not ours and role == "broker" and self.found is not None else ours

    def looks(self) -> Looks:
        """Looks at the threads of every role."""
        roles = [role for role in ("sender", "broker", "receiver") if self.pids(role)]
        parts = {role: partial(threads_of, *self.pids(role)) for role in roles}
        groups = {"run": [*self.pids("sender"), *self.pids("receiver")], "broker": [*self.pids("broker")]}
        return Looks(parts, groups, lambda: self.stopped() is not None)

    def cpu_ns(self, role: str) -> int | None:
        """CPU time so far of a role; a product's server with all that it started."""
        if role == "broker" and role not in self.children and self.pids(role):
            found = [_processes.cpu_ns(pid) for pid in _processes.descendants(*self.pids(role))]
            return sum(value or 0 for value in found)
        used = self.each_cpu_ns(role)
        return sum(used) if used else None

    def each_cpu_ns(self, role: str) -> list[int]:
        """CPU time so far of each process of a role."""
        return [_processes.cpu_ns(pid) or 0 for pid in self.pids(role)]

    def stopped(self) -> str | None:
        """Which of them stands still by SIGSTOP, if one does."""
        broker = self.found if self.server is None else self.server.pid
        if broker is not None and _processes.stopped(broker):
            return "the broker"
        return next((f"the {role}" for role, child in self.children.items() if child.stopped()), None)


def run_python(
    settings: Settings, facts: Facts, target: str, told: Callable[[int], None] | None = None
) -> Measurement:
    """Measure through the class behind `target` ("module:Class").

    Raises:
        UsageError, UnavailableError, LatlabError: before anything was sent.
    """
    wait = waiting(settings, facts)
    if settings.priority:
        raise UsageError(f"{facts.name} runs at no real-time priority", remedy="native transports can")
    if settings.faults or settings.batch != 1:
        raise UsageError(
            f"{facts.name} has no planted faults and no batches", remedy="native transports have them"
        )
    if facts.broker is not None and settings.broker_delay_ns:
        raise UsageError(
            f"{facts.broker} can't be slowed down, only stopped", remedy="say --stall, or leave the delay out"
        )
    if facts.broker is not None and settings.stalls and settings.server != "auto":
        raise UsageError(
            f"{facts.broker} at {settings.server} is not ours to stop", remedy="say --server auto"
        )
    kind = python_loop.load(target)
    left: list[str] = []
    with (
        started(facts, settings) as (address, server),
        _memory(settings) as (fd, words),
        contextlib.ExitStack() as rest,
        _cast() as cast,
    ):
        cast.server = server
        cast.found = None if address is None or server is not None else listener(*address)
        many = {"groups": settings.groups, "receivers": settings.receivers}
        where = [{**prepared(kind, settings, address), **many}]
        rest.callback(lambda: left.extend(_cleaned_up(kind, where)))
        own_broker = settings.topology == "broker" and facts.broker is None
        if own_broker or settings.topology == "pingpong":  # the second hop, or the way back
            where.append({**prepared(kind, settings, address), **many})
        cpus = placement(settings)
        ticks_per_ns = _ticks_per_ns()
        cast_list = [("receiver", i, cpus[2]) for i in range(settings.receivers)]
        cast_list += [("broker", 0, cpus[1])] if own_broker else []
        cast_list += [("sender", i, cpus[0]) for i in range(settings.senders)]
        crowded = len(cast_list) > 3  # several on one core would wait for one another
        for role, number, cpu in cast_list:
            places = where
            if role == "receiver" and settings.receivers > 1:
                group = {"group": number % settings.groups, "member": number}
                places = [*where[:-1], {**where[-1], **group}]
            order = {
                "role": role,
                "number": number,
                "settings": settings.to_json(),
                "where": places,
                "class": target,
                "memory": fd,
                "cpu": -1 if crowded else cpu,
                "ticks_per_ns": ticks_per_ns,
            }
            name = role if number == 0 else f"{role} {number + 1}"
            with _ordered(order) as orders:
                program = "latlab.messaging.running.python_loop"
                command = [sys.executable, "-m", program, str(orders), f"role={name}"]
                cast.children[name] = _processes.Child(
                    command,
                    pass_fds=[fd, orders, *[f for w in where for f in w.get("fds", ())]],
                    label=f"the {name}",
                )
            _expect_ready(cast.children[name], facts, settings)
        cpus = (-1, -1, -1) if crowded else cpus
        readings = Readings(settings.counters, told)
        measured = _watched(cast, words, settings, facts, wait, ticks_per_ns, cpus, readings)
    return replace(measured, notes=(*measured.notes, *left)) if left else measured


def _expect_ready(child: _processes.Child, facts: Facts, settings: Settings) -> None:
    """Wait until an end is connected.

    Raises:
        LatlabError: it is not; with what there is to set, where somebody's own server has it not let in.
    """
    try:
        child.expect("ready", 20.0)
    except LatlabError as error:
        if facts.broker is None or settings.server == "auto":
            raise
        if settings.tls and "WRONG_VERSION_NUMBER" in error.what:
            raise LatlabError(
                f"{child.name} did not start: the server does not encrypt, and --tls was asked for",
                remedy="leave out --tls, or name the port that does with --server",
            ) from None
        names = ", ".join(f"--{name}" for name in facts.access)
        raise LatlabError(error.what, remedy=f"see --server, {names}") from None


def prepared(kind: Any, settings: Settings, address: Any) -> dict[str, Any]:
    """What a transport's `prepare` returns.

    Raises:
        LatlabError: when it fails, or what it returns can't be told to the ends.
    """
    try:
        place = dict(kind.prepare(settings, address))
        dumps(place)
    except LatlabError:
        raise
    except Exception as error:
        raise _failed(kind, "prepare", error) from error
    return place


def cleaned_up(kind: Any, place: dict[str, Any]) -> None:
    """Let a transport clean up, where it can.

    Raises:
        LatlabError: when it fails.
    """
    clean_up = getattr(kind, "clean_up", None)
    try:
        if clean_up is not None:
            clean_up(place)
    except LatlabError:
        raise
    except Exception as error:
        raise _failed(kind, "clean_up", error) from error


def _cleaned_up(kind: Any, places: list[dict[str, Any]]) -> list[str]:
    """What failed: by then everything is measured, and none of it is lost."""
    failed = []
    for place in places:
        try:
            cleaned_up(kind, place)
        except LatlabError as error:
            failed.append(error.what)
    return failed


def _failed(kind: Any, call: str, error: Exception) -> LatlabError:
    first = f"{type(error).__name__}: {error}".splitlines()[0]
    return LatlabError(f"{kind.__name__}.{call}() failed: {first}", remedy="fix the transport")


@contextlib.contextmanager
def _ordered(order: dict[str, object]) -> Iterator[int]:
    """An order in memory that a child inherits: there may be a password in it."""
    fd = os.memfd_create("latlab-order")
    try:
        os.write(fd, dumps(order).encode())
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _cast() -> Iterator[_Cast]:
    cast = _Cast()
    try:
        yield cast
    finally:
        for role in ("sender", "broker", "receiver"):
            for name, child in cast.children.items():
                if name.split()[0] == role:
                    child.close()


@contextlib.contextmanager
def _memory(settings: Settings) -> Iterator[tuple[int, memoryview]]:
    """Anonymous memory that the children inherit, touched beforehand."""
    fd = os.memfd_create("latlab-stamps")
    try:
        size = 8 * SharedLayout.of(settings).words
        os.ftruncate(fd, size)
        mapped = mmap.mmap(fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        np.frombuffer(mapped, dtype=np.uint64)[:] = 0
        yield fd, memoryview(mapped).cast("Q")
    finally:
        os.close(fd)


def _ticks_per_ns() -> float:
    from latlab._core import clock

    t0, ns0 = clock.reference()[:2]
    time.sleep(0.02)
    t1, ns1 = clock.reference()[:2]
    return (t1 - t0) / (ns1 - ns0)


def _watched(
    cast: _Cast,
    words: memoryview,
    settings: Settings,
    facts: Facts,
    wait: str,
    ticks_per_ns: float,
    cpus: tuple[int, int, int],
    readings: Readings,
) -> Measurement:
    from latlab._core import clock

    looks, stolen = cast.looks(), stolen_ns()
    looks.take()

    roles, layout = ("sender", "broker", "receiver"), SharedLayout.of(settings)
    each = {role: cast.each_cpu_ns(role) for role in roles}
    before = {role: cast.cpu_ns(role) for role in roles}
    busy, network = _processes.machine_busy_ns(), _processes.device_bytes()
    own_cpu, idle = time.process_time_ns(), _processes.machine_idle_ns()
    readings.take(0)
    t0, ns0 = clock.reference()[:2]
    words[loop.BASE] = clock.ticks() + int(2e6 * ticks_per_ns)
    words[loop.GO] = 1
    with _stopping(cast, words, settings):
        standing = Standing(_POLL_S, asleep=wait == "block")
        broken = _until_the_end(cast, words, settings, readings, looks, standing)
    looks.take()
    t1, ns1 = clock.reference()[:2]
    readings.take(_received(words, layout))
    idle_end = _processes.machine_idle_ns()
    idle = None if idle is None or idle_end is None else idle_end - idle
    after = {role: cast.cpu_ns(role) for role in roles}
    parts = looks.parts(dict(zip(roles, cpus, strict=True)))
    for role, part in parts.items():
        if len(each[role]) > 1:  # an interpreter's threads have one core together: the busiest process
            most = max(b - a for a, b in zip(each[role], cast.each_cpu_ns(role), strict=True))
            parts[role] = replace(part, busiest_ns=most)
    words[loop.STOP] = 1
    _leave(words, layout)
    used = {role: _difference(before[role], after[role]) for role in roles}
    total = sum(value or 0 for value in used.values()) + time.process_time_ns() - own_cpu
    busy_end, network_end = _processes.machine_busy_ns(), _processes.device_bytes()
    hz = (t1 - t0) * 1e9 / (ns1 - ns0)
    base = int(words[loop.BASE])
    sent_ticks = np.array(words[layout.sent], dtype=np.uint64)
    plan = schedule(settings)
    intended = None
    if plan.paced:
        due = (plan.due_ns(settings.total) * ticks_per_ns).astype(np.int64)
        intended = np.rint(due * (1e9 / hz)).astype(np.int64)
    else:
        base = int(sent_ticks[sent_ticks > 0].min(initial=2**64 - 1)) if sent_ticks.any() else base
    made = since(np.array(words[layout.stalled], dtype=np.uint64), base, hz).reshape(-1, 2)
    deliveries = tuple(
        since(np.array(words[layout.received(group)], dtype=np.uint64), base, hz)
        for group in range(settings.groups)
    )
    confirms = sum(int(words[layout.sender(i) + loop.CONFIRMS]) for i in range(settings.senders))
    senders = tuple(_side(words, layout.sender(i), None) for i in range(settings.senders))
    receivers = tuple(_side(words, layout.receiver(i), None) for i in range(settings.receivers))
    return Measurement(
        settings=settings,
        facts=facts,
        sent_ns=since(sent_ticks, base, hz),
        received_ns=_everywhere(deliveries),
        deliveries_ns=deliveries if settings.groups > 1 else (),
        confirmed_ns=since(np.array(words[layout.confirmed], dtype=np.uint64), base, hz)
        if confirms
        else None,
        stalls_ns=tuple(
            (n, int(a), int(b)) for (n, _), (a, b) in zip(settings.stalls, made, strict=True) if b >= 0
        ),
        intended_ns=intended,
        kernel_ns=None,
        sender=_together(senders, used["sender"]),
        receiver=_together(receivers, used["receiver"]),
        senders=senders if settings.senders > 1 else (),
        receivers=receivers if settings.receivers > 1 else (),
        sender_samples=np.zeros((0, 3), dtype=np.int64),
        receiver_samples=np.zeros((0, 5), dtype=np.int64),
        broker_cpu_ns=used["broker"],
        process_cpu_ns=total,
        foreign_cpu_ns=None if busy is None or busy_end is None else max(0, busy_end - busy - total),
        elapsed_ns=ns1 - ns0,
        network_bytes=None
        if network is None or network_end is None or facts.broker is None
        else (network_end[1] - network[1], network_end[0] - network[0]),
        ticks_hz=hz,
        harness_ns=_harness(settings.size),
        bytes_per_message=8.0 * (2 + settings.groups),
        locked=False,
        wait=wait,
        partial=broken,
        counters=readings.since(ns0),
        idle=_processes.idle_state(idle, ns1 - ns0),
        looks=looks.since(round(ns0 + (base - t0) * 1e9 / hz)),
        throttled=looks.throttled(),
        parts=parts,
        stolen_ns=stolen_ns() - stolen,
        cpus=os.cpu_count() or 0,
        notes=("the Python loop costs microseconds a message: see the harness",),
    )


@contextlib.contextmanager
def _stopping(cast: _Cast, words: memoryview, settings: Settings) -> Iterator[None]:
    """Stalls of a product's server: its processes stand still once a message has been sent, and go on."""
    server, ended = cast.server, threading.Event()
    if server is None or not settings.stalls:
        yield
        return

    def stop_and_go() -> None:
        from latlab._core.clock import ticks

        layout = SharedLayout.of(settings)
        made = words[layout.stalled]
        for i, (message, ns) in enumerate(settings.stalls):
            while sum(words[layout.sender(k) + loop.COUNT] for k in range(settings.senders)) < message:
                if ended.wait(0.0002):
                    return
            processes = _processes.descendants(server.pid)
            try:
                _processes.signal_all(processes, signal.SIGSTOP)
                made[2 * i] = ticks()
                ended.wait(ns / 1e9)
                made[2 * i + 1] = ticks()
            finally:
                _processes.signal_all(processes, signal.SIGCONT)

    thread = threading.Thread(target=stop_and_go)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _until_the_end(
    cast: _Cast, words: memoryview, settings: Settings, readings: Readings, looks: Looks, standing: Standing
) -> str | None:
    patience, layout = patience_s(settings), SharedLayout.of(settings)
    senders = [layout.sender(i) for i in range(settings.senders)]
    try:
        while True:
            time.sleep(_POLL_S)
            received = _received(words, layout)
            readings.take(received // settings.groups)
            looks.take()
            done = all(words[one + loop.DONE] for one in senders)
            if done and received >= settings.groups * settings.total:
                break
            if done and all(words[layout.receiver(i) + loop.DONE] for i in range(settings.receivers)):
                break
            standing.look(received, looks.got, stopped=cast.stopped() is not None)
            for role, child in [*cast.children.items(), ("broker", cast.server)]:
                end = None if child is None else child.ended()
                if end is not None and child is not None:
                    if child is not cast.server and (still := cast.stopped()) is not None:
                        # Its client's patience ended before ours: that is not what is wrong.
                        return _processes.standstill(still, standing.for_s)
                    child.close()
                    name = child.name if child is cast.server else f"the {role}"
                    how = f"was {end}" if end.startswith("killed") else end
                    return f"{name} {how}: {child.complaint()}".rstrip(": ")
            if done and standing.free_s > settings.drain_s:
                break
            if standing.for_s > patience:
                return _processes.standstill(cast.stopped(), patience)
    except KeyboardInterrupt:
        return INTERRUPTED
    sent = sum(int(words[one + loop.COUNT]) for one in senders)
    return None if sent == settings.total else f"the sender ended after {sent} of {settings.total} messages"


def _received(words: memoryview, layout: SharedLayout) -> int:
    """Messages that receivers had so far, of all of them."""
    return sum(int(words[layout.receiver(i) + loop.COUNT]) for i in range(layout.receivers))


def _leave(words: memoryview, layout: SharedLayout, seconds: float = 0.5) -> None:
    """Give receivers the time to write down what they counted."""
    end = time.monotonic() + seconds
    blocks = [layout.receiver(i) + loop.DONE for i in range(layout.receivers)]
    while not all(words[block] for block in blocks) and time.monotonic() < end:
        time.sleep(0.002)


def _everywhere(deliveries: tuple[npt.NDArray[np.int64], ...]) -> npt.NDArray[np.int64]:
    """When the last group had each message; -1 where one never had it."""
    if len(deliveries) == 1:
        return deliveries[0]
    stacked = np.stack(deliveries)
    found: npt.NDArray[np.int64] = np.where((stacked < 0).any(axis=0), -1, stacked.max(axis=0))
    return found


def _together(sides: tuple[Side, ...], cpu_ns: int | None) -> Side:
    """Several processes of a role as one: their sums."""
    names = [f.name for f in fields(Side) if f.name != "error"]
    total = Side(**{name: sum(getattr(side, name) for side in sides) for name in names})
    return total if cpu_ns is None else replace(total, cpu_ns=cpu_ns)


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(0, after - before)


def _side(words: memoryview, at: int, cpu_ns: int | None) -> Side:
    return Side(
        count=int(words[at + loop.COUNT]),
        duplicated=int(words[at + loop.DUPLICATED]),
        reordered=int(words[at + loop.REORDERED]),
        corrupted=int(words[at + loop.CORRUPTED]),
        cpu_ns=cpu_ns or int(words[at + loop.CPU]),
        minor_faults=int(words[at + loop.FAULTS]),
        voluntary_switches=int(words[at + loop.VOLUNTARY]),
        involuntary_switches=int(words[at + loop.INVOLUNTARY]),
    )


def _harness(size: int) -> tuple[float, float, float]:
    """What the Python loop itself costs a message: (sender, receiver, clock) in ns."""
    from latlab._core.clock import ticks

    pattern, words, rounds = Body(size), memoryview(bytearray(8 * 64)).cast("Q"), 2000
    pattern.stamp(1)
    message = bytes(pattern.data)
    start = time.perf_counter_ns()
    for n in range(rounds):
        pattern.stamp(n)
        words[0] = ticks()
        words[1] = n
    sent = time.perf_counter_ns()
    for _ in range(rounds):
        words[0] = ticks()
        pattern.number(message, 1)
        words[1] = 1
    received = time.perf_counter_ns()
    for _ in range(rounds):
        ticks()
    end = time.perf_counter_ns()
    return (sent - start) / rounds, (received - sent) / rounds, (end - received) / rounds
