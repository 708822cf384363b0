"""Queues and clients of one's own as transports: shared objects with the C face of messaging_plugin.h."""

from __future__ import annotations

import itertools
from pathlib import Path

from latlab.errors import UsageError
from latlab.messaging.running.ways.links import ALL, Link
from latlab.model.messaging.results import Facts, Settings

__all__ = ["facts_of_plugin", "is_plugin", "open_at", "open_plugin"]

_NUMBERS = itertools.count()  # of the ways through plug-ins of this process
_HOW = "it has to export latlab_messaging_plugin(): see latlab/messaging_plugin.h and messaging_queue.hpp"


def is_plugin(name: str) -> bool:
    """Whether a transport's name is the path of a shared object, with options of its own behind a '?'."""
    return name.partition("?")[0].endswith(".so")


def facts_of_plugin(name: str) -> Facts:
    """What a shared object says of itself.

    Raises:
        UsageError: where there is none, or it is none that can be measured.
    """
    from latlab._core import messaging as core

    path = Path(name.partition("?")[0])
    if not path.is_file():
        raise UsageError(
            f"there is no file '{path}'", remedy="build the plug-in first: g++ -O3 -shared -fPIC …"
        )
    try:
        found = core.plugin(str(path.resolve()))
    except ValueError as error:
        raise UsageError(f"{path} is not a messaging plug-in: {error}", remedy=_HOW) from None
    return Facts(
        found["name"], found["title"], not found["may_lose"], not found["may_reorder"],
        max(1, min(found["max_bytes"], 1 << 30)), "application, after the plug-in's receive", "native", ALL,
        ("poll", "block") if found["can_block"] else ("poll",), plugin=True,
    )  # fmt: skip


def open_plugin(settings: Settings) -> Link:
    """A fresh way through the plug-in that a run asks for, within this process."""
    return open_at(settings.transport, settings)


def open_at(place: str, settings: Settings) -> Link:
    """A fresh way through the plug-in at PATH[?OPTIONS]."""
    path, question, options = place.partition("?")
    capacity = 0 if settings.buffer_bytes is None else max(1, settings.buffer_bytes // settings.size)
    way = f"plugin:{next(_NUMBERS)}:{capacity}:{Path(path).resolve()}{question}{options}"
    return Link(way, way)
