"""What a dry run of a study says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from latlab.errors import UsageError
from latlab.reports.stubs.text import rehearsal
from latlab.stubs.studies.question import StudyPlan
from latlab.stubs.studies.runner import Unit
from latlab.stubs.studies.steps import require_waits

FOUND: dict[str, Any] = {
    "component": "work:step", "calls": 9, "threads": 1, "processes": 1, "busy_ns": 5_000_000, "blocked_ns": 0,
    "run_ns": 90_000_000, "runs": 2, "deterministic": True, "keeps": [], "not_kept": {}, "looked_at": 9,
    "compared": True, "differs": None, "seconds": 30.0, "least_seconds": 3.8, "half_width": 0.01,
}  # fmt: skip


def test_state_changes_are_told_where_none_were_found() -> None:
    assert "no change was found in what its calls reach (9 of 9 looked at)" in rehearsal(FOUND)
    assert "is not looked at" in rehearsal({**FOUND, "looked_at": 0})
    assert "no change" not in rehearsal({**FOUND, "keeps": ["self.n"]})


def test_what_was_not_compared_is_told() -> None:
    assert "not compared" not in rehearsal(FOUND)
    assert "is not compared yet" in rehearsal({**FOUND, "compared": False})


def test_the_width_names_the_runs_that_it_is_judged_by() -> None:
    assert "judged by 2 of them" in rehearsal(FOUND)


@pytest.mark.parametrize("faster", ["wait", "both"])
def test_waits_of_a_component_that_has_none_are_refused(faster: str) -> None:
    works = {("a", 0): Unit(np.array([[1000, 0], [2000, 0]]), 0, 9000)}
    waits = {("a", 0): Unit(np.array([[1000, 500]]), 0, 9000)}
    with pytest.raises(UsageError, match="does not wait"):
        require_waits(StudyPlan("work:step", faster=faster), works)
    require_waits(StudyPlan("work:step", faster=faster), waits)
    require_waits(StudyPlan("work:step"), works)
