"""The notebook of the documentation runs, and shows a finding, a table and a picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.files.started import module_of

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs/tutorials/notebook.ipynb"


@pytest.mark.side_by_side
def test_every_cell_of_the_notebook_runs_and_shows_what_it_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    tool = module_of(ROOT / "tools/notebook.py")
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    kept = [sorted(one["data"]) for cell in document["cells"] for one in cell.get("outputs", ())]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    tool.run(document)
    made = [sorted(one["data"]) for cell in document["cells"] for one in cell.get("outputs", ())]
    assert made == kept
    assert {"text/html", "image/svg+xml"} <= {kind for kinds in made for kind in kinds}
