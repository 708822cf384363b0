"""Reads a layout file (TOML), and refuses by name what it does not understand."""

from __future__ import annotations

import dataclasses
import os
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from latlab.errors import InputError, UsageError
from latlab.formats.checked_toml import as_table, checked, filled, member, only, read_document, table
from latlab.model.diagnosis.layout import STAGES, Layout, ReplayLayout, StageLayout, ThreadLayout
from latlab.words import duration, duration_of, nearest

__all__ = ["STORY", "load_layout", "parse_layout", "slowed", "slowed_by"]

STORY = Layout(
    replay=ReplayLayout(mode="market", delay_ns=60_000),
    stages={
        **Layout().stages,
        "book": StageLayout(count=2, service_ns=8_000),
        "strategy": StageLayout(service_ns=3_000),
    },
    trace_every=4,
)
"""What is diagnosed where nothing is named: a pipeline that keeps up with a market's bursts, drops nothing,
and whose tail is made by its order books, which take longest for an event.
"""


def load_layout(path: str | os.PathLike[str]) -> Layout:
    """Read and check a layout file.

    Raises:
        InputError: that names the file, the key and what it may hold.
    """
    document = read_document(path, remedy="give a layout file (TOML)")
    return parse_layout(document, os.fspath(path))


def parse_layout(document: Mapping[str, Any], source: str) -> Layout:
    """Check a layout given as nested tables.

    Args:
        document: as tomllib gives it.
        source: the name for errors.

    Raises:
        InputError: for an unknown key, a value of another type or out of range, or parts that don't fit.
    """
    # The table "diagnose" is `latlab diagnose`'s own: see `latlab.lab.diagnosis.question`.
    plain_keys, tables = {"name", "pinned"}, {"replay", "stages", "queues", "threads", "memory", "trace"}
    only(document, plain_keys | tables | {"sampler", "diagnose"}, source, "")
    plain: dict[str, Any] = {}
    if "name" in document:
        plain["name"] = checked(document["name"], str, source, "name")
    if "pinned" in document:
        plain["pinned"] = checked(document["pinned"], bool, source, "pinned")
    for name, keys in (
        ("memory", {"pool_capacity": "pool_capacity"}),
        ("trace", {"every": "trace_every"}),
        ("sampler", {"period_ns": "period_ns"}),
    ):
        values = table(document, name, source)
        only(values, set(keys), source, name)
        for key, field in keys.items():
            if key in values:
                plain[field] = checked(values[key], int, source, f"{name}.{key}")
    base = Layout()
    replay = filled(ReplayLayout(), table(document, "replay", source), source, "replay")
    stages = dict(base.stages)
    for stage, values in table(document, "stages", source).items():
        member(stage, STAGES, source, f"stages.{stage}", "stage")
        stages[stage] = _stage(stages[stage], values, source, f"stages.{stage}")
    queues = dict(base.queues)
    for hop, values in table(document, "queues", source).items():
        member(hop, tuple(queues), source, f"queues.{hop}", "hop")
        queues[hop] = filled(queues[hop], as_table(values, source, f"queues.{hop}"), source, f"queues.{hop}")
    layout = Layout(replay=replay, stages=stages, queues=queues, **plain)
    threads = tuple(
        _thread(layout, name, values, source) for name, values in table(document, "threads", source).items()
    )
    layout = dataclasses.replace(layout, threads=threads)
    _fits(layout, source)
    return layout


def slowed(layout: Layout, stage: str, service_ns: int) -> Layout:
    """The layout with service time planted in a stage, or in one instance of it ("book-1").

    Raises:
        UsageError: when there is no such stage or instance, or the time is negative.
    """
    if service_ns < 0:
        raise UsageError(f"a service time of {duration(service_ns)} is negative")
    if stage in layout.stages:
        changed = dataclasses.replace(layout.stages[stage], service_ns=service_ns)
        return dataclasses.replace(layout, stages={**layout.stages, stage: changed})
    for kind in STAGES:
        if stage in layout.instances(kind):
            slow = dict(layout.stages[kind].slow)
            slow[stage] = service_ns
            changed = dataclasses.replace(layout.stages[kind], slow=tuple(slow.items()))
            return dataclasses.replace(layout, stages={**layout.stages, kind: changed})
    names = [*STAGES, *(name for kind in STAGES for name in layout.instances(kind))]
    remedy = f"{nearest(stage, names)} name one of: {', '.join(names)}".lstrip()
    raise UsageError(f"unknown stage '{stage}'", remedy=remedy)


def slowed_by(layout: Layout, planted: Sequence[str]) -> Layout:
    """The layout with service time planted as options say it: "book=30us", or in ns, "book=30000".

    Raises:
        UsageError: for a text that is not a STAGE=DURATION, or no stage of the layout.
    """
    for text in planted:
        stage, _, time = text.partition("=")
        try:
            ns = int(time) if time.isdecimal() else duration_of(time)
        except ValueError:
            raise UsageError(
                f"--slow takes STAGE=DURATION, not {text}", remedy="for example book=30us"
            ) from None
        layout = slowed(layout, stage, ns)
    return layout


def _stage(default: StageLayout, values: Any, source: str, place: str) -> StageLayout:
    rest = dict(as_table(values, source, place))
    cpus = rest.pop("cpus", [])
    slow = rest.pop("slow", {})
    if not isinstance(cpus, list):
        raise InputError(source, f"must be a list of CPU numbers, not {cpus!r}", place=f"{place}.cpus")
    checked_cpus = tuple(checked(cpu, int, source, f"{place}.cpus") for cpu in cpus)
    checked_slow = tuple(
        (name, checked(value, int, source, f"{place}.slow.{name}"))
        for name, value in as_table(slow, source, f"{place}.slow").items()
    )
    plain = filled(_Plain(**_plain_fields(default)), rest, source, place)
    return StageLayout(**_plain_fields(plain), cpus=checked_cpus, slow=checked_slow)


@dataclasses.dataclass(frozen=True)
class _Plain:
    """The fields of a StageLayout that are single values."""

    count: int = 1
    wait: typing.Literal["poll", "block", "hybrid"] = "block"
    spin_ns: int = 20_000
    service_ns: int = 0
    workers: int = 0
    per_book: int = 1


def _plain_fields(stage: StageLayout | _Plain) -> dict[str, Any]:
    return {item.name: getattr(stage, item.name) for item in dataclasses.fields(_Plain)}


def _thread(layout: Layout, name: str, values: Any, source: str) -> ThreadLayout:
    place = f"threads.{name}"
    given = as_table(values, source, place)
    only(given, {"runs", "count"}, source, place)
    runs = given.get("runs")
    if not isinstance(runs, list) or not runs:
        raise InputError(
            source, "must name what the thread runs", place=f"{place}.runs", remedy='runs = ["decoder"]'
        )
    named: list[str] = []
    for item in runs:
        if item in STAGES:
            named += layout.instances(item)
        elif any(item in layout.instances(stage) for stage in STAGES):
            named.append(item)
        else:
            raise InputError(source, f"there is no stage or instance {item!r}", place=f"{place}.runs")
    return ThreadLayout(name, tuple(named), checked(given.get("count", 1), int, source, f"{place}.count"))


def _fits(layout: Layout, source: str) -> None:
    """What each value alone can't tell."""

    def refuse(place: str, what: str, remedy: str | None = None) -> typing.NoReturn:
        raise InputError(source, what, place=place, remedy=remedy)

    for stage, values in layout.stages.items():
        if values.count < 1:
            refuse(f"stages.{stage}.count", "must be at least 1")
        if stage in ("decoder", "market") and values.count != 2:
            refuse(f"stages.{stage}.count", "there are two venues, with one of these each", "leave it out")
        for name, _ in values.slow:
            if name not in layout.instances(stage):
                refuse(
                    f"stages.{stage}.slow.{name}",
                    "there is no such instance",
                    ", ".join(layout.instances(stage)),
                )
    strategy = layout.stages["strategy"]
    if not 1 <= strategy.per_book <= strategy.count:
        refuse("stages.strategy.per_book", f"must be 1 to the number of strategies ({strategy.count})")
    for hop, queue in layout.queues.items():
        if queue.capacity < 1:
            refuse(f"queues.{hop}.capacity", "must be at least 1")
    if layout.pool_capacity < 16:
        refuse("memory.pool_capacity", "must be at least 16")
    if layout.period_ns < 10_000:
        refuse("sampler.period_ns", "must be at least 10000", "a shorter period costs the pipeline its cores")
    if layout.replay.packet_messages < 1 or layout.replay.burst < 1:
        refuse("replay", "packet_messages and burst must be at least 1")
    seen: set[str] = set()
    execution = set(layout.instances("execution"))
    for thread in layout.threads:
        if thread.count < 1:
            refuse(f"threads.{thread.name}.count", "must be at least 1")
        for name in thread.runs:
            if name in seen:
                refuse(f"threads.{thread.name}.runs", f"{name} already has a thread")
            seen.add(name)
        if execution & set(thread.runs) and not set(thread.runs) <= execution:
            refuse(
                f"threads.{thread.name}.runs",
                "execution is another process and shares no thread with the rest",
            )
