from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pytest
from tests.files.started import called

from latlab.errors import InputError, UsageError
from latlab.market import generate


def test_a_generated_day_has_the_same_bytes_on_every_machine(tmp_path: Path) -> None:
    generate(tmp_path / "day.itch", seed=7, messages=5_000, symbols=40)
    digest = hashlib.sha256((tmp_path / "day.itch").read_bytes()).hexdigest()
    assert digest[:16] == "509287798df474fa"


def test_a_compressed_day_holds_the_same_bytes_as_a_plain_one(tmp_path: Path) -> None:
    for name in ("day.itch", "day.itch.gz", "day.itch.zst"):
        generate(tmp_path / name, seed=2, messages=3_000, symbols=20)
    plain = (tmp_path / "day.itch").read_bytes()
    assert gzip.decompress((tmp_path / "day.itch.gz").read_bytes()) == plain
    with pa.input_stream(str(tmp_path / "day.itch.zst"), compression="zstd") as stream:
        assert stream.read() == plain


@pytest.mark.parametrize("wrong", [{"messages": 0}, {"symbols": 0}, {"symbols": 70_000}, {"seed": -1}])
def test_a_count_out_of_range_is_a_usage_error(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        generate(tmp_path / "day.itch", **wrong)


def test_a_place_that_cannot_be_written_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be written"):
        generate(tmp_path / "missing" / "day.itch", messages=10, symbols=1)


def test_the_command_writes_the_file_and_nothing_to_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "day.itch"
    code, out, _ = called(capsys, "market", "generate", "--messages", "100", "--symbols", "5", "-o", output)
    assert (code, out) == (0, "")
    assert output.stat().st_size > 1000


def test_what_was_generated_and_its_statistics_are_told_to_machines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    day, table = tmp_path / "day.itch", tmp_path / "day.csv"

    def told(*arguments: str) -> object:
        code, out, _ = called(capsys, "market", *arguments, "--json")
        assert code == 0
        return json.loads(out)

    made = told("generate", "--messages", "3000", "--symbols", "5", "--seed", "3", "-o", str(day))
    size = day.stat().st_size
    assert made == {"schema": 1, "output": str(day), "messages": 3000, "bytes": size, "seed": 3}
    found = told("stats", str(day), "-o", str(table))
    assert found == {"schema": 1, "output": str(table), "html": None, "symbols": 5}
