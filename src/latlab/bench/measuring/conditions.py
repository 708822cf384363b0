"""The factors of a study: what a machine offers of them, how they are set, read back and put back."""

from __future__ import annotations

import glob
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from latlab.bench.processes.process import takes_seed
from latlab.bench.results.targets import Target
from latlab.model.evidence.bench import ConditionSaid
from latlab.model.evidence.said import said

__all__ = ["FACTORS", "FILES", "LEVELS", "Knobs", "available", "closed", "hogs"]

LEVELS = {
    "scheduling": ("other", "fifo"),
    "governor": ("powersave", "performance"),
    "rt_limit": ("950000", "-1"),
    "fair_server": ("50000000", "0"),
    "load": ("idle", "hog"),
    "input": ("fixed", "fresh"),
}
FACTORS = tuple(LEVELS)
FILES = {
    "governor": "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    "rt_limit": "/proc/sys/kernel/sched_rt_runtime_us",
    "fair_server": "/sys/kernel/debug/sched/fair_server/cpu*/runtime",
}


_SPIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print(flush=True)
while True:
    pass
"""


class hogs:  # noqa: N801 - used as a context manager, like a function
    """The load generator: one busy process on each core that this process may use."""

    def __enter__(self) -> hogs:
        """Start them, and return once each runs."""
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        try:
            for core in sorted(os.sched_getaffinity(0)):
                command = [sys.executable, "-S", "-c", _SPIN, str(core)]
                self.processes[core] = subprocess.Popen(command, stdout=subprocess.PIPE)
            for process in self.processes.values():
                assert process.stdout is not None
                process.stdout.readline()
        except BaseException:
            self.__exit__()
            raise
        return self

    def running(self) -> int:
        """How many are alive on their own core."""
        alive = 0
        for core, process in self.processes.items():
            try:
                alive += process.poll() is None and os.sched_getaffinity(process.pid) == {core}
            except ProcessLookupError:
                continue
        return alive

    def spent_s(self) -> dict[int, float]:
        """Processor time that each has used, by its core."""
        return {
            core: psutil.Process(process.pid).cpu_times().user for core, process in self.processes.items()
        }

    def __exit__(self, *_: object) -> None:
        """End them."""
        for process in self.processes.values():
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def available(factor: str, target: Target) -> str | None:
    """Why a factor can't be varied here, or None."""
    if factor == "input" and not takes_seed(target):
        return said(ConditionSaid.NO_SEED, target=target.name)
    return closed(factor) if factor in FILES else None


def closed(factor: str) -> str | None:
    """Why the files behind a factor can't be read and written, or None."""
    files = glob.glob(FILES[factor])  # noqa: PTH207 - the pattern spans folders from the root
    if not files:
        return said(ConditionSaid.NO_FILES, files=FILES[factor])
    for file in files:
        try:
            # Opened, since a locked-down kernel refuses what the file's mode allows.
            with open(file, "r+") as opened:
                opened.read()
        except OSError as error:
            return f"{file}: {error.strerror}"
    if factor == "governor":
        offered = Path(files[0]).with_name("scaling_available_governors").read_text().split()
        if not set(LEVELS["governor"]) <= set(offered):
            return said(ConditionSaid.OFFERED, offered=", ".join(offered))
    return None


class Knobs:
    """The files behind some factors; their content is put back at the end."""

    def __init__(self, factors: Sequence[str]) -> None:
        self.files = {f: sorted(glob.glob(FILES[f])) for f in factors if f in FILES}  # noqa: PTH207

    def __enter__(self) -> Knobs:
        """Remember what they hold."""
        self.saved = {x: Path(x).read_text().strip() for files in self.files.values() for x in files}
        return self

    def __exit__(self, *_: object) -> None:
        """Put it back."""
        for file, content in self.saved.items():
            Path(file).write_text(content)

    def write(self, factor: str, level: str) -> str | None:
        """Set a factor and read it back; why it didn't take, or None. Factors without files have nothing."""
        for file in self.files.get(factor, ()):
            try:
                Path(file).write_text(level)
            except OSError as error:
                return f"{file}: {error.strerror}"
            back = Path(file).read_text().strip()
            if back != level:
                return said(ConditionSaid.READS_BACK, file=file, value=back)
        return None
