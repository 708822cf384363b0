"""What every test runs under."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# A test suite that fails by the day's dice, or because the machine is busy, teaches people to run it again.
# New examples are for those who look for them: HYPOTHESIS_PROFILE=explore, or =fresh for as many as always,
# which is what must pass before anything lands. A failure prints the line that makes it come again.
settings.register_profile("house", deadline=None, derandomize=True)
settings.register_profile("fresh", deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))

# A shell starts what it sends to the background with SIGINT ignored, and all below it inherit that:
# what the tests interrupt would never hear of it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What several test files share stands beside them.
sys.path.append(str(Path(__file__).parent / "files"))
pytest.register_assert_rewrite("tests.files.tables")

_LIVE = Path(__file__).parent / "live"


@pytest.fixture
def counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of counter files, for this test and the processes that it starts."""
    folder = tmp_path / "counters"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("LATLAB_COUNTERS", str(folder))
    return folder


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Makes a file of a text."""

    def write(text: str, name: str = "a.toml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def pytest_configure(config: pytest.Config) -> None:
    """Applications of the tests publish in a folder of their own: what others run is not found there.

    The processes that the tests are spread over share the folder of the first.
    """
    from latlab.system.scratch import scratch

    if "LATLAB_COUNTERS" not in os.environ:
        kept = contextlib.ExitStack()
        os.environ["LATLAB_COUNTERS"] = str(kept.enter_context(scratch("tests", shared=True)))
        config.add_cleanup(kept.close)


# The collected tests are a million objects that stay to the end: the collector need not look at them again.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives what runs against a live machine a second chance; the summary names who needed it (R).

    A machine that stands still for a second is not the fault of latlab's; a fault comes again.
    """
    for item in items:
        if _LIVE in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1))
