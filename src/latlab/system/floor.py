"""The floor under every latency on this machine: a run of `latlab jitter` that was long enough and that
nobody disturbed, kept to be attached to whatever is measured on its cores afterwards.

It stands in the environment of every recording (``floor.…``), from where reports show it. A run has to earn
it (`refused`), and it holds for the cores that were measured, until the machine starts again.
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
from latlab.model.evidence.machine import FloorRefused, FloorUnknown
from latlab.model.evidence.said import said
from latlab.model.machine.environment import Fact
from latlab.model.machine.jitter import CoreJitter, JitterResult

__all__ = ["FACTS", "LEAST_S", "facts", "floor_files", "refused", "remember"]

SCHEMA = 2  # 1: the last run whatever it was, one figure for all of its cores
LEAST_S = 5.0  # what comes once a second has then come some times
_OTHERS_BUSY = 0.1  # CPUs that others may use meanwhile
_OTHERS_GAPS = 0.01  # of a core's time that other threads may take
FACTS = ("measured_at", "age_s", "seconds", "p50_ns", "p99.9_ns", "max_ns", "gap_share", "gaps_hz", "cores")
_FIGURES = ("p50_ns", "p99.9_ns", "max_ns", "gap_share", "gaps_hz")  # of the worst core


def refused(result: JitterResult) -> str | None:
    """Why a run is no floor; None where it is one.

    A floor is what the machine takes by itself: of a run that was long enough, whole, and without a load.
    """
    shortest = min(core.ns(core.wall_ticks) for core in result.cores) / 1e9
    if not result.whole:
        return said(FloorRefused.BROKEN_OFF)
    if shortest < LEAST_S:
        return said(FloorRefused.SHORT, seconds=shortest, least=LEAST_S)
    if result.others_busy is None:
        return said(FloorRefused.OTHERS_UNKNOWN)
    if result.others_busy > _OTHERS_BUSY:
        return said(FloorRefused.OTHERS_BUSY, cpus=result.others_busy)
    wall = {core.cpu: core.ns(core.wall_ticks) for core in result.cores}
    taken = dict.fromkeys(wall, 0.0)
    for one in result.sources:
        if one.layer == "other threads" and one.cpu in taken:
            taken[one.cpu] += one.total_ns or 0.0
    worst = max(taken, key=lambda cpu: taken[cpu] / wall[cpu])
    if taken[worst] / wall[worst] > _OTHERS_GAPS:
        return said(FloorRefused.OTHER_THREADS, part=taken[worst] / wall[worst], cpu=worst)
    return None


def floor_files(root: Path = Path("/")) -> list[Path]:
    """Where it is looked for, the own one first: the user's state folder, and the one that root writes."""
    shared = root / "var/lib/latlab/jitter-floor.json"
    if root != Path("/"):
        return [shared]
    state = os.environ.get("XDG_STATE_HOME")
    if os.geteuid() == 0 and not state:
        return [shared]
    return [Path(state or Path.home() / ".local/state") / "latlab" / "jitter-floor.json", shared]


def _machine(root: Path = Path("/")) -> dict[str, str]:
    try:
        boot = (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return {"host": socket.gethostname(), "kernel": platform.release(), "boot": boot}


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def remember(cores: Sequence[CoreJitter], others_busy: float | None = None, root: Path = Path("/")) -> Path:
    """Keep a run as the floor of its cores.

    Raises:
        UnavailableError: it can't be written.
    """
    document: dict[str, Any] = {
        "schema": SCHEMA,
        **_machine(root),
        "measured_at": _now().isoformat(timespec="seconds"),
        "others_busy": others_busy,
        "cores": [_figures(core) for core in cores],
    }
    path = floor_files(root)[0]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        documents.write(path, document)
    except OSError as error:
        raise UnavailableError(f"the floor can't be kept in {path} ({error.strerror})") from None
    return path


def _figures(core: CoreJitter) -> dict[str, float]:
    seconds = core.ns(core.wall_ticks) / 1e9 or 1.0
    return {
        "cpu": core.cpu,
        "seconds": round(seconds, 3),
        "p50_ns": core.ns(core.percentile_ticks(50)),
        "p99.9_ns": core.ns(core.percentile_ticks(99.9)),
        "max_ns": core.ns(core.max_ticks),
        "gap_share": core.gap_ticks / (core.wall_ticks or 1),
        "gaps_hz": core.outliers / seconds,
    }


def facts(root: Path = Path("/"), *, cpus: Sequence[int] | None = None) -> dict[str, Fact]:
    """The floor of the cores that this process may use as facts of an environment, or why there is none.

    Never fails.

    Args:
        cpus: in place of those of this process.
    """
    used = sorted(os.sched_getaffinity(0) if cpus is None else cpus)
    why: str = said(FloorUnknown.NOT_MEASURED)
    for path in floor_files(root):
        if not path.is_file():
            continue
        try:
            found = _read(path, used, root)
        except InputError as error:
            found = str(error)
        if not isinstance(found, str):
            return {f"floor.{name}": Fact(found[name]) for name in FACTS}
        why = found
    return {f"floor.{name}": Fact(unavailable=why) for name in FACTS}


def _read(path: Path, used: Sequence[int], root: Path) -> dict[str, Any] | str:
    """The facts of a file, or why it holds none for these cores."""
    document = documents.read(path)
    machine = _machine(root)
    if document.get("schema") != SCHEMA:
        return said(FloorUnknown.OTHER_VERSION)
    if any(document.get(key) != machine[key] for key in ("host", "kernel")):
        return said(FloorUnknown.OTHER_MACHINE)
    if document.get("boot") != machine["boot"]:
        return said(FloorUnknown.EARLIER_START)
    try:
        cores = {int(one["cpu"]): one for one in document["cores"]}
        if missing := sorted(set(used) - set(cores)):
            return said(FloorUnknown.OTHER_CPUS, cpu=missing[0], cpus=",".join(map(str, used)))
        chosen = [cores[cpu] for cpu in used]
        age = (_now() - datetime.datetime.fromisoformat(document["measured_at"])).total_seconds()
        return {
            "measured_at": str(document["measured_at"]),
            "age_s": round(max(0.0, age)),
            "seconds": float(min(one["seconds"] for one in chosen)),
            **{name: float(max(one[name] for one in chosen)) for name in _FIGURES},
            "cores": [
                said(
                    FloorUnknown.CORE,
                    cpu=one["cpu"],
                    p50_ns=one["p50_ns"],
                    p99_9_ns=one["p99.9_ns"],
                    max_ns=one["max_ns"],
                    gaps_hz=one["gaps_hz"],
                )
                for one in chosen
            ],
        }
    except (KeyError, TypeError, ValueError):
        return said(FloorUnknown.NOT_A_FLOOR, path=str(path))
