"""Writes a layout out as the plan that the pipeline program wires: instances, threads and queues by name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from latlab.model.diagnosis.layout import STAGES, Layout

__all__ = ["RunSettings", "plan_text"]


_RECORDS, _MOST_RECORDS = 1 << 16, 1 << 19  # of 32 bytes, an instance


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What one run adds to a layout.

    Attributes:
        feeds: the ITCH files of the two venues.
        seconds: how long the feeds are played at most.
        messages: how many messages a venue sends at most; 0: no limit.
        cpus: that threads without CPUs of their own are spread over; none: the scheduler places them.
        link: the path in shared memory that the queues between the processes begin with.
        traces: where the event traces are written.
    """

    feeds: Sequence[Path]
    seconds: float
    link: Path
    traces: Path
    messages: int = 0
    cpus: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class _Queue:
    name: str
    hop: str
    source: tuple[str, str]
    drain: tuple[str, str]
    group: str = ""


def plan_text(layout: Layout, run: RunSettings) -> str:
    """The plan, a record a line; values are percent-encoded."""
    queues = list(_queues(layout))
    ring_of = {queue.name: queue for queue in queues if queue.hop == "orders"}
    lines = [
        _line(
            "run",
            application=layout.name,
            seconds=run.seconds,
            messages=run.messages,
            spin=int(layout.replay.spin),
            pool_capacity=layout.pool_capacity,
            trace_every=layout.trace_every,
            # An event leaves at most one record an instance. A stage that takes 100,000 events a second fills
            # a lane of one event in 16 in ten seconds; the memory is reserved, so there is a limit.
            trace_records=min(_MOST_RECORDS, _RECORDS * max(1, math.ceil(run.seconds / 10))),
            trace_path=run.traces,
            link_path=run.link,
        )
    ]
    for venue, file in enumerate(run.feeds):
        replay = layout.replay
        lines.append(
            _line(
                "feed",
                file=file,
                queue=f"feed-{'ab'[venue]}",
                mode=replay.mode,
                delay_ns=replay.delay_ns,
                burst=replay.burst,
                speed=replay.speed,
                packet_messages=replay.packet_messages,
                offset_ns=venue * replay.venue_offset_ns,
                on_full=replay.on_full,
            )
        )
    crews, threads = _crews(layout, run.cpus)
    for stage in STAGES:
        values = layout.stages[stage]
        slow = dict(values.slow)
        for number, name in enumerate(layout.instances(stage)):
            extra: dict[str, object] = {}
            if stage == "decoder":
                extra["venue"] = number
            if stage == "strategy":
                extra["ring"] = f"orders-{number % layout.stages['execution'].count}"
            if stage == "execution":
                extra["ring"] = f"orders-{number}"
            service_ns = slow.get(name, values.service_ns)
            group = crews[name] if crews[name] != name else ""
            lines.append(
                _line("instance", type=stage, name=name, crew=crews[name], group=group, wait=values.wait,
                      service_ns=service_ns, **extra)
            )  # fmt: skip
    lines += threads
    for queue in queues:
        kind = layout.queues[queue.hop]
        lines.append(
            _line(
                "queue",
                name=queue.name,
                kind="shared" if queue.name in ring_of else kind.kind,
                capacity=kind.capacity,
                source_type=queue.source[0],
                source=queue.source[1],
                drain_type=queue.drain[0],
                drain=queue.drain[1],
                group=queue.group,
            )
        )
    return "\n".join(lines) + "\n"


def _line(kind: str, /, **values: object) -> str:
    return " ".join([kind, *(f"{key}={quote(str(value), safe='/')}" for key, value in values.items())])


def _queues(layout: Layout) -> list[_Queue]:
    """Every queue of the layout, in the order of the flow."""
    books, strategies = layout.instances("book"), layout.instances("strategy")
    executions = layout.instances("execution")
    queues = []
    for venue in "ab":
        queues.append(
            _Queue(
                f"feed-{venue}", "feed", ("exchange", f"exchange-{venue}"), ("decoder", f"decoder-{venue}")
            )
        )
        queues.append(
            _Queue(
                f"decoder-{venue}.market-{venue}",
                "decoded",
                ("decoder", f"decoder-{venue}"),
                ("market", f"market-{venue}"),
            )
        )
        queues += [
            _Queue(f"market-{venue}.{book}", "routed", ("market", f"market-{venue}"), ("book", book), book)
            for book in books
        ]
    per_book = layout.stages["strategy"].per_book
    for number, book in enumerate(books):
        for step in range(per_book):
            # Consecutive books take consecutive strategies, so that all of them get work.
            strategy = strategies[(number * per_book + step) % len(strategies)]
            queues.append(_Queue(f"{book}.{strategy}", "updates", ("book", book), ("strategy", strategy)))
    for number, execution in enumerate(executions):
        # Several strategies share the ring, so its source is their type and no single name.
        users = [name for i, name in enumerate(strategies) if i % len(executions) == number]
        source = users[0] if len(users) == 1 else ""
        queues.append(_Queue(f"orders-{number}", "orders", ("strategy", source), ("execution", execution)))
    return queues


def _crews(layout: Layout, cpus: Sequence[int]) -> tuple[dict[str, str], list[str]]:
    """Which crew runs each instance, and the threads' records."""
    crews: dict[str, str] = {}
    lines: list[str] = []
    turns = itertools.cycle(cpus)

    def thread(name: str, crew: str, stage: str, number: int) -> None:
        values = layout.stages[stage]
        own = values.cpus[number % len(values.cpus)] if values.cpus else next(turns, None)
        cpu = {} if own is None else {"cpu": own}
        lines.append(_line("thread", name=name, crew=crew, wait=values.wait, spin_ns=values.spin_ns, **cpu))

    for shared in layout.threads:
        crews.update(dict.fromkeys(shared.runs, shared.name))
        stage = next(kind for kind in STAGES if shared.runs[0] in layout.instances(kind))
        for number in range(shared.count):
            thread(
                shared.name if shared.count == 1 else f"{shared.name}-{number}", shared.name, stage, number
            )
    for stage in STAGES:
        free = [name for name in layout.instances(stage) if name not in crews]
        workers = layout.stages[stage].workers
        if workers and free:
            crews.update(dict.fromkeys(free, f"{stage}-pool"))
            for number in range(workers):
                thread(f"{stage}-pool-{number}", f"{stage}-pool", stage, number)
        else:
            for number, name in enumerate(free):
                crews[name] = name
                thread(name, name, stage, number)
    return crews, lines
