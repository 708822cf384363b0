"""The null control: what this host does with identical code is kept; it is refused verdicts if it fails."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from latlab.formats import documents
from latlab.model.bench import Control

__all__ = ["control_of", "host", "refusal", "remember"]


def control_of(comparisons: int, called_different: int, alpha: float) -> Control:
    """The control's rate with its bounds."""
    from latlab.stats.experiments.multiple import proportion_bounds

    low, high = proportion_bounds(called_different, comparisons)
    return Control(comparisons, called_different, high, low, alpha)


def host() -> str:
    """What must be the same for a control to count: the machine and its kernel."""
    return f"{platform.node()} {platform.machine()} {platform.release()} {os.cpu_count()}"


def path() -> Path:
    """Where the last control of each host is kept."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "latlab" / "bench-control.json"


def remember(control: Control, what: str) -> None:
    """Keep a control as this host's last."""
    known = dict(_known())
    known[host()] = {
        "comparisons": control.comparisons,
        "called_different": control.called_different,
        "alpha": control.alpha,
        "what": what,
    }
    path().parent.mkdir(parents=True, exist_ok=True)
    documents.write(path(), {"schema": 1, "hosts": known})


def refusal() -> str | None:
    """Why this host's verdicts are refused, or None: it hasn't failed a control."""
    last = _known().get(host())
    if not isinstance(last, dict):
        return None
    try:
        control = control_of(last["comparisons"], last["called_different"], last["alpha"])
    except (KeyError, TypeError, ValueError):
        return None
    if not control.failed:
        return None
    return (
        f"this host failed its null control: it called {control.called_different} of "
        f"{control.comparisons} identical "
        f"comparisons of {last.get('what', 'a fixture')} different at level {control.alpha:g}; quieten it "
        f"(latlab system check) and repeat latlab bench aa"
    )


def _known() -> Mapping[str, Any]:
    try:
        hosts = json.loads(path().read_text())["hosts"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # no control, or none that can be read, is not a failed one
    return hosts if isinstance(hosts, dict) else {}
