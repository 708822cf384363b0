"""A deterministic ITCH-5.0 day in a file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from latlab._core.market import MAX_SYMBOLS, Generator
from latlab.errors import UsageError
from latlab.market.files.output import create, unwritable

_CHUNK_BYTES = 4 << 20


def generate(
    path: str | PathLike[str], *, seed: int = 1, messages: int = 1_000_000, symbols: int = 500
) -> int:
    """Write a generated day as BinaryFILE: the same bytes for the same arguments on every machine.

    Args:
        path: where to; compressed when it ends in ``.gz`` or ``.zst``.
        seed: of the generator.
        messages: exactly so many.
        symbols: at most so many; a short day has fewer, since each needs three messages of directory.

    Returns:
        The bytes written before compression.

    The file takes its name when it is whole.

    Raises:
        UsageError: a count out of range.
        InputError: the file can't be written.
    """
    if not messages >= 1:
        raise UsageError(f"messages must be at least 1, not {messages}")
    if not 1 <= symbols <= MAX_SYMBOLS:
        raise UsageError(f"symbols must be between 1 and {MAX_SYMBOLS}, not {symbols}")
    if not 0 <= seed < 1 << 64:
        raise UsageError(f"the seed must be between 0 and 2^64 - 1, not {seed}")
    generator = Generator(seed, messages, symbols)
    size = 0
    try:
        with create(Path(path)) as file:
            while chunk := generator.fill(_CHUNK_BYTES):
                file.write(chunk)
                size += len(chunk)
    except OSError as error:
        raise unwritable(path, error) from error
    return size
