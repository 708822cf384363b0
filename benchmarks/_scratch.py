"""Folders of benchmarks, which `latlab clean` finds where a benchmark was killed."""

from __future__ import annotations

import atexit
import contextlib
import os
from pathlib import Path

from latlab.system.scratch import scratch

__all__ = ["own_counters"]


def own_counters() -> Path:
    """A folder in shared memory where what this benchmark starts publishes; removed at its end."""
    kept, owner = contextlib.ExitStack(), os.getpid()
    folder = kept.enter_context(scratch("bench", shared=True))
    os.environ["LATLAB_COUNTERS"] = str(folder)

    def remove() -> None:
        if os.getpid() == owner:  # a fork that ends leaves its parent's folder
            kept.close()

    atexit.register(remove)
    return folder
