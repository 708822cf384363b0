"""The layout of the demonstration's pipeline: what a layout file says, checked and complete."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["STAGES", "Layout", "QueueLayout", "ReplayLayout", "StageLayout", "ThreadLayout"]

STAGES = ("decoder", "market", "book", "strategy", "execution")
"""The types of stages, in the order of the flow. Before them stands the exchange, which is not diagnosed."""

Wait = Literal["poll", "block", "hybrid"]


@dataclass(frozen=True, slots=True)
class ReplayLayout:
    """How the exchange plays the feeds.

    Attributes:
        mode: "fixed" delay between packets, "burst"s, clusters and microbursts as a "market" sends them, the
            file's own "timestamps", or as "fast" as possible.
        delay_ns: between packets of one venue (fixed, market: the mean), or between bursts (burst).
        burst: packets in a burst.
        speed: how much faster than the file's time stamps.
        packet_messages: messages in a packet.
        venue_offset_ns: how much later the second venue starts.
        on_full: "drop" what the input buffer has no room for, as a UDP socket does, or "wait".
        spin: wait for the next packet by spinning, which takes a core, instead of sleeping.
    """

    mode: Literal["fixed", "burst", "market", "timestamps", "fast"] = "fixed"
    delay_ns: int = 20_000
    burst: int = 32
    speed: float = 1.0
    packet_messages: int = 1
    venue_offset_ns: int = 500_000
    on_full: Literal["drop", "wait"] = "drop"
    spin: bool = False


@dataclass(frozen=True, slots=True)
class QueueLayout:
    """One hop's queues: kind ("spsc", "mpmc", "unbounded"; orders are always shared memory) and capacity."""

    kind: Literal["spsc", "mpmc", "unbounded"] = "spsc"
    capacity: int = 4096


@dataclass(frozen=True, slots=True)
class StageLayout:
    """One type of stage.

    Attributes:
        count: instances. Decoders and markets are one a venue.
        wait: how its threads wait for events: "poll", "block", or "hybrid" (poll for `spin_ns`, then block).
        spin_ns: how long a hybrid wait polls.
        service_ns: added service time per event: for planting a bottleneck.
        slow: added service time of single instances, by name.
        cpus: the CPUs that its threads are pinned to, in turn; empty: as the layout's `pinned` says.
        workers: threads that share the instances as a worker pool; 0: one thread an instance.
        per_book: strategies that each book feeds (strategy only).
    """

    count: int = 1
    wait: Wait = "block"
    spin_ns: int = 20_000
    service_ns: int = 0
    slow: tuple[tuple[str, int], ...] = ()
    cpus: tuple[int, ...] = ()
    workers: int = 0
    per_book: int = 1


@dataclass(frozen=True, slots=True)
class ThreadLayout:
    """A thread (or several) that runs instances of its own choice: a shared thread."""

    name: str
    runs: tuple[str, ...]
    count: int = 1


def _stages() -> dict[str, StageLayout]:
    return {
        "decoder": StageLayout(count=2),
        "market": StageLayout(count=2),
        "book": StageLayout(count=2),
        "strategy": StageLayout(),
        "execution": StageLayout(),
    }


def _queues() -> dict[str, QueueLayout]:
    return {name: QueueLayout() for name in ("feed", "decoded", "routed", "updates", "orders")}


@dataclass(frozen=True, slots=True)
class Layout:
    """The whole pipeline.

    Attributes:
        name: of the application, as observers see it.
        replay: how the feeds are played.
        stages: by type, all of `STAGES`.
        queues: by hop: feed (exchange to decoder), decoded, routed, updates, orders.
        threads: shared threads; instances that none of them runs have threads by their stage.
        pool_capacity: messages in the memory pool.
        trace_every: one event in this many carries a trace; 0: none.
        period_ns: the sampler's.
        pinned: threads whose stage names no CPUs are pinned to those of the process in turn; else the
            scheduler places them, and moves them while the pipeline runs.
    """

    name: str = "trading"
    replay: ReplayLayout = field(default_factory=ReplayLayout)
    stages: dict[str, StageLayout] = field(default_factory=_stages)
    queues: dict[str, QueueLayout] = field(default_factory=_queues)
    threads: tuple[ThreadLayout, ...] = ()
    pool_capacity: int = 65_536
    trace_every: int = 16
    period_ns: int = 1_000_000
    pinned: bool = True

    def instances(self, stage: str) -> list[str]:
        """The names of a stage's instances: by venue ("decoder-a") or by number ("book-0")."""
        count = self.stages[stage].count
        if stage in ("decoder", "market"):
            return [f"{stage}-{'ab'[i]}" for i in range(count)]
        return [f"{stage}-{i}" for i in range(count)]
