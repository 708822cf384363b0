from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="distributed is not installed (extra cluster)")

from latlab.cli._main import main
from latlab.errors import InputError
from latlab.market import generate, stats_archive
from latlab.market.statistics.stats import COLUMNS

# dask leaves sockets to the garbage collector when its workers go.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive") / "days"
    folder.mkdir()
    for seed in range(3):
        generate(folder / f"day{seed}.itch", seed=seed, messages=4_000, symbols=12)
    return folder


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster.scheduler_address


def without_processing_times(path: Path) -> list[list[str]]:
    last = COLUMNS.index("minProcessing")
    return [line.split(",")[:last] for line in path.read_text().splitlines()]


def archive(days: Path, output: Path, *options: str) -> None:
    with pytest.raises(SystemExit) as left:
        main(["market", "stats", str(days), "-o", str(output), *options])
    assert left.value.code == 0


def test_an_archive_over_dask_is_what_one_process_makes_of_it(
    days: Path, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive(days, tmp_path / "one.csv")
    archive(days, tmp_path / "many.csv", "--dask", address)
    assert without_processing_times(tmp_path / "many.csv") == without_processing_times(tmp_path / "one.csv")
    assert capsys.readouterr().err.count("done") == 6


def test_an_archive_goes_on_with_the_days_that_a_killed_run_left(
    days: Path, address: str, tmp_path: Path
) -> None:
    whole = stats_archive(days, tmp_path / "parts", scheduler=address)
    (tmp_path / "parts/day1.itch.inside.part").unlink()
    seen: list[str] = []
    again = stats_archive(days, tmp_path / "parts", scheduler=address, notice=seen.append)
    assert seen == ["day1.itch"]
    assert {n: s.samples for n, s in again.items()} == {n: s.samples for n, s in whole.items()}


def test_a_bad_day_fails_in_one_line_and_keeps_the_others(days: Path, address: str, tmp_path: Path) -> None:
    folder = tmp_path / "days"
    folder.mkdir()
    for day in days.iterdir():
        (folder / day.name).write_bytes(day.read_bytes())
    (folder / "day9.itch").write_bytes(b"\x00\x05D1234")
    with pytest.raises(InputError, match=r"day9\.itch"):
        stats_archive(folder, tmp_path / "parts", scheduler=address)
    (folder / "day9.itch").unlink()
    seen: list[str] = []
    stats_archive(folder, tmp_path / "parts", scheduler=address, notice=seen.append)
    assert len(seen) < 3


def test_a_scheduler_that_nobody_runs_is_one_clear_error(days: Path, tmp_path: Path) -> None:
    from latlab.errors import LatlabError

    with pytest.raises(LatlabError, match=r"127\.0\.0\.1:1"):
        stats_archive(days, tmp_path / "parts", scheduler="tcp://127.0.0.1:1")
