"""An input as pieces of bytes: a file or a pipe, plain or compressed, whatever the framing inside."""

from __future__ import annotations

import mmap
import os
import queue
import re
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO, cast

import numpy as np
import numpy.typing as npt

from latlab._core.market import MappedPiece
from latlab.errors import InputError
from latlab.market.files.decompress import COMPRESSIONS, DAMAGES, checked, compression_of, decompressed

Piece = npt.NDArray[np.uint8]

_PIECE_BYTES = 4 << 20
_HEAD_BYTES = 1 << 16
_PIPE_HEAD = 1 << 12
_FOLLOWED_HEAD = 64  # bytes that tell what a file is
_POLL_S = 0.02
_SALVAGE_BYTES = 64
_AHEAD = 4  # pieces that decompression may be ahead of decoding: 16 MiB at most

ITCH_LENGTHS = dict(
    zip(
        b"SRHYLVWKJhAFECXDUPQBINO",
        (12, 39, 25, 20, 26, 35, 12, 28, 35, 21, 36, 40, 31, 36, 23, 19, 35, 44, 40, 19, 50, 20, 48),
        strict=True,
    )
)
_CAPTURES = (b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1", b"\n\r\r\n")
_PITCH_TYPES = {*range(0x20, 0x32), 0x95, 0x96, 0x97, 0x98}
_PITCH_LONGEST = 96  # bytes of a message, with room for later versions'
_SOUP_FIRST = {b"A": 31, b"L": 47, b"H": 1, b"R": 1, b"Z": 1, b"O": 1, b"J": 2}


Pieces = queue.Queue[Piece | BaseException | None]


@contextmanager
def filling(thread: threading.Thread, pieces: Pieces, over: threading.Event) -> Iterator[None]:
    """Run the thread that fills a queue; at the end tell it so, and let it out of a queue that is full."""
    thread.start()
    try:
        yield
    finally:
        over.set()
        while thread.is_alive():
            try:
                pieces.get(timeout=0.01)
            except queue.Empty:
                continue
        thread.join()


class Source:
    """An input that was opened and recognised.

    Args:
        path: of the file; ``-`` is the standard input. A pipe is read once, from its beginning to its end.

    Raises:
        InputError: it can't be opened, is empty, or is none of the kinds that are known.
    """

    live = False
    """Whether it comes off the wire."""
    unchecked = ""
    """What it is compressed by, where that carries no checksum."""
    _once: IO[bytes] | None = None  # of what can't be opened again

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        try:
            file = sys.stdin.buffer if str(path) == "-" else self.path.open("rb")
            if file.seekable() and stat.S_ISREG(os.fstat(file.fileno()).st_mode) and str(path) != "-":
                with file:
                    raw = file.read(_HEAD_BYTES)
            else:
                self._once, raw = file, _first(file)
        except OSError as error:
            raise InputError(path, f"can't be opened: {error.strerror or error}") from error
        self._raw = raw
        self.compression = compression_of(raw)
        if self.compression is not None and not checked(raw):
            self.unchecked = self.compression
        head = raw if self.compression is None else self._head(self.compression)
        if not head:
            self._close()
            raise InputError(path, "is empty", remedy="give a file of ITCH or PITCH messages")
        framing = recognise(head)
        if framing is None:
            self._close()
            raise InputError(
                path,
                "holds neither ITCH nor PITCH messages",
                place="offset 0",
                remedy="known formats: BinaryFILE, SoupBinTCP, pcap, pcapng, PITCH units and ASCII PITCH, "
                f"plain, {', '.join(COMPRESSIONS[:-1])} or {COMPRESSIONS[-1]}",
            )
        self.framing = framing

    @property
    def once(self) -> bool:
        """Whether it can be read a single time only: a pipe, or a feed."""
        return self._once is not None

    def _head(self, kind: str) -> bytes:
        """The first plain bytes; a block of bzip2 or lz4 may be larger than what was read at first."""
        head, enough = b"", _HEAD_BYTES if self._once is None else _PIPE_HEAD
        with self._file() as file:
            read = _Remembered(file)
            try:
                steps = decompressed(cast("IO[bytes]", read), kind, _SALVAGE_BYTES, slowly=True)
                for block in steps:
                    head += block
                    if len(head) >= enough:
                        break
            except DAMAGES as error:
                # What stands before the damage is told when it is read.
                if not head:
                    self._close()
                    raise self._damaged(error, 0) from error
        if self._once is not None:
            self._raw = bytes(read.taken) + self._raw[len(read.taken) :]
        return head

    def _damaged(self, error: BaseException, done: int) -> InputError:
        return InputError(
            self.path,
            f"its {self.compression} stream is truncated or damaged: {str(error).splitlines()[0]}",
            place=f"decompressed offset {done} or later",
        )

    def stop(self) -> None:
        """End before the input does, where that takes time to come."""

    def transport_counts(self) -> dict[str, int] | None:
        """What was counted below the frames, when it was this source that read them off packets."""
        return None

    @contextmanager
    def pieces(self, size: int = 0) -> Iterator[Iterator[Piece]]:
        """Decompressed pieces in order; the decompression runs in a thread of its own, some pieces ahead."""
        size = size or _PIECE_BYTES
        if self.compression is None and self._once is None:
            yield self._mapped(size * 8)
            return
        yielded: Pieces = queue.Queue(_AHEAD)
        over = threading.Event()
        thread = threading.Thread(target=self._decompress, args=(yielded, over, size), daemon=True)
        with filling(thread, yielded, over):
            yield self._drain(yielded)

    def _mapped(self, step: int) -> Iterator[Piece]:
        """Pieces of a plain file, mapped one at a time.

        What has been read then no longer counts as this process's memory. Whose the file is may cut it short
        meanwhile: that reads as zeros, and is told as soon as the piece has been read.
        """
        with self.path.open("rb") as file:
            total = os.fstat(file.fileno()).st_size
            for at in range(0, total, step):
                before = at % mmap.ALLOCATIONGRANULARITY  # a map begins with a page
                piece = MappedPiece(file.fileno(), at - before, before + min(step, total - at))
                yield piece.array()[before:]
                if piece.cut:
                    raise InputError(
                        self.path, "became shorter while it was read", place=f"offset {at} or later"
                    )

    @contextmanager
    def _file(self) -> Iterator[IO[bytes]]:
        if self._once is None:
            with self.path.open("rb") as file:
                yield file
        else:
            yield cast("IO[bytes]", _Begun(self._raw, self._once))

    def _decompress(self, yielded: Pieces, over: threading.Event, size: int) -> None:
        done = 0
        try:
            with self._file() as file:
                for block in decompressed(file, self.compression, size):
                    if over.is_set():
                        break
                    yielded.put(np.frombuffer(block, np.uint8))
                    done += len(block)
            yielded.put(None)
        except DAMAGES as error:
            # A read that fails gives nothing of what it had: that is read once more, by small steps.
            saved = b"" if self._once is not None else self._salvage(done, over)
            if saved:
                yielded.put(np.frombuffer(saved, np.uint8))
            yielded.put(error)
        finally:
            self._close()

    def _close(self) -> None:
        if self._once is not None and str(self.path) != "-":
            self._once.close()

    def _salvage(self, done: int, over: threading.Event) -> bytes:
        saved = bytearray()
        with suppress(*DAMAGES), self._file() as file:
            for block in decompressed(file, self.compression, _SALVAGE_BYTES, slowly=True):
                if over.is_set():
                    break
                saved += block
                if done:
                    known = min(done, len(saved))
                    del saved[:known]
                    done -= known
        return bytes(saved)

    def _drain(self, yielded: Pieces) -> Iterator[Piece]:
        done = 0
        while (piece := yielded.get()) is not None:
            if isinstance(piece, BaseException):
                raise self._damaged(piece, done)
            done += len(piece)
            yield piece


class _Begun:
    """A pipe of which the first bytes were read already."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head, self._rest = head, rest
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        if self._head:
            taken = self._head if size < 0 else self._head[:size]
            self._head = self._head[len(taken) :]
            return taken
        return self._rest.read(size)

    def close(self) -> None:
        """What reads it says that it has finished; the pipe belongs to the source."""


class _Remembered:
    """What is read of a file by small steps, kept for whoever reads it again."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.taken = file, bytearray()
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(_PIPE_HEAD if size < 0 else min(size, _PIPE_HEAD))
        self.taken += block
        return block

    def close(self) -> None:
        """What reads it says that it has finished; the file is not its own."""


def _first(file: IO[bytes]) -> bytes:
    """As many of a pipe's first bytes as it takes to tell what it carries."""
    head = b""
    while len(head) < _PIPE_HEAD and (block := file.read(_PIPE_HEAD - len(head))):
        head += block
    return head


class FollowedSource(Source):
    """A plain file that another program writes: it is over when nothing came for some time.

    Args:
        path: of the file.
        idle_s: how long to wait for more, also for the first bytes.

    Raises:
        InputError: as `Source`, and when it is compressed: the end of that can't be followed.
    """

    def __init__(self, path: str | PathLike[str], idle_s: float) -> None:
        self._idle_s, self._over = idle_s, threading.Event()
        give_up = time.monotonic() + idle_s
        while (
            Path(path).exists() and Path(path).stat().st_size < _FOLLOWED_HEAD and time.monotonic() < give_up
        ):
            time.sleep(_POLL_S)
        super().__init__(path)
        if self.compression is not None:
            raise InputError(path, "is compressed", remedy="only a plain file can be followed as it grows")

    def stop(self) -> None:
        """End as if nothing more had come."""
        self._over.set()

    @contextmanager
    def pieces(self, size: int = 0) -> Iterator[Iterator[Piece]]:
        """Pieces as they are written."""
        with self.path.open("rb") as file:
            yield self._read(file, size or _PIECE_BYTES)

    def _read(self, file: IO[bytes], size: int) -> Iterator[Piece]:
        heard_at = time.monotonic()
        while not self._over.is_set():
            if block := file.read(size):
                heard_at = time.monotonic()
                yield np.frombuffer(block, np.uint8)
            elif time.monotonic() - heard_at > self._idle_s:
                return
            else:
                time.sleep(_POLL_S)


def recognise(head: bytes) -> str | None:
    """Which framing an input's first bytes are of: binary, pcap, soup, units, lines, or None."""
    if head[:4] in _CAPTURES:
        return "pcap"
    if re.match(rb"S?\d{8}[A-Za-z]", head):
        return "lines"
    if _frames(head, 1):
        return "binary"
    if len(head) >= 4:
        size, kind = int.from_bytes(head[:2], "big"), head[2:3]
        if _SOUP_FIRST.get(kind) == size or kind == b"+":
            return "soup"
        if kind in b"SU" and ITCH_LENGTHS.get(head[3]) == size - 1:
            return "soup"
        unit, count = int.from_bytes(head[:2], "little"), head[2]
        # Text may look like a unit by its tenth byte; it does not hold as many messages as fit its length.
        fits = 2 * count <= unit - 8 <= _PITCH_LONGEST * count
        if (unit == 8 and count == 0) or (fits and len(head) >= 10 and head[9] in _PITCH_TYPES):
            return "units"
    return "binary" if _frames(head, 64) else None


def _frames(head: bytes, count: int) -> bool:
    """Whether one of the first frames is a well-formed ITCH message."""
    at = 0
    for _ in range(count):
        if at + 3 > len(head):
            return False
        size = int.from_bytes(head[at : at + 2], "big")
        if size and ITCH_LENGTHS.get(head[at + 2]) == size:
            return True
        at += 2 + size
    return False
