"""Event-trace files of running processes: found among what they have mapped, and read as they grow.

An end is handed out only when every hop of its event is: the counts of all lanes are read twice, and what
had ended by the first reading had taken all of its hops before the second (each record is stored before its
lane's count, `include/latlab/trace.hpp`).
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.errors import InputError
from latlab.formats.event_traces.files import TraceHeader, header_of, lane_counts, records_of
from latlab.formats.trusted import TrustedFile

__all__ = ["GrowingTraces", "trace_files"]


def trace_files(pid: int) -> list[Path]:
    """The trace files that a process has mapped for writing, and that belong to its user.

    Empty where there are none, where its maps can't be read, and where it has ended.
    """
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        owner = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return []
    found = []
    for line in lines:
        parts = line.split(maxsplit=5)
        # Shared and writable, of a file: "rw-s … /dev/shm/latlab-run-x/traces".
        if len(parts) == 6 and parts[1].startswith("rw-s") and parts[5].startswith("/"):
            path = Path(parts[5])
            with contextlib.suppress(OSError, InputError), TrustedFile(path, owner=owner) as file:
                if header_of(file).pid == pid and path not in found:
                    found.append(path)
    return found


class GrowingTraces:
    """One file, from now on.

    Args:
        path: of the file.

    Raises:
        InputError: when it is not a trace file, or can't be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = TrustedFile(path)
        self.header: TraceHeader = header_of(self._file)
        self._done = self.counts()
        self._hops_done = self._done.copy()

    def counts(self) -> NDArray[np.int64]:
        """Records that each lane holds, shape (lanes,).

        Raises:
            InputError: the file became shorter, or claims what it can't hold.
        """
        return np.array([written for written, _ in lane_counts(self._file, self.header)], np.int64)

    @property
    def full(self) -> bool:
        """Some lane has no room left: what its thread does from now on is not traced."""
        return bool((self.counts() >= self.header.lane_records).any())

    def read(
        self, ended_by: NDArray[np.int64], hops_by: NDArray[np.int64]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """What is new: (hops, ends), each of dtype `RECORD`.

        Args:
            ended_by: the counts up to which ends are handed out.
            hops_by: likewise of hops; no smaller.

        Raises:
            InputError: the file became shorter.
        """
        hops, ends = [], []
        for lane in range(self.header.lanes):
            new = self._records(lane, int(self._hops_done[lane]), int(hops_by[lane]))
            hops.append(new[new["end"] == 0])
            new = self._records(lane, int(self._done[lane]), int(ended_by[lane]))
            ends.append(new[new["end"] != 0])
        self._done, self._hops_done = ended_by, hops_by
        return np.concatenate(hops), np.concatenate(ends)

    def _records(self, lane: int, first: int, last: int) -> NDArray[Any]:
        return records_of(self._file, self.header, lane, first, last)
