"""Threads that share the symbols: the same bytes as one makes, whatever the input."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from market_framings import packed_capture, soup, units

from latlab.cli._main import main
from latlab.errors import InputError, UsageError
from latlab.market import census, depth, generate, inside


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("market") / "day.itch"
    generate(path, seed=8, messages=6_000, symbols=25)
    return path.read_bytes()


def written(file: Path, out: Path, jobs: int, **options: Any) -> tuple[bytes, Any]:
    """What is written, the lines before an error too; and the census, or the error in words."""
    try:
        done = inside(file, out, jobs=jobs, **options)
    except InputError as error:
        part = out.with_name(out.name + ".part")
        return part.read_bytes() if part.exists() else b"", str(error).replace(out.name, "OUT")
    return out.read_bytes(), done


@pytest.mark.parametrize("jobs", [2, 3, 8])
@pytest.mark.parametrize("framing", ["binary", "gz", "soup", "pcap", "units"])
def test_any_number_of_threads_writes_the_same_lines_of_any_framing(
    tmp_path: Path, day: bytes, framing: str, jobs: int
) -> None:
    made: dict[str, Callable[[], bytes]] = {
        "binary": lambda: day,
        "gz": lambda: gzip.compress(day),
        "soup": lambda: soup(day),
        "pcap": lambda: packed_capture(day),
        "units": lambda: units(300),
    }
    file = tmp_path / "day"
    file.write_bytes(made[framing]())
    assert written(file, tmp_path / "one.txt", 1) == written(file, tmp_path / "more.txt", jobs)


@pytest.mark.parametrize("levels", [1, 3])
def test_tables_of_several_threads_are_those_of_one(tmp_path: Path, day: bytes, levels: int) -> None:
    file = tmp_path / "day.itch"
    file.write_bytes(day + day)  # two days
    for jobs in (1, 2):
        inside(file, tmp_path / f"{jobs}.parquet", jobs=jobs, levels=levels)
    assert pq.read_table(tmp_path / "1.parquet").equals(pq.read_table(tmp_path / "2.parquet"))


def test_census_and_depth_of_several_threads_are_those_of_one(tmp_path: Path, day: bytes) -> None:
    file = tmp_path / "day.itch"
    file.write_bytes(day)
    assert census(file, jobs=3) == census(file)
    assert depth(file, jobs=3) == depth(file)


def test_a_symbol_and_a_period_are_chosen_by_several_threads_as_by_one(tmp_path: Path, day: bytes) -> None:
    file = tmp_path / "day.itch"
    file.write_bytes(day)
    chosen = {"symbols": ("AAAA", "AAAC"), "from_ns": 30_000_000_000_000}
    one = written(file, tmp_path / "one.txt", 1, **chosen)
    assert one == written(file, tmp_path / "more.txt", 2, **chosen)
    assert one[0]


@pytest.mark.parametrize("lenient", [False, True])
def test_damage_is_read_by_several_threads_as_by_one(tmp_path: Path, day: bytes, lenient: bool) -> None:
    """Orders of two symbols, unknown ones, repeated ones: what threads can't know of each other."""
    file = tmp_path / "day.itch"
    anomalies = 0
    for seed in range(25):
        rng = random.Random(seed)
        hurt = bytearray(day)
        for _ in range(rng.choice((1, 1, 30))):
            hurt[rng.randrange(2_000, len(hurt))] ^= 1 << rng.randrange(8)
        file.write_bytes(hurt)
        one = written(file, tmp_path / f"one{seed}.txt", 1, lenient=lenient)
        assert one == written(file, tmp_path / f"more{seed}.txt", 2, lenient=lenient)
        anomalies += not isinstance(one[1], str) and sum(one[1].census.anomalies.values()) > 0
    assert anomalies > (5 if lenient else 0)


def test_a_killed_run_is_resumed_by_several_threads(tmp_path: Path, day: bytes) -> None:
    file = tmp_path / "day.itch"
    file.write_bytes(day)
    whole, _ = written(file, tmp_path / "one.txt", 1)
    (tmp_path / "more.txt.part").write_bytes(whole[: len(whole) // 2])
    assert written(file, tmp_path / "more.txt", 2, resume=True)[0] == whole


def test_the_command_takes_jobs(tmp_path: Path, day: bytes) -> None:
    file = tmp_path / "day.itch"
    file.write_bytes(day)
    with pytest.raises(SystemExit) as left:
        main(["market", "inside", str(file), "--jobs", "2", "-o", str(tmp_path / "out.txt")])
    assert left.value.code == 0
    assert (tmp_path / "out.txt").read_bytes() == written(file, tmp_path / "one.txt", 1)[0]


@pytest.mark.parametrize("jobs", [0, 65])
def test_a_number_of_threads_out_of_range_is_refused(tmp_path: Path, day: bytes, jobs: int) -> None:
    file = tmp_path / "day.itch"
    file.write_bytes(day)
    with pytest.raises(UsageError, match="jobs must be between 1 and 64"):
        census(file, jobs=jobs)
