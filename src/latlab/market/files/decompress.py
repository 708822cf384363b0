"""Compressed bytes to plain ones, in blocks: gzip, xz, bzip2, zstd, lz4."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Iterator
from typing import IO, Any

_READ_BYTES = 1 << 20
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\0": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}
COMPRESSIONS = tuple(_MAGIC.values())


class TornError(Exception):
    """The compressed stream ends before its end, or goes on behind it with something else."""


def _engine() -> tuple[Any, type[BaseException]]:
    try:
        # A day's file is inflated 2 to 3 times as fast as by zlib.
        from isal import isal_zlib
    except ImportError:
        return zlib, zlib.error
    error: Any = isal_zlib.error
    return isal_zlib, error


_FAST, _FAST_ERROR = _engine()
DAMAGES: tuple[type[BaseException], ...] = (
    OSError,
    EOFError,
    lzma.LZMAError,
    zlib.error,
    TornError,
    _FAST_ERROR,
)


def compression_of(head: bytes) -> str | None:
    """What the first bytes say that a file is compressed by; None: nothing that is known."""
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)


def checked(head: bytes) -> bool:
    """Whether a compressed stream that begins so carries a checksum of what is in it.

    gzip and bzip2 always do, the others where their first frame's header says so: what is damaged without one
    may be decompressed to something else without a word.
    """
    kind = compression_of(head)
    if kind == "zstd":
        return len(head) < 5 or bool(head[4] & 0x04)  # Content_Checksum_flag, RFC 8878, 3.1.1.1.1
    if kind == "lz4":
        return len(head) < 5 or bool(head[4] & 0x14)  # of blocks, or of the content: LZ4 frame format 1.6
    if kind == "xz":
        return len(head) < 8 or bool(head[7] & 0x0F)  # type of check, .xz file format 2.1.1.2
    return True


def decompressed(file: IO[bytes], kind: str | None, size: int, *, slowly: bool = False) -> Iterator[bytes]:
    """Blocks of at most `size` bytes.

    Args:
        file: compressed.
        kind: one of `COMPRESSIONS`, or None.
        slowly: by small steps, so that what stands before damage is had to the last byte.

    Raises:
        TornError: the stream ends before its end. All of `DAMAGES` are raised where it is damaged.
    """
    if kind is None:
        while block := file.read(size):
            yield block
    elif kind == "gzip":
        yield from _inflated(file, zlib if slowly else _FAST, size)
    elif kind in ("xz", "bzip2"):
        yield from _streams(file, lzma.LZMADecompressor if kind == "xz" else bz2.BZ2Decompressor, size)
    else:
        import pyarrow as pa

        with pa.CompressedInputStream(file, kind) as stream:
            while block := stream.read(size):
                yield block


def _inflated(file: IO[bytes], engine: Any, size: int) -> Iterator[bytes]:
    """The members of a gzip file, their checksums compared."""
    data = file.read(_READ_BYTES)
    while data:
        member = engine.decompressobj(wbits=31)
        while not member.eof:
            block = member.decompress(data, size)
            if block:
                yield block
            data = member.unconsumed_tail
            if not data and not member.eof and len(block) < size and not (data := file.read(_READ_BYTES)):
                raise TornError("it ends too early")
        data = _behind(file, member.unused_data)


def _streams(file: IO[bytes], engine: Any, size: int) -> Iterator[bytes]:
    data = file.read(_READ_BYTES)
    while data:
        stream = engine()
        while not stream.eof:
            block = stream.decompress(data, size)
            if block:
                yield block
            data = b""
            if not stream.eof and stream.needs_input and not (data := file.read(_READ_BYTES)):
                raise TornError("it ends too early")
        data = _behind(file, stream.unused_data)


def _behind(file: IO[bytes], rest: bytes) -> bytes:
    """What follows a member: another one, or padding."""
    while not (rest := rest.lstrip(b"\0")):
        if not (rest := file.read(_READ_BYTES)):
            return b""
    return rest
