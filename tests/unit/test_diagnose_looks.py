"""A look at the pipeline while a neighbour on the host took the machine away is not the last one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from latlab.lab.diagnosis.applications import trading_pipeline
from latlab.lab.trading.demo import DemoOptions
from latlab.lab.trading.layout import parse_layout

QUIET: dict[str, Any] = {"disturbed": None}
STOLEN: dict[str, Any] = {"disturbed": "the hypervisor took 0.50 of 2 CPUs", "unseen": True}
HOG: dict[str, Any] = {"disturbed": "other processes took 0.50 of 2 CPUs", "unseen": False}


def observe(
    planned: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> tuple[Any, list[str]]:
    """(the run that was taken, what was told), of looks that go as planned."""
    left = iter(planned)

    def run_pipeline(layout: Any, feeds: Any, output: Path, **_: Any) -> Any:
        one = {"unseen": False, "limiting_stage": None, "seconds": 2.0, **next(left)}
        output.mkdir()
        (output / "look").write_text(str(len(list(tmp_path.iterdir()))))
        found = SimpleNamespace(
            limiting_stage=one.pop("limiting_stage"), of_run=SimpleNamespace(seconds=one.pop("seconds"))
        )
        return SimpleNamespace(watched=SimpleNamespace(diagnosis=found), **one)

    monkeypatch.setattr(trading_pipeline, "run_pipeline", run_pipeline)
    options = DemoOptions(
        layout=parse_layout({}, "as it comes"), seconds=2.0, output=tmp_path / "observation"
    )
    told: list[str] = []
    place: Any = SimpleNamespace(environment=None, tell=told.append)
    run = trading_pipeline.observe_pipeline(options, [], place)
    assert next(left, None) is None, "fewer looks than planned"
    return run, told


def test_a_stolen_machine_is_looked_at_again_and_the_look_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run, told = observe([STOLEN, QUIET], monkeypatch, tmp_path)
    assert run.disturbed is None
    assert len(told) == 1
    assert "the hypervisor took 0.50 of 2 CPUs" in told[0]
    assert "disturbed-1" in told[0]
    assert (tmp_path / "disturbed-1" / "look").read_text() == "1"
    assert (tmp_path / "observation" / "look").read_text() == "2"


def test_what_lasts_is_said_after_three_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run, told = observe([STOLEN, STOLEN, STOLEN], monkeypatch, tmp_path)
    assert run.disturbed == STOLEN["disturbed"]
    assert len(told) == 2


@pytest.mark.parametrize(
    "look",
    [QUIET, HOG, {**STOLEN, "limiting_stage": "book"}, {**STOLEN, "seconds": 0.5}],
    ids=["quiet", "a process that can be seen", "a stage is named", "interrupted"],
)
def test_any_other_look_is_the_only_one(
    look: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, told = observe([look], monkeypatch, tmp_path)
    assert told == []
