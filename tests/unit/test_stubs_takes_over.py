"""What is said to limit next, from a profile of a run with the flat stub."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from latlab.stubs.studies.takes_over import takes_over

WALL_NS = 1_000_000_000


def lab(folder: Path, rows: dict[str, tuple[float, int]]) -> Any:
    """One whose run leaves this profile: of each function its part of the run on a CPU, and its samples."""
    text = "".join(f"{round(cpu * WALL_NS)} {seen} {name}\n" for name, (cpu, seen) in rows.items())
    (folder / "1.profile").write_text(text)
    return SimpleNamespace(
        state=folder,
        plan=SimpleNamespace(kind="python", component="work:parse"),
        run=lambda *_, **__: SimpleNamespace(wall_ns=WALL_NS),
    )


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"__main__:<module>": (0.2, 400), "work:other": (0.1, 60), "work:parse": (0.6, 100)}, None),
        ({"__main__:<module>": (0.1, 400), "work:other": (0.2, 60)}, "work:other"),
        ({"__main__:<module>": (0.1, 400), "work:other": (0.5, 60)}, "work:other"),
        ({"__main__:<module>": (0.1, 400), "work:other": (0.2, 300)}, "waiting in work:other"),
    ],
)
def test_a_scripts_own_level_that_hardly_runs_is_not_named(
    rows: dict[str, tuple[float, int]], said: str | None, tmp_path: Path
) -> None:
    assert takes_over(lab(tmp_path, rows)) == said
