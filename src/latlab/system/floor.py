"""The floor under every latency on this machine: the last run of `latlab jitter`, kept to be attached to
whatever is measured here afterwards.

It stands in the environment of every recording (``floor.…``), from where reports show it.
"""

from __future__ import annotations

import datetime
import os
import platform
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from latlab.errors import InputError, UnavailableError
from latlab.formats import documents
from latlab.model.machine.environment import Fact
from latlab.model.machine.jitter import CoreJitter
from latlab.words import duration

__all__ = ["FACTS", "facts", "floor_files", "remember"]

FACTS = ("measured_at", "seconds", "p50_ns", "p99.9_ns", "max_ns", "gap_share", "gaps_hz", "cores")
_MAKE = "measure it with `latlab jitter`"


def floor_files(root: Path = Path("/")) -> list[Path]:
    """Where it is looked for, the own one first: the user's state folder, and the one that root writes."""
    shared = root / "var/lib/latlab/jitter-floor.json"
    if root != Path("/"):
        return [shared]
    state = os.environ.get("XDG_STATE_HOME")
    if os.geteuid() == 0 and not state:
        return [shared]
    return [Path(state or Path.home() / ".local/state") / "latlab" / "jitter-floor.json", shared]


def _machine() -> dict[str, str]:
    return {"host": socket.gethostname(), "kernel": platform.release()}


def remember(cores: Sequence[CoreJitter], root: Path = Path("/")) -> Path:
    """Keep a run as this machine's floor; the worst core's figures stand for all.

    Raises:
        UnavailableError: it can't be written.
    """
    longest = max(cores, key=lambda core: core.ns(core.max_ticks))
    seconds = [core.ns(core.wall_ticks) / 1e9 or 1.0 for core in cores]
    document: dict[str, Any] = {
        "schema": 1,
        **_machine(),
        "measured_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seconds": round(max(seconds), 3),
        "p50_ns": max(core.ns(core.percentile_ticks(50)) for core in cores),
        "p99.9_ns": max(core.ns(core.percentile_ticks(99.9)) for core in cores),
        "max_ns": longest.ns(longest.max_ticks),
        "gap_share": max(core.gap_ticks / (core.wall_ticks or 1) for core in cores),
        "gaps_hz": max(core.outliers / s for core, s in zip(cores, seconds, strict=True)),
        "cores": [
            f"CPU {core.cpu}: p50 {duration(core.ns(core.percentile_ticks(50)))}, "
            f"p99.9 {duration(core.ns(core.percentile_ticks(99.9)))}, "
            f"max {duration(core.ns(core.max_ticks))}, "
            f"{core.outliers / s:.0f} gaps/s"
            for core, s in zip(cores, seconds, strict=True)
        ],
    }
    path = floor_files(root)[0]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        documents.write(path, document)
    except OSError as error:
        raise UnavailableError(f"the floor can't be kept in {path} ({error.strerror})") from None
    return path


def facts(root: Path = Path("/")) -> dict[str, Fact]:
    """The floor as facts of an environment, or why there is none; never fails."""
    why = f"not measured on this machine yet; {_MAKE}"
    for path in floor_files(root):
        if not path.is_file():
            continue
        try:
            document = documents.read(path)
        except InputError as error:
            why = str(error)
            continue
        if {key: document.get(key) for key in _machine()} != _machine():
            why = f"measured on another machine or kernel; {_MAKE}"
            continue
        if all(isinstance(document.get(name), str | int | float | list) for name in FACTS):
            return {f"floor.{name}": Fact(document[name]) for name in FACTS}
        why = f"{path} is not a floor; {_MAKE}"
    return {f"floor.{name}": Fact(unavailable=why) for name in FACTS}
