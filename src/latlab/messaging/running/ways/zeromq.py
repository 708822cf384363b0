"""ZeroMQ by the native loop: libzmq opened at run time, from pyzmq's wheel or from the system."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from latlab.errors import MissingExtraError
from latlab.messaging.running.processes import free_port
from latlab.model.messaging.results import Facts, Settings

_SERIAL = itertools.count()


def library() -> str | None:
    """The path of pyzmq's own libzmq, "" for the system's, None where there is neither."""
    spec = importlib.util.find_spec("zmq")
    if spec is not None and spec.origin is not None:
        bundled = sorted((Path(spec.origin).parents[1] / "pyzmq.libs").glob("libzmq*.so*"))
        if bundled:
            return str(bundled[0])
    import ctypes.util

    return "" if ctypes.util.find_library("zmq") else None


def addresses(name: str) -> tuple[str, str]:
    """Two addresses that nobody else uses. Those of ipc are abstract: no file is left behind."""
    serial = next(_SERIAL)
    if name == "zeromq-inproc":
        return f"inproc://latlab-{serial}-a", f"inproc://latlab-{serial}-b"
    if name == "zeromq-ipc":
        stem = f"ipc://@latlab-{os.getpid()}-{serial}"
        return f"{stem}-a", f"{stem}-b"
    return f"tcp://127.0.0.1:{free_port()}", f"tcp://127.0.0.1:{free_port()}"


def set_up(stage: Any, settings: Settings, facts: Facts, start_broker: Callable[[str, str], None]) -> None:
    """PUSH and PULL, the receiving side bound, a broker of ours between two such hops.

    Raises:
        MissingExtraError: without libzmq.
    """
    path = library()
    if path is None:
        raise MissingExtraError("pyzmq", "brokers")
    stage.library = path
    first, second = addresses(facts.name)
    if settings.topology == "direct":
        stage.out, stage.in_ = f"zeromq:push:connect:{first}", f"zeromq:pull:bind:{first}"
        return
    # Who binds comes first: the broker its input, we our input; both connect their outputs afterwards or
    # before,
    # as ZeroMQ allows for every transport but old inproc.
    stage.out, stage.in_ = f"zeromq:push:connect:{first}", f"zeromq:pull:bind:{second}"
    start_broker(f"zeromq:pull:bind:{first}", f"zeromq:push:connect:{second}")
