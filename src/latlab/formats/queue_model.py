"""Queueing models as TOML, to be read, changed by hand and simulated.

    schema = 1

    [[source]]            # what comes from outside
    queue = "feed-a"
    rate_hz = 50000.0
    variation = 1.0       # of the gaps; or: period_us = 1000.0 and counts = [49, 51, …], as recorded
    drops = true          # what finds the queue full is lost; else it waits
    saturated = false     # there is always another event
    most_hz = 2000        # of a saturated one, what it gives while there is room; left out: unknown

    [[stage]]
    name = "book-0"
    type = "book"         # may be left out
    service_us = 1.7
    variation = 1.0       # coefficient of variation
    workers = 1
    interrupted = 0.001   # of so many events the service is interrupted, and takes longer by a mean of …
    interruption_us = 5000.0
    joins = false         # it takes one event of each of its inputs for each that it serves

    [[queue]]
    name = "market-a.book-0"
    source = "market-a"   # a stage, or what comes from outside
    drain = "book-0"
    capacity = 4096       # 0: unbounded
    share = 0.5           # events put in for each that the source takes
    initial = 0           # of a circle: events in it at the beginning

Version history: 1, the first.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from typing import Any

from latlab.errors import InputError
from latlab.formats.documents import dumps
from latlab.formats.trusted import read_file
from latlab.model.queues.queueing import ModelQueue, ModelSource, ModelStage, QueueingModel

__all__ = ["model_text", "read_model"]

_MOST_BYTES = 16 << 20


def model_text(model: QueueingModel) -> str:
    """The TOML document of a model."""
    lines = ["schema = 1"]
    for source in model.sources:
        lines += ["", "[[source]]", f"queue = {_quoted(source.queue)}", f"rate_hz = {source.rate_hz:.6g}"]
        lines += [f"variation = {source.variation:g}"]
        lines += [f"{key} = true" for key in ("drops", "saturated") if getattr(source, key)]
        lines += [f"most_hz = {source.most_hz:.6g}"] if source.most_hz else []
        if source.counts:
            lines += [f"period_us = {source.period_ns / 1e3:g}", f"counts = {dumps(source.counts)}"]
    for stage in model.stages:
        lines += ["", "[[stage]]", f"name = {_quoted(stage.name)}"]
        lines += [f"type = {_quoted(stage.type)}"] if stage.type else []
        lines += [f"service_us = {stage.service_ns / 1e3:.6g}", f"variation = {stage.variation:g}"]
        lines += [f"workers = {stage.workers}"]
        if stage.interrupted:
            lines += [f"interrupted = {stage.interrupted:.6g}"]
            lines += [f"interruption_us = {stage.interruption_ns / 1e3:.6g}"]
        lines += ["joins = true"] if stage.joins else []
    for queue in model.queues:
        lines += ["", "[[queue]]", f"name = {_quoted(queue.name)}", f"source = {_quoted(queue.source)}"]
        lines += [f"drain = {_quoted(queue.drain)}", f"capacity = {queue.capacity}"]
        lines += [f"share = {queue.share:g}"]
        lines += [f"initial = {queue.initial}"] if queue.initial else []
    return "\n".join([*lines, ""])


def read_model(path: str | os.PathLike[str]) -> QueueingModel:
    """Read a model.

    Raises:
        InputError: when it can't be read; with the file, the place and what to do.
    """
    try:
        document = tomllib.loads(read_file(path, _MOST_BYTES).decode("utf-8"))
    except OSError as error:
        raise InputError(path, f"can't be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(path, f"is not valid TOML ({error})") from None
    if document.get("schema") != 1:
        raise InputError(
            path, "is not a queueing model of schema 1", remedy="'latlab queues model RUN -o FILE' makes one"
        )
    unknown = document.keys() - {"schema", "source", "stage", "queue"}
    if unknown:
        raise InputError(path, f"unknown table '{min(unknown)}'", remedy="there are: source, stage, queue")
    sources = tuple(_source(_Table(path, "source", i, t)) for i, t in _tables(path, document, "source"))
    stages = tuple(_stage(_Table(path, "stage", i, t)) for i, t in _tables(path, document, "stage"))
    queues = tuple(_queue(_Table(path, "queue", i, t)) for i, t in _tables(path, document, "queue"))
    names = [stage.name for stage in stages]
    for kind, seen in (("stage", names), ("queue", [queue.name for queue in queues])):
        twice = next((name for name in seen if seen.count(name) > 1), None)
        if twice is not None:
            raise InputError(path, f"two of the name '{twice}'", place=kind)
    for queue in queues:
        if queue.drain not in names:
            raise InputError(path, f"'{queue.drain}' is not a stage of it", place=f"queue {queue.name}.drain")
    return QueueingModel(sources, stages, queues)


def _source(table: _Table) -> ModelSource:
    counts = table.take("counts", list, [])
    if not all(isinstance(count, int) and not isinstance(count, bool) and count >= 0 for count in counts):
        raise table.error("counts", "must be whole numbers from 0")
    period_ns = round(table.number("period_us", 0.0) * 1e3)
    if counts and period_ns < 1:
        raise table.error("period_us", "is missing: how long is a period of the counts?")
    result = ModelSource(
        table.take("queue", str),
        table.number("rate_hz"),
        table.number("variation", 1.0),
        table.take("drops", bool, False),
        table.take("saturated", bool, False),
        period_ns,
        tuple(counts),
        table.number("most_hz", 0.0) or None,
    )
    table.done()
    return result


def _stage(table: _Table) -> ModelStage:
    workers = table.take("workers", int, 1)
    if workers < 1:
        raise table.error("workers", "must be at least 1")
    result = ModelStage(
        table.take("name", str),
        table.number("service_us") * 1e3,
        table.number("variation", 1.0),
        workers,
        table.take("type", str, ""),
        table.number("interrupted", 0.0),
        table.number("interruption_us", 0.0) * 1e3,
        table.take("joins", bool, False),
    )
    if result.interrupted > 1:
        raise table.error("interrupted", "must not be above 1: it is a share of the events")
    table.done()
    return result


def _queue(table: _Table) -> ModelQueue:
    capacity = table.take("capacity", int, 0)
    initial = table.take("initial", int, 0)
    if capacity < 0 or initial < 0:
        raise table.error("capacity" if capacity < 0 else "initial", "must not be negative")
    result = ModelQueue(
        table.take("name", str),
        table.take("source", str, ""),
        table.take("drain", str),
        capacity,
        table.number("share", 1.0),
        initial,
    )
    table.done()
    return result


class _Table:
    """One table of the document; it knows where it stands, for messages."""

    def __init__(self, path: str | os.PathLike[str], kind: str, number: int, values: Mapping[str, Any]):
        self._path, self._where, self._values = path, f"{kind} {number + 1}", dict(values)

    def take(self, key: str, kind: type, default: Any = None) -> Any:
        value = self._values.pop(key, default)
        if value is None:
            raise self.error(key, "is missing")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(key, f"is {value!r}, not of type {kind.__name__}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._values.pop(key, default)
        if value is None:
            raise self.error(key, "is missing")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
            raise self.error(key, f"is {value!r}, not a number from 0 on")
        return float(value)

    def done(self) -> None:
        if self._values:
            raise self.error(min(self._values), "is unknown")

    def error(self, key: str, what: str) -> InputError:
        return InputError(self._path, what, place=f"{self._where}.{key}")


def _tables(
    path: str | os.PathLike[str], document: Mapping[str, Any], kind: str
) -> list[tuple[int, Mapping[str, Any]]]:
    tables = document.get(kind, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InputError(path, f"write [[{kind}]]", place=kind)
    return list(enumerate(tables))


def _quoted(text: str) -> str:
    return dumps(text)
