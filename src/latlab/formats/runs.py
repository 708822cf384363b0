"""A folder of recordings: what is in it, packed to take away, removed."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from latlab.errors import InputError, UsageError
from latlab.formats.recording import is_recording, open_recording
from latlab.formats.trusted import TrustedFile
from latlab.words import printable

__all__ = ["Run", "export_run", "find_runs", "remove_run"]

_DEEPEST = 32  # folders: nobody nests recordings deeper, and whoever does must not stop a listing
_MOST_COPIED = 1 << 30
_PIECE = 1 << 20
_SUFFIXES = {".tar.gz": "w:gz", ".tgz": "w:gz", ".tar": "w"}


@dataclass(frozen=True, slots=True)
class Run:
    """One recording of a folder.

    Attributes:
        name: its path, from the folder that was searched.
        kind: what was measured; "" where it can't be read.
        state: "complete", "not complete" (its run was killed, or still writes), or why it can't be read.
        answer: what it found, where it holds an answer in a sentence; else "".
    """

    name: str
    path: str
    kind: str
    started_at: str
    state: str
    command: str
    bytes: int
    answer: str = ""

    def to_json(self) -> dict[str, Any]:
        """An entry of `latlab runs list --json`."""
        return asdict(self)


def find_runs(folder: Path) -> list[Run]:
    """Every recording below a folder, the latest first; those inside of a recording belong to it.

    Raises:
        InputError: there is no such folder.
    """
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "there is no such folder"
        raise InputError(folder, what, remedy="give the folder that holds the recordings")
    found = [_look(path, folder) for path in _recordings(folder)]
    return sorted(found, key=lambda run: (run.started_at, run.name), reverse=True)


def _recordings(folder: Path, depth: int = 0) -> Iterator[Path]:
    """Those below a folder; a folder that is closed to us holds none."""
    if is_recording(folder):
        yield folder
        return
    try:
        with os.scandir(folder) as entries:
            below = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    for name in below if depth < _DEEPEST else ():
        yield from _recordings(folder / name, depth + 1)


def _bytes_below(folder: Path, depth: int = 0) -> int:
    """What the files take by their lengths; links count as themselves."""
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    total += _bytes_below(folder / entry.name, depth + 1) if depth < _DEEPEST else 0
                else:
                    total += entry.stat(follow_symlinks=False).st_size
    except OSError:
        pass  # somebody removes it meanwhile, or it is closed to us: what is known is what it takes
    return total


def _look(path: Path, folder: Path) -> Run:
    name = printable(str(path.relative_to(folder)) if path != folder else path.name)
    size = _bytes_below(path)
    answer = ""
    try:
        recording = open_recording(path)
        for document in ("answer", "diagnosis"):
            if not answer and document in recording.documents():
                answer = str(recording.document(document).get("sentence", ""))
    except InputError as error:
        return Run(name, str(path), "", "", printable(str(error)), "", size)
    return Run(
        name=name,
        path=str(path),
        kind=recording.kind,
        started_at=recording.started_at,
        state="complete" if recording.complete else "not complete",
        command=recording.command or "",
        bytes=size,
        answer=answer,
    )


def export_run(path: Path, output: Path) -> None:
    """Pack a recording, and those inside of it, into one archive that opens without latlab.

    Series become CSV; documents and reports stay as they are.

    Args:
        path: of the recording.
        output: of the archive, which must not exist: .tar.gz, .tgz or .tar.

    Raises:
        InputError: no recording lies there.
        UsageError: the archive exists, or has another suffix.
    """
    import tempfile

    open_recording(path)  # refused before anything is made
    mode = next((mode for suffix, mode in _SUFFIXES.items() if output.name.endswith(suffix)), None)
    if mode is None:
        raise UsageError(f"{output} is not an archive's name", remedy=f"end it with {', '.join(_SUFFIXES)}")
    if output.exists():
        raise UsageError(f"{output} exists already", remedy="remove it, or name another file")
    with tempfile.TemporaryDirectory(prefix="latlab-export-") as temporary:
        inside = Path(temporary) / path.resolve().name
        _unpack(path, inside)
        with tarfile.open(output, mode) as archive:  # type: ignore[call-overload]
            archive.add(inside, inside.name)


def _unpack(path: Path, into: Path) -> None:
    """Write a recording, and those inside of it, as files for everybody."""
    into.mkdir()
    for file in sorted(path.glob("*.json")) + sorted(path.glob("*.html")):
        with TrustedFile(file, named=True) as read, open(into / file.name, "wb") as copy:
            for at in range(0, min(read.size, _MOST_COPIED), _PIECE):
                copy.write(read.read(at, _PIECE))
    recording = open_recording(path)
    for name in recording.names():
        recording.series(name).write_csv(into / f"{name}.csv")
    for below in sorted(path.iterdir()):
        if below.is_dir() and is_recording(below):
            _unpack(below, into / below.name)


def remove_run(path: Path) -> int:
    """Delete a recording, with what lies in its folder.

    Returns:
        The bytes that it took.

    Raises:
        InputError: it is not a recording, so it is left alone.
    """
    if not is_recording(path):
        raise InputError(path, "is not a recording, so nothing was removed")
    size = _bytes_below(path)
    shutil.rmtree(path)
    return size
