"""Before a study: a few runs that say what it would be, how long it takes, how wide its answer would be."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from latlab.errors import UsageError
from latlab.model.evidence.said import said
from latlab.model.evidence.studies import ValidationSaid
from latlab.stubs.components import trace as _trace
from latlab.stubs.studies import runner as _lab
from latlab.stubs.studies import steps as _steps
from latlab.stubs.studies.question import StudyPlan, least_seconds, rounds_within
from latlab.stubs.studies.sameness import outside as _outside
from latlab.stubs.studies.sameness import validate as _validate
from latlab.system.scratch import scratch

#: Seconds for the runs of a rehearsal; one more is not begun after them.
BUDGET_S = 3.0


def rehearse(plan: StudyPlan, command: Sequence[str]) -> dict[str, Any]:
    """What a study would be, from a few runs.

    Returns:
        calls, threads and processes of the component; its work and waits in ns; whether two runs make the
        same results (None: not looked at); what calls change, and how many were looked at; whether the output
        was compared with the stub's, and what differs; the typical run of how many, a study's least time,
        and half the width of the 95 % interval of its gain in the time that is asked for, as these runs tell.

    Raises:
        LatlabError: the command fails, or the component can't be recorded.
        UsageError: the component is never called, or its waits are asked for and it has none.
    """
    _lab.check_command(list(command))
    until = time.monotonic() + BUDGET_S
    with scratch("stubs") as folder:
        lab = _lab.Lab(list(command), plan, folder)
        walls = [lab.run("original").wall_ns]
        units = lab.measure()
        if not units:
            raise UsageError(
                f"'{plan.component}' is never called by the command",
                remedy=_outside.NEVER_CALLED[plan.kind],
            )
        _steps.require_waits(plan, units)
        changes = _outside.Changes()
        same: bool | None = None
        compared = False
        differs: str | None = None
        if plan.kind == "python":
            changes = _outside.kept(lab)
            first = _results(lab, plan.component)
            if time.monotonic() < until:
                lab.run("record")
                same = (
                    _validate.recordings_differ(plan.component, first, _results(lab, plan.component)) is None
                )
        while len(walls) < 3 and time.monotonic() < until:
            walls.append(lab.run("original").wall_ns)
        if same and time.monotonic() < until:
            lab.keep(units)
            lab.patience_s = BUDGET_S
            try:
                differs = _outside.output_differs(lab)
            except _lab.LateError:
                differs = said(ValidationSaid.LATE, limit_s=lab.limit_s())
            compared = True
    typical = float(np.median(walls)) / 1e9
    rounds = rounds_within(plan.seconds, typical)
    scatter = float(np.std(np.log(walls), ddof=1)) if len(walls) > 1 else math.nan
    return {
        "schema": 1,
        "component": plan.component,
        "calls": sum(len(unit.times) for unit in units.values()),
        "threads": len(units),
        "processes": len({process for process, _ in units}),
        "busy_ns": sum(unit.busy_ns for unit in units.values()),
        "blocked_ns": sum(unit.blocked_ns for unit in units.values()),
        "deterministic": same,
        "keeps": list(changes.kept),
        "not_kept": dict(changes.lost),
        "differs": differs,
        "looked_at": changes.looked,
        "compared": compared,
        "run_ns": round(typical * 1e9),
        "runs": len(walls),
        "cpus": os.cpu_count(),
        "seconds": plan.seconds,
        "least_seconds": least_seconds(typical),
        "half_width": 1.96 * scatter * math.sqrt(2 / max(1.0, rounds)) if len(walls) > 1 else None,
    }


def _results(lab: _lab.Lab, name: str) -> dict[str, list[_trace.Definition]]:
    found = {path.stem: _trace.read(path) for path in sorted(lab.state.glob("*.trace"))}
    return {
        process: definitions
        for process, definitions in found.items()
        if any(definition.name == name for definition in definitions)
    }
