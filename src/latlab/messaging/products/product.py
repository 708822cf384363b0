"""What the transports of the Python loop share: defaults of facts, unique names, untyped modules."""

from __future__ import annotations

import importlib
import itertools
import os
from typing import Any

from latlab.model.messaging.results import Facts

_SERIAL = itertools.count()
DIRECT = ("broker", "direct")


def describe(name: str, title: str, at: str, **rest: Any) -> Facts:
    """Facts of a product: lossless, ordered and of the extra `brokers` unless said otherwise."""
    defaults: dict[str, Any] = {"lossless": True, "ordered": True, "max_bytes": 16 << 20, "extra": "brokers"}
    return Facts(name, title, received_at=at, **{**defaults, **rest})


def module(name: str) -> Any:
    """A product's module, untyped: its stubs depend on its version and on whether it is installed."""
    return importlib.import_module(name)


def unique_name() -> str:
    """A name that no other run uses."""
    return f"latlab-{os.getpid()}-{next(_SERIAL)}"
