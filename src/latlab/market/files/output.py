"""Outputs: written aside and renamed when whole; what a killed run wrote is kept aside."""

from __future__ import annotations

import gzip
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from latlab.errors import InputError, UsageError
from latlab.formats.trusted import check_place, to_write

if TYPE_CHECKING:
    pass


def unwritable(path: str | os.PathLike[str], error: OSError) -> Exception:
    """What to raise of an output that can't be written; of standard output whose reader has gone, that."""
    if os.fspath(path) == "-" and isinstance(error, BrokenPipeError):
        return error
    return InputError(path, f"can't be written: {error.strerror or error}")


def guard(inputs: Sequence[object], outputs: Sequence[object]) -> None:
    """Refuse outputs that are an input, or each other, by whatever name.

    Args:
        inputs: paths; ``-`` is the standard input. Others (addresses of feeds) are passed over.
        outputs: paths, or None.

    Raises:
        UsageError: one of them would take the place of another.
    """
    written: dict[object, object] = {}
    read = {number: path for path in inputs if (number := _inode(path, 0)) is not None}
    for path in outputs:
        if not isinstance(path, str | os.PathLike) or "://" in str(path):
            continue
        # As it is written: behind its links, and with folders taken back that need not be there (x/../out).
        real = Path(os.path.realpath(path))
        number = _inode(path, 1) if str(path) == "-" else _inode(real, None)
        asides = (part_of(Path(path)), part_of(real))
        for known, what in ((number, path), *((_inode(aside, None), aside) for aside in asides)):
            if known is not None and known in read:
                name = "the standard output" if str(what) == "-" else what
                raise UsageError(f"{name} is the input {read[known]}: give the output another name")
        for folder in (Path(path), real, *asides, parts_of(Path(path)), parts_of(real)):
            for one in inputs:
                if folder.is_dir() and _is_in(one, folder):
                    anew = f"the folder {folder}, which would be written anew"
                    raise UsageError(f"the input {one} is in {anew}")
        key = number if number is not None else os.fspath(real)
        if key in written:
            raise UsageError(f"{path} and {written[key]} are the same file: give each output its own")
        written[key] = path


def _inode(path: object, descriptor: int | None) -> tuple[int, int] | None:
    """Of a regular file or a folder that is there."""
    if not isinstance(path, str | os.PathLike):
        return None
    try:
        standard = str(path) == "-" and descriptor is not None
        found = os.fstat(descriptor or 0) if standard else Path(path).stat()
    except (OSError, ValueError):
        return None
    return (
        (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) else None
    )


def _is_in(path: object, folder: Path) -> bool:
    if not isinstance(path, str | os.PathLike) or not Path(path).exists():
        return False
    return folder.resolve() in Path(path).resolve().parents


def part_of(path: Path) -> Path:
    """Where an output stands until it is whole."""
    return path.with_name(path.name + ".part") if path.name else path


def _aside(path: Path) -> tuple[Path, Path | None]:
    """What to write to, and what to rename it to: a link's target; a pipe or a device is written as it is."""
    check_place(path)
    real = Path(os.path.realpath(path))
    if real.exists() and not real.is_file():
        if real.is_dir():
            raise UsageError(f"{path} is a folder: give a file")
        return real, None
    return part_of(real), real


def parts_of(path: Path) -> Path:
    """The folder where what becomes an output grows in parts."""
    return path.with_name(path.name + ".parts") if path.name else path


@contextmanager
def create(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, compressed by its name; ``-`` is the standard output.

    It is written aside and takes its name when it is whole: an error or an interruption leaves what was
    there. The bytes carry neither name nor time: they are repeatable.
    """
    if str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part, whole = _aside(path)
    try:
        with open(part, "wb", opener=to_write) as raw, _compressing(raw, path.suffix) as file:
            yield file
    except BaseException:
        if whole is not None:
            part.unlink(missing_ok=True)
        raise
    if whole is not None:
        part.replace(whole)


@contextmanager
def _compressing(raw: IO[bytes], suffix: str) -> Iterator[IO[bytes]]:
    if suffix == ".gz":
        with gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=raw, mtime=0) as file:
            yield cast("IO[bytes]", file)
    elif suffix == ".zst":
        import pyarrow as pa

        with pa.CompressedOutputStream(raw, "zstd") as file:
            yield file
    else:
        yield raw


class TextOutput:
    """Lines that stand in ``PATH.part`` until the output is whole; a killed run's can be resumed.

    Args:
        path: compressed if ``*.gz`` or ``*.zst``; ``-`` is the standard output.
        resume: keep the whole lines that a killed run left, or a finished one.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.lines = 0
        self._standard = str(path) == "-"
        if self._standard:
            if resume:
                raise UsageError("the standard output can't be resumed")
            self._file: IO[bytes] = sys.stdout.buffer
            return
        self.part, self._whole = _aside(path)
        left = next((p for p in (self.part, self._whole) if p is not None and p.is_file()), None)
        again = self.part.with_name(self.part.name + ".resumed")
        target = again if resume and left is not None and self._whole is not None else self.part
        self._raw = open(target, "wb", opener=to_write)  # noqa: SIM115
        self._context = _compressing(self._raw, path.suffix)
        self._file = self._context.__enter__()
        if target is again and left is not None:
            # A torn compression can't be appended to: what can be read of it is written again, and takes its
            # place when it is complete.
            for lines in _whole_lines(left, path.suffix):
                self.lines += lines.count(b"\n")
                self._file.write(lines)
            self._file.flush()
            again.replace(self.part)

    def write(self, text: bytes) -> None:
        """Append, and hand it to the system so that a kill can't take it back."""
        if text:
            self._file.write(text)
            self._file.flush()

    def commit(self) -> None:
        """Nothing more comes: the output takes its name."""
        if not self._standard:
            self._close()
            if self._whole is not None:
                self.part.replace(self._whole)

    def _close(self) -> None:
        self._context.__exit__(None, None, None)
        self._raw.close()

    def __enter__(self) -> TextOutput:
        return self

    def __exit__(self, *error: Any) -> None:
        if not self._standard and not self._raw.closed:
            self._close()


def _whole_lines(path: Path, suffix: str) -> Iterator[bytes]:
    """What can be read of a file that may be torn, up to the last end of line, in pieces."""
    import pyarrow as pa

    kind = {".gz": "gzip", ".zst": "zstd"}.get(suffix)
    rest = b""
    # A torn compression ends in an error: what came before the tear is what the killed run had saved.
    with suppress(OSError), pa.input_stream(str(path), compression=kind) as stream:
        while block := stream.read(1 << 20):
            end = block.rfind(b"\n") + 1
            if end:
                yield rest + block[:end]
                rest = b""
            rest += block[end:]
