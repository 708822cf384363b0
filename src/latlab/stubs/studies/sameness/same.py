"""Does a program say the same with a stub as without: its output, its exit code, the files that it writes?"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from latlab.model.evidence.said import said
from latlab.model.evidence.studies import ValidationSaid
from latlab.stubs.studies import runner as _lab
from latlab.words import seconds

_SHOWN = 60  # characters of a line that differs
_MOST_BYTES = 64 << 20  # of an output that are compared
_MOST_FILES, _LARGEST = 2_000, 16 << 20
_WORD = re.compile(rb"[^\W_]+(?:\.[0-9]+)?|[^\w\s]+|_+")
_OWN = ("latlab-stubs-", "latlab-study-")  # where a study keeps what it needs
_SKIPPED = {".git", "__pycache__", ".venv", "node_modules"}


@dataclass(frozen=True)
class Written:
    """Checksums of a file that a run has written: of all of it, and of what it has added to what was there.

    Attributes:
        added: None where the file did not grow.
    """

    whole: int
    added: int | None = None

    def same(self, other: Written | None) -> bool:
        """Whether another run has written the same: a program may add to a file that others have begun."""
        if other is None:
            return False
        return self.whole == other.whole or (self.added is not None and self.added == other.added)


@dataclass(frozen=True)
class Output:
    """What one run of a command said.

    Attributes:
        files: what the files that it wrote hold, by their paths: those in the current folder, and others
            that it was seen to write.
    """

    code: int
    out: bytes
    err: bytes
    files: Mapping[str, Written] = field(default_factory=dict)


def output_of(
    command: Sequence[str], environment: Mapping[str, str], *, stdin: Path | None = None,
    out: int | None = None, err: int | None = None, limit_s: float = math.inf, elsewhere: Iterable[str] = (),
) -> Output:  # fmt: skip
    """Run a command and keep what it says.

    Args:
        stdin: file that it reads; nothing when None.
        out: descriptor to which its output goes as well; nowhere when None.
        err: likewise of its errors.
        limit_s: after which it is ended.
        elsewhere: files outside of the current folder that it is known to write.

    Raises:
        LatlabError: it did not end by then.
    """
    before = _stamps()
    with open(stdin or os.devnull, "rb") as given:
        process = subprocess.Popen(
            command, env=dict(environment), stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    kept: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
    assert process.stdout is not None
    assert process.stderr is not None
    threads = [
        threading.Thread(target=_pump, args=(pipe, kept[number], to))
        for number, pipe, to in ((1, process.stdout, out), (2, process.stderr, err))
    ]
    for thread in threads:
        thread.start()
    with _lab.ended_after(process.pid, limit_s) as late:
        code = process.wait()
        for thread in threads:
            thread.join()
    process.stdout.close()
    process.stderr.close()
    if late:
        raise _lab.LateError(
            f"the command did not end within {seconds(round(limit_s))} with the stub", remedy=_lab.WAITS
        )
    return Output(code, bytes(kept[1]), bytes(kept[2]), {**_written(before), **written_elsewhere(elsewhere)})


def _pump(pipe: IO[bytes], kept: bytearray, to: int | None) -> None:
    while data := os.read(pipe.fileno(), 65536):
        if len(kept) < _MOST_BYTES:
            kept += data
        while to is not None and data:
            try:
                data = data[os.write(to, data) :]
            except BrokenPipeError:
                to = None


def _stamps() -> dict[Path, tuple[int, int]]:
    """When each file below the current folder was last written, and its size."""
    found: dict[Path, tuple[int, int]] = {}
    for folder, folders, names in os.walk("."):
        deep = folder.count(os.sep) >= 3
        folders[:] = [one for one in folders if not (deep or one in _SKIPPED or one.startswith(_OWN))]
        for name in names:
            try:
                status = Path(folder, name).stat()
            except OSError:  # gone again, or a link to nowhere
                continue
            if status.st_size <= _LARGEST and not name.endswith(".pyc"):
                found[Path(folder, name)] = (status.st_mtime_ns, status.st_size)
        if len(found) > _MOST_FILES:
            break
    return found


def _written(before: Mapping[Path, tuple[int, int]]) -> dict[str, Written]:
    found: dict[str, Written] = {}
    for path, stamp in _stamps().items():
        old = before.get(path, (0, 0))
        if old != stamp:
            try:
                data = path.read_bytes()
            except OSError:
                continue
            found[str(path)] = Written(
                zlib.crc32(data), zlib.crc32(data[old[1] :]) if len(data) > old[1] else None
            )
    return found


def written_elsewhere(paths: Iterable[str]) -> dict[str, Written]:
    """What files hold that lie outside of the current folder; those that are gone again are left out."""
    found: dict[str, Written] = {}
    here = os.path.join(Path.cwd(), "")  # noqa: PTH118  # with the separator at its end
    for path in sorted(set(paths)):
        try:
            if path.startswith(here) or not Path(path).is_file() or Path(path).stat().st_size > _LARGEST:
                continue
            found[path] = Written(zlib.crc32(Path(path).read_bytes()))
        except OSError:
            continue
    return found


def difference(stub: Output, original: Output, again: Callable[[], Output]) -> str | None:
    """What differs with the stub; None where nothing does, as far as the command says the same twice itself.

    Args:
        stub: the run with the stub.
        original: a run without.
        again: runs the command once more; asked only where something differs.
    """
    if alike(stub, original):
        return None
    second = again()
    if original.code == second.code != stub.code:
        return said(ValidationSaid.STATUS, status=stub.code, original=original.code)
    for what, name in (("out", "its line"), ("err", "line")):
        lines = [_lines(getattr(one, what), what) for one in (original, second, stub)]
        where = "" if what == "out" else " on stderr"
        if len(lines[0]) == len(lines[1]) != len(lines[2]):
            return said(ValidationSaid.LINES, lines=len(lines[2]), where=where, original=len(lines[0]))
        for number, (one, other, changed) in enumerate(zip(*lines, strict=False), 1):
            if _differs(one, other, changed):
                shown = _from_where_they_differ(*(text.decode(errors="replace") for text in (changed, one)))
                which = {"what": name, "number": number, "where": where}
                return said(ValidationSaid.LINE, line=shown[0], original=shown[1], **which)
    same = {path for path, one in original.files.items() if one.same(second.files.get(path))}
    # What only the run with the stub has written may be anybody's who works in the same folder.
    for path in sorted(original.files.keys() & second.files.keys()):
        if path not in stub.files:
            return said(ValidationSaid.NOT_WRITTEN, path=path)
        if path in same and not (
            stub.files[path].same(original.files[path]) or stub.files[path].same(second.files[path])
        ):
            return said(ValidationSaid.WRITTEN_OTHERWISE, path=path)
    return None


def _from_where_they_differ(one: str, other: str) -> tuple[str, str]:
    """Two lines as far as they are shown, without most of what a long one has in common."""
    same = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    skipped = max(0, same - _SHOWN // 3) if same > _SHOWN // 2 else 0
    head = "…" if skipped else ""
    return head + one[skipped : skipped + _SHOWN], head + other[skipped : skipped + _SHOWN]


def alike(one: Output, other: Output) -> bool:
    """Whether two runs said and wrote exactly the same."""
    return (
        _key(one) == _key(other)
        and one.files.keys() == other.files.keys()
        and all(written.same(other.files[path]) for path, written in one.files.items())
    )


def _key(one: Output) -> tuple[int, list[bytes], list[bytes]]:
    return one.code, _lines(one.out, "out"), _lines(one.err, "err")


def _lines(data: bytes, what: str) -> list[bytes]:
    """On stderr without the frames of tracebacks: a stub's are others."""
    lines = data.splitlines()
    if what == "out":
        return lines
    return [line for line in lines if not line.startswith((b"  ", b"latlab: "))]


def _differs(one: bytes, other: bytes, changed: bytes) -> bool:
    """Whether a word that two runs share is another one with the stub."""
    if one == other:
        return changed != one
    words = [_WORD.findall(text) for text in (one, other, changed)]
    if len(words[0]) != len(words[1]):
        return False  # it differs from run to run as a whole
    if len(words[2]) != len(words[0]):
        return True
    return any(a == b != c for a, b, c in zip(*words, strict=True))


def spooled(folder: Path) -> Path | None:
    """What is piped into this program, in a file, so that several runs can read it; None for a terminal."""
    try:
        if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
            return None
        path = folder / "stdin"
        with open(path, "wb") as kept:
            while data := os.read(sys.stdin.fileno(), 1 << 20):
                kept.write(data)
    except (OSError, ValueError):  # a test's stdin has no descriptor
        return None
    return path
