"""The example of a linear search builds with the generated specification and runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_linear_search_is_measured_against_its_stub_and_drawn(tmp_path: Path) -> None:
    if shutil.which("castxml", path=str(Path(sys.executable).parent)) is None and not shutil.which("castxml"):
        pytest.skip("castxml is not installed")
    command = [sys.executable, str(ROOT / "examples/stubs/linear_search.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["1", "20", "400"]
    assert "squared coefficient of variation" in (tmp_path / "linear-search.html").read_text()
