"""latlab from Python: a program is diagnosed by a function, and the result shows itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import latlab
from latlab.errors import UsageError


@pytest.mark.side_by_side
def test_a_program_is_diagnosed_by_a_function(tmp_path: Path) -> None:
    program = (
        "import threading\nt = threading.Thread(target=sum, args=(range(30_000_000),))\nt.start(); t.join()"
    )
    found = latlab.diagnose([sys.executable, "-c", program], forecast=False, output=tmp_path / "run")
    assert found.report.is_file()
    assert found.sentence in repr(found)
    assert "<b>" in found._repr_html_()
    assert found.to_dict()["sentence"] == found.sentence
    assert found.sentence.split()[0] in str(found)
    shown = subprocess.run(
        [sys.executable, "-m", "latlab", "show", str(found.folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == str(found).split()


@pytest.mark.side_by_side
def test_the_roles_are_a_data_frame(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    found = latlab.diagnose(["sleep", "0.3"], forecast=False, output=tmp_path / "run")
    frame = found.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["role", "threads", "running", "runnable", "blocked"]


@pytest.mark.side_by_side
@pytest.mark.parametrize("target", [{}, {"target": "true", "pid": 1}])
def test_neither_or_two_targets_are_refused(target: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="a command or pid="):
        latlab.diagnose(**target)


@pytest.mark.side_by_side
def test_importing_latlab_imports_nothing_heavy() -> None:
    program = "import sys, latlab; sys.exit(any(m in sys.modules for m in ('numpy', 'click', 'typing')))"
    assert (
        subprocess.run(
            [sys.executable, "-S", "-c", program],
            check=False,
            env={"PYTHONPATH": str(Path(latlab.__file__).parents[1])},
        ).returncode
        == 0
    )
