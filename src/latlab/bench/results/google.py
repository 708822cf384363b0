"""Programs written with Google Benchmark, run as they are: by their own flags, read by their own JSON.

Every process runs one benchmark with some short repetitions, which are its iterations; the library finds the
number of calls of each itself. Processes of both sides follow one another, since its loop hands over nothing.
"""

from __future__ import annotations

import json
import mmap
import re
from pathlib import Path

import numpy as np

from latlab.errors import LatlabError
from latlab.model.bench import Sample

__all__ = ["REPETITIONS", "command", "is_google", "listed", "sample"]

REPETITIONS = 8
MIN_TIME_S = 0.01  # of a repetition
_MARKS = (b"benchmark_list_tests", b"libbenchmark.so")  # linked in, or needed
_SCALE_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


def is_google(path: Path) -> bool:
    """Whether a file is such a program."""
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                return False
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return any(data.find(mark) >= 0 for mark in _MARKS)
    except OSError:
        return False


def listed(output: bytes) -> list[str]:
    """The benchmarks' names, from what --benchmark_list_tests prints."""
    return [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]


def command(path: Path, name: str, repetitions: int, file: str | None = None) -> list[str]:
    """What runs one benchmark, where `file` stands for the program's own."""
    exactly = re.sub(r"([.\[\]{}()*+?^$|\\])", r"\\\1", name)
    return [
        file or str(path),
        f"--benchmark_filter=^{exactly}$",
        f"--benchmark_repetitions={repetitions}",
        f"--benchmark_min_time={MIN_TIME_S}",
        "--benchmark_format=json",
    ]


def sample(text: str, output: bytes, process_s: float) -> Sample:
    """The repetitions of one process.

    Args:
        text: what was measured, for errors.
        output: its standard output.
        process_s: wall time of the process.

    Raises:
        LatlabError: the benchmark reported an error, or something else came out.
    """
    try:
        # What the program itself prints may stand before.
        rows = json.loads(output[max(0, output.find(b"{\n")) :])["benchmarks"]
        for row in rows:
            if row.get("error_occurred"):
                raise LatlabError(f"{text}: it reported: {row.get('error_message', 'an error')}")
        rows = [row for row in rows if row.get("run_type", "iteration") == "iteration"]
        times = [float(row["real_time"]) * _SCALE_NS[row.get("time_unit", "ns")] for row in rows]
        counts = [int(row["iterations"]) for row in rows]
        rates = [
            float(rows[0].get(f"{what}_per_second", 0.0)) * times[0] * 1e-9 if rows else 0.0
            for what in ("items", "bytes")
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LatlabError(f"{text}: its output is not Google Benchmark's JSON") from None
    if not times or min(times) <= 0 or min(counts) <= 0:
        raise LatlabError(f"{text}: it measured nothing")
    took = sum(t * n for t, n in zip(times, counts, strict=True)) * 1e-9
    return Sample(
        np.array(times), counts[0], process_s=process_s, measuring_s=min(took, process_s),
        items=rates[0], bytes=rates[1],
    )  # fmt: skip
