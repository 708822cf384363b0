"""Runs through the native loops: opens the hops, starts the broker, watches, and brings the words home.

Over 400 lines: what is opened, watched and closed is one sequence, which an interrupt may end at each place.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from latlab.errors import LatlabError, UnavailableError, UsageError
from latlab.messaging._counters import Readings
from latlab.messaging.judging.looks import (
    Looks,
    looks_at_loops,
    parts_of_loops,
    stolen_ns,
    threads_of,
    threads_of_library,
)
from latlab.messaging.running import processes as _processes
from latlab.messaging.running.collected import collected
from latlab.messaging.running.schedule import SendSchedule, patience_s, schedule
from latlab.messaging.running.standing import Standing
from latlab.messaging.running.ways import links as _links
from latlab.messaging.running.ways.clients import Client, batched, served
from latlab.messaging.running.ways.plugin import open_plugin
from latlab.model.messaging.results import INTERRUPTED, Facts, Measurement, Settings
from latlab.words import plural, share

_POLL_S = 0.1  # the watcher's own CPU time is some 50 us a look


@dataclass
class _Stage:
    """What stands between the loops, and what has to go in the end."""

    out: str = ""
    in_: str = ""
    links: list[_links.Link] = field(default_factory=list)
    child: _processes.Child | None = None
    forwarder: Any = None
    library: str = ""
    network: Any = None
    remote: Any = None
    attached: int | None = None
    client: Client | None = None
    threads: frozenset[str] = frozenset()  # of this process, before the ends were opened
    rest: ExitStack = field(default_factory=ExitStack)

    def broker_cpu_ns(self) -> int | None:
        """So far; None where no broker is, or nobody can tell."""
        if self.forwarder is not None:
            return int(self.forwarder.cpu_ns())
        if self.attached is not None:
            return sum(_processes.cpu_ns(pid) or 0 for pid in _processes.descendants(self.attached))
        return None if self.child is None else _processes.cpu_ns(self.child.pid)

    def stopped(self) -> bool:
        """Whether the broker stands still by SIGSTOP."""
        broker = self.attached if self.child is None else self.child.pid
        return broker is not None and _processes.stopped(broker)

    def stalls(self) -> list[tuple[int, int, int]]:
        """Stalls as the broker made them, (message, from, to) in ticks; it is ended by this."""
        if self.forwarder is not None:
            self.forwarder.stop()
            return list(self.forwarder.result()[3])
        if self.child is None:
            return []
        self.child.close()
        words = [word.split("=")[1] for word in self.child.last_words.split() if word.startswith("stalled=")]
        return [(int(n), int(a), int(b)) for n, a, b in (word.split(":") for word in words)]

    def close(self) -> None:
        """Leave nothing behind."""
        if self.forwarder is not None:
            self.forwarder.stop()
        if self.child is not None:
            self.child.close()
        for link in self.links:
            link.close()
        if self.network is not None:
            self.network.close()
        if self.remote is not None:
            self.remote.close()
        self.rest.close()


def waiting(settings: Settings, facts: Facts) -> str:
    """How the loops wait: rings spin unless told otherwise, everything else sleeps in the kernel."""
    wanted = settings.wait
    if wanted == "auto":
        wanted = (
            "poll" if facts.plugin or facts.name in ("ring", "shm") or "block" not in facts.waits else "block"
        )
    if wanted not in facts.waits:
        raise UsageError(f"{facts.name} can't {wanted}", remedy=f"say --wait {facts.waits[0]}")
    return wanted


def placement(settings: Settings) -> tuple[int, int, int]:
    """Cores of sender, broker and receiver: one each where there are enough.

    Of two cores the sender gets one: it may spin until a message is due, and a kernel lets what spins finish
    its turn of milliseconds before what it woke up.
    """
    if settings.cpus is not None:
        allowed = os.sched_getaffinity(0)
        for cpu in settings.cpus:
            if cpu >= 0 and cpu not in allowed:
                raise UsageError(
                    f"CPU {cpu} is not available to this process", remedy=f"choose among {sorted(allowed)}"
                )
        return settings.cpus
    cpus = sorted(os.sched_getaffinity(0))
    if (settings.topology == "direct" or settings.broker or settings.connect) and len(cpus) >= 2:
        return cpus[0], -1, cpus[1]
    if settings.topology == "broker" and len(cpus) >= 3:
        return cpus[0], cpus[1], cpus[2]
    if settings.topology == "broker" and len(cpus) == 2:
        return cpus[0], cpus[1], cpus[1]
    if settings.topology == "pingpong" and len(cpus) >= 2:
        return cpus[0], cpus[1], cpus[0]
    return -1, -1, -1


def _check_priority(settings: Settings, wait: str) -> None:
    """Whether the run's threads may have the real-time priority that was asked for.

    Raises:
        UsageError: where they would spin and keep everything else, and one another, from running.
        UnavailableError: without the right to it.
    """
    if settings.priority == 0:
        return
    if wait == "poll":
        raise UsageError(
            "threads that spin at a real-time priority stop the machine", remedy="say --wait block"
        )
    before, usual = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(settings.priority + 3))
    except PermissionError:
        remedy = "run as root, raise 'ulimit -r', or leave --priority out"
        raise UnavailableError("no right to a real-time priority", remedy=remedy) from None
    os.sched_setscheduler(0, before, usual)


def _library_priority(settings: Settings) -> int:
    """Of the threads that a library carries messages with.

    Above the sender, which may spin on their core; below the broker and the receiver, which then take at once
    what is there, and not a message a wake-up.
    """
    return settings.priority and settings.priority + 1


def run_native(settings: Settings, facts: Facts, told: Callable[[int], None] | None = None) -> Measurement:
    """Measure.

    Raises:
        UsageError, UnavailableError, LatlabError: before anything was sent. Once messages flow, what goes
            wrong ends the run and is its `partial`.
    """
    from latlab._core import messaging as core

    wait = waiting(settings, facts)
    cpus = placement(settings)
    _check_priority(settings, wait)
    settings = batched(settings, facts)
    plan = schedule(settings)
    stage = _Stage(threads=frozenset(threads_of(os.getpid())))
    try:
        _set_up(stage, settings, facts, wait, cpus)
        # A spinning thread without a core of its own would keep the one from running that it waits for.
        threads = 2 if settings.topology != "broker" or settings.broker or settings.connect else 3
        crowded = threads > len(os.sched_getaffinity(0))
        common: dict[str, Any] = {
            "size": settings.size, "poll": wait == "poll", "yield_": crowded, "library": stage.library,
            "priority": _library_priority(settings),
        }  # fmt: skip
        run = core.Run(
            core.ChannelSpec(stage.out, batch=settings.batch, **common),
            core.ChannelSpec(stage.in_, kernel_stamps=settings.kernel_stamps, **common),
            core.RunPlan(
                messages=settings.total,
                period_ns=plan.period_ns,
                burst=plan.burst,
                gaps_ns=[] if plan.gaps_ns is None else plan.gaps_ns.tolist(),
                sleep=wait == "block" or crowded,
                sample_every=settings.sample_every,
                receiver_work_ns=settings.receiver_delay_ns,
                sender_cpu=cpus[0],
                receiver_cpu=cpus[2],
                priority=settings.priority,
                pingpong=settings.topology == "pingpong",
            ),
        )
        if stage.library:
            time.sleep(0.1)  # its connections are made by a thread of its own
        return _watch(run, stage, settings, facts, wait, plan, cpus, Readings(settings.counters, told))
    except (ValueError, RuntimeError) as error:
        raise LatlabError(f"{settings.transport}: {error}") from None
    except MemoryError:
        raise LatlabError(
            f"{settings.transport}: no memory for {plural(settings.total, 'message')} of "
            f"{plural(settings.size, 'byte')}",
            remedy="say fewer --messages, a smaller --batch or a smaller --size",
        ) from None
    finally:
        stage.close()


def _set_up(stage: _Stage, settings: Settings, facts: Facts, wait: str, cpus: tuple[int, int, int]) -> None:
    if facts.name.startswith("zeromq"):
        from latlab.messaging.running.ways.zeromq import set_up

        set_up(stage, settings, facts, lambda *ends: _start_broker(stage, settings, wait, cpus, *ends))
        return
    if facts.library is not None:
        stage.client = stage.rest.enter_context(served(settings, facts))
        stage.child, stage.attached = stage.client.server, stage.client.listens
    if settings.topology == "direct" or (stage.client is not None and settings.topology == "broker"):
        link = _hop(stage, settings, facts, inward=True)
        stage.links = [link]
        stage.out, stage.in_ = link.out, link.in_
        return
    if settings.connect is not None:
        link, stage.attached = _links.attach(settings, stage.rest)
        stage.links = [link]
        stage.out, stage.in_ = link.out, link.in_
        return
    if settings.broker is not None:
        from latlab.messaging.running.ways.remote import RemoteBroker

        stage.remote = RemoteBroker(settings, wait)
        stage.out, stage.in_ = stage.remote.link.out, stage.remote.link.in_
        return
    if settings.network == "namespace":
        from latlab.messaging.running.ways.network import Network

        stage.network = Network(settings)
    there = _hop(stage, settings, facts, inward=True)
    stage.links = [there]
    if settings.topology == "pingpong" and facts.name in ("tcp", "tcp-nagle", "unix"):
        # One connection, both ways, as everybody's ping-pong has it.
        stage.out, stage.in_ = there.out, there.out.replace(there.out, f"stream:{there.out_fds[0]}")
        _start_broker(stage, settings, wait, cpus, there.in_, there.in_, there.in_fds)
        there.close(out=False)
        return
    back = _hop(stage, settings, facts, inward=False)
    stage.links.append(back)
    stage.out, stage.in_ = there.out, back.in_
    fds = (*there.in_fds, *back.out_fds)
    _start_broker(
        stage, settings, wait, cpus, there.in_, back.out, fds, thread=facts.plugin or stage.client is not None
    )
    if stage.child is not None and stage.client is None and not there.in_.startswith("ring"):
        there.close(out=False)
        back.close(in_=False)


def _hop(stage: _Stage, settings: Settings, facts: Facts, *, inward: bool) -> _links.Link:
    if stage.network is not None:
        hop: _links.Link = stage.network.link(inward=inward)
        return hop
    if stage.client is not None:
        return stage.client.link()
    if facts.plugin:
        return open_plugin(settings)
    return _links.open_link(facts.name, settings)


def _start_broker(
    stage: _Stage,
    settings: Settings,
    wait: str,
    cpus: tuple[int, int, int],
    in_: str,
    out: str,
    fds: tuple[int, ...] = (),
    *,
    thread: bool = False,
) -> None:
    crowded = len(os.sched_getaffinity(0)) < 3
    if thread or settings.transport in ("ring", "zeromq-inproc"):
        from latlab._core import messaging as core

        common: dict[str, Any] = {
            "size": settings.size, "poll": wait == "poll", "yield_": crowded, "library": stage.library,
            "priority": _library_priority(settings),
        }  # fmt: skip
        faults = {name: int(every) for name, every in settings.faults.items()}
        stage.forwarder = core.Forwarder(
            core.ChannelSpec(in_, **common),
            core.ChannelSpec(out, batch=256, **common),
            core.ForwardPlan(
                stalls=list(settings.stalls),
                sample=settings.sample_every,
                work=settings.broker_delay_ns,
                cpu=cpus[1],
                priority=settings.priority and settings.priority + 2,
                **faults,
            ),
        )
        return
    words = [f"size={settings.size}", "batch=256" if settings.size <= 65536 else "batch=1"]
    words += [f"poll={int(wait == 'poll')}", f"yield={int(crowded)}", f"sample={settings.sample_every}"]
    words += [f"work={settings.broker_delay_ns}", *(f"stall={n}:{ns}" for n, ns in settings.stalls)]
    words += [f"{name}={every}" for name, every in settings.faults.items()]
    words += [f"cpu={cpus[1]}"] if cpus[1] >= 0 else []
    if settings.priority:
        words += [f"priority={settings.priority + 2}", f"library_priority={_library_priority(settings)}"]
    words += [f"library={stage.library}"] if stage.library else []
    stage.child = _processes.Child([_processes.native_program("broker"), in_, out, *words], pass_fds=fds)
    stage.child.expect("ready")


def _watch(
    run: Any,
    stage: _Stage,
    settings: Settings,
    facts: Facts,
    wait: str,
    plan: SendSchedule,
    cpus: tuple[int, int, int],
    readings: Readings,
) -> Measurement:
    library = threads_of_library("zeromq" if stage.library else facts.library or "", stage.threads)
    looks, stolen = (
        looks_at_loops(run, stage.child, library=library, attached=stage.attached),
        stolen_ns(),
    )
    looks.take()
    broker_start, busy_start = stage.broker_cpu_ns(), _processes.machine_busy_ns()
    device = _device(stage, facts)
    network_start, idle_start = _processes.device_bytes(device), _processes.machine_idle_ns()
    line_start = 0 if stage.network is None else stage.network.cpu_ns()
    started = time.monotonic_ns()
    readings.take(0)
    run.start()
    standing = Standing(_POLL_S, asleep=wait == "block")
    partial, broker_end = _until_the_end(run, stage, settings, readings, looks, standing)
    readings.take(run.progress()[1])
    looks.take()
    elapsed = time.monotonic_ns() - started
    idle_end = _processes.machine_idle_ns()
    idle = None if idle_start is None or idle_end is None else idle_end - idle_start
    last = stage.broker_cpu_ns()
    if last is not None:
        broker_end = last if stage.attached is None else max(last, broker_end or 0)
    busy_end, network_end = _processes.machine_busy_ns(), _processes.device_bytes(device)
    broker = None
    if broker_start is not None and broker_end is not None:
        broker = max(0, broker_end - broker_start)
    if stage.remote is not None:
        counted = stage.remote.end()
        broker = counted.get("cpu_ns")
    here = stage.child is not None or stage.attached is not None
    own = run.process_cpu_ns + (broker or 0 if here else 0)
    # Of a broker on another host, nothing was used here.
    total = own + (broker or 0 if stage.remote is not None else 0)
    line = 0 if stage.network is None else stage.network.cpu_ns() - line_start
    foreign = None if busy_start is None or busy_end is None else max(0, busy_end - busy_start - own - line)
    network = None
    if network_start and network_end:
        network = (network_end[1] - network_start[1], network_end[0] - network_start[0])
    return collected(
        run, settings, facts, plan, stalls=stage.stalls() if settings.stalls else [], wait=wait,
        partial=partial, broker_cpu_ns=broker, process_cpu_ns=total, foreign_cpu_ns=foreign,
        elapsed_ns=elapsed, network_bytes=network, counters=readings.since(started),
        idle=_processes.idle_state(idle, elapsed), looks=looks, throttled=looks.throttled(),
        parts=parts_of_loops(looks, run, broker, cpus), stolen_ns=stolen_ns() - stolen,
        cpus=os.cpu_count() or 0,
        notes=() if stage.network is None else _about(stage.network.made_of, line, elapsed),
    )  # fmt: skip


def _about(made_of: str, cpu_ns: int, elapsed_ns: int) -> tuple[str, ...]:
    used = (
        f"; its box used {share(cpu_ns / elapsed_ns, digits=0)} of a CPU, which is counted to no part"
        if cpu_ns
        else ""
    )
    return (f"the line is {made_of}{used}",)


def _device(stage: _Stage, facts: Facts) -> str | None:
    """The network device that the messages pass on this host; None where they pass none."""
    if stage.network is not None:
        return str(stage.network.device)
    if stage.remote is not None:
        return _processes.device_of(stage.remote.local_address())
    if stage.client is not None:
        return None if stage.client.server is None and stage.client.listens is None else "lo"
    return "lo" if facts.name in ("tcp", "tcp-nagle", "udp", "multicast", "zeromq-tcp") else None


def _until_the_end(
    run: Any, stage: _Stage, settings: Settings, readings: Readings, looks: Looks, standing: Standing
) -> tuple[str | None, int | None]:
    """Wait for both loops, or end them. Returns (why it is partial, the broker's CPU ns)."""
    broker, complaint = None, None
    patience = patience_s(settings)
    try:
        while not run.wait(_POLL_S):
            _, received, sender_done, _ = run.progress()
            readings.take(received)
            looks.take()
            standing.look(received, looks.got, stopped=stage.stopped())
            if stage.attached is not None:  # what it forked for our connection may end with that
                broker = max(broker or 0, stage.broker_cpu_ns() or 0)
            if stage.child is not None:
                broker = stage.broker_cpu_ns() or broker
                end = stage.child.ended()
                if end is not None and standing.for_s > 0.2:
                    # Its last messages may still be under way, but it will not forward another one.
                    if not (sender_done and end == "ended with status 0"):
                        complaint = _ending(end)
                    break
            if stage.remote is not None and standing.for_s > 0.2 and stage.remote.gone():
                complaint = f"the broker at {settings.broker} has gone"
                break
            if sender_done and standing.free_s > settings.drain_s:
                break
            if standing.for_s > patience:
                complaint = _processes.standstill("the broker" if stage.stopped() else None, patience)
                break
    except KeyboardInterrupt:
        complaint = INTERRUPTED
    if complaint is not None and stage.child is not None:
        stage.child.kill()
    run.stop()
    while not run.wait(1.0):
        run.stop()
    sender, receiver = run.sender(), run.receiver()
    broken = sender["count"] < settings.total or receiver["count"] < settings.total
    if complaint is None and broken and stage.child is not None:
        end = stage.child.ended()
        if end is not None and end != "ended with status 0":
            complaint = _ending(end)
    for side, who in ((sender, "sender"), (receiver, "receiver")):
        if complaint is None and side["error"]:
            complaint = f"the {who} was refused: {os.strerror(side['error'])}"
    if complaint is None and sender["count"] < settings.total:
        complaint = f"the sender ended after {sender['count']} of {settings.total} messages"
    return complaint, broker


def _ending(end: str) -> str:
    return f"the broker was {end}" if end.startswith("killed") else f"the broker {end}"
