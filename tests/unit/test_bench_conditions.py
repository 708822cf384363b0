from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from latlab.bench.measuring import conditions as _conditions
from latlab.bench.measuring import probes as _probes
from latlab.bench.measuring.conditions import Knobs
from latlab.bench.results.targets import Target

TARGET = Target("command", "true", command=("true",))


def governors(folder: Path, monkeypatch: pytest.MonkeyPatch, offered: str = "powersave performance") -> Path:
    (folder / "cpu0").mkdir()
    (folder / "cpu0" / "scaling_governor").write_text("schedutil\n")
    (folder / "cpu0" / "scaling_available_governors").write_text(offered)
    monkeypatch.setitem(_conditions.FILES, "governor", str(folder / "cpu*" / "scaling_governor"))
    return folder / "cpu0" / "scaling_governor"


def loop(file: Path, slow: float) -> Callable[[int], float]:
    """A processor whose loop is slower under powersave."""
    return lambda _: slow if file.read_text() == "powersave" else 10.0


def test_a_governor_that_moves_the_clock_is_seen_and_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = governors(tmp_path, monkeypatch)
    monkeypatch.setattr(_probes, "loop_ns", loop(file, 25.0))
    with Knobs(["governor"]) as knobs:
        found = _probes.probe("governor", ("powersave", "performance"), knobs, 0, 99)
    assert (found.effective, found.why) == (True, "the clock moved by a factor of 2.5")
    assert found.figures == {"powersave": 25.0, "performance": 10.0}
    assert file.read_text() == "schedutil"


def test_a_governor_that_moves_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_probes, "loop_ns", loop(governors(tmp_path, monkeypatch), 10.1))
    with Knobs(["governor"]) as knobs:
        found = _probes.probe("governor", ("powersave", "performance"), knobs, 0, 99)
    assert (found.effective, found.why) == (False, "the clock did not move under load")


def test_a_file_that_takes_the_text_and_forgets_it_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = governors(tmp_path, monkeypatch)
    file.unlink()
    file.symlink_to("/dev/null")
    with Knobs(["governor"]) as knobs:
        assert str(knobs.write("governor", "performance")).endswith("reads back ''")
        found = _probes.probe("governor", ("powersave", "performance"), knobs, 0, 99)
    assert found.effective is None
    assert "could not be tried" in found.why


def test_a_machine_without_the_knob_or_the_level_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    governors(tmp_path, monkeypatch, offered="schedutil performance")
    assert _conditions.available("governor", TARGET) == "only schedutil, performance are offered"
    monkeypatch.setitem(_conditions.FILES, "governor", str(tmp_path / "none"))
    assert str(_conditions.available("governor", TARGET)).startswith("this machine has no")


@pytest.mark.parametrize(
    ("limited", "free", "effective"), [(50.0, 0.2, True), (0.3, 0.2, False), (50.0, 49.0, False)]
)
def test_a_limit_counts_where_it_throttles_and_its_absence_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limited: float, free: float, effective: bool
) -> None:
    (tmp_path / "limit").write_text("950000")
    (tmp_path / "server").write_text("50000000")
    monkeypatch.setitem(_conditions.FILES, "rt_limit", str(tmp_path / "limit"))
    monkeypatch.setitem(_conditions.FILES, "fair_server", str(tmp_path / "server"))
    others = []

    def gap(_: int) -> float:
        others.append((tmp_path / "server").read_text())
        return limited if (tmp_path / "limit").read_text() == "950000" else free

    monkeypatch.setattr(_probes, "_gap_ms", gap)
    with Knobs(["rt_limit"]) as knobs:
        found = _probes.probe("rt_limit", ("950000", "-1"), knobs, 0, 99)
    assert found.effective is effective
    assert others == ["0", "0"]  # the fair server was out of the way
    assert [(tmp_path / name).read_text() for name in ("limit", "server")] == ["950000", "50000000"]


def test_a_file_that_can_not_be_opened_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (
        tmp_path / "runtime"
    ).mkdir()  # as under a locked-down kernel, whose root may not open what the mode allows
    monkeypatch.setitem(_conditions.FILES, "fair_server", str(tmp_path / "runtime"))
    assert str(_conditions.available("fair_server", TARGET)).endswith("runtime: Is a directory")
