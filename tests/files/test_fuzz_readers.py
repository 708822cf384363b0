"""Every reader of files against spoiled ones, for a moment; `tools/fuzz_readers.py` does so for longer."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from tests.files.started import module_of

fuzz = module_of(Path(__file__).resolve().parents[2] / "tools/fuzz_readers.py")
SECONDS = 0.4


@pytest.mark.parametrize("name", fuzz.READERS)
def test_a_valid_file_is_read(name: str) -> None:
    path, _ = next(series := fuzz.inputs(name, 0))
    fuzz.READERS[name].read(path)
    series.close()


@pytest.mark.parametrize("name", fuzz.READERS)
def test_a_spoiled_file_is_read_or_refused_in_one_line(name: str) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    end = time.monotonic() + SECONDS
    for path, data in fuzz.inputs(name, seed):
        said = fuzz.fault(name, path)
        assert said is None, (
            f"{said} (seed {seed}, {len(data)} bytes; tools/fuzz_readers.py --seed {seed} {name})"
        )
        if time.monotonic() > end:
            break


@pytest.mark.parametrize(
    "kept", [path for name in fuzz.READERS for path in fuzz.kept(name)], ids=lambda p: p.name
)
def test_what_once_was_a_fault_is_read_or_refused(kept: Path) -> None:
    name = kept.name.rpartition("-")[0]
    path, _ = next(series := fuzz.inputs(name, 0))
    path.write_bytes(kept.read_bytes())
    assert fuzz.fault(name, path) is None
    series.close()
