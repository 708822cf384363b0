"""The feeds that the demonstration plays: generated, or a user's file laid out for the pipeline to map."""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from pathlib import Path

from latlab.errors import InputError
from latlab.market import generate
from latlab.model.diagnosis.layout import Layout

__all__ = ["generated_feeds", "given_feeds", "require_file"]

_FEWEST, _MOST = 20_000, 4_000_000
_REMEDY = "give an ITCH-5.0 file in BinaryFILE framing, plain or .gz"


def generated_feeds(layout: Layout, folder: Path, *, seconds: float, seed: int, symbols: int) -> list[Path]:
    """Two days of the same symbols, one a venue: as long as the run, so that it need not begin again.

    Args:
        folder: where they are written.
        seed: of the first venue; the second has the next one.
    """
    messages = _MOST
    if layout.replay.mode in ("fixed", "burst", "market") and layout.replay.delay_ns > 0:
        packets = seconds * 1e9 / layout.replay.delay_ns
        if layout.replay.mode == "burst":
            packets *= layout.replay.burst
        messages = int(packets * layout.replay.packet_messages * 1.02)
    messages = min(max(messages, _FEWEST), _MOST)
    paths = []
    for venue in range(2):
        path = folder / f"venue-{'ab'[venue]}.itch"
        generate(path, seed=seed + venue, messages=messages, symbols=symbols)
        paths.append(path)
    return paths


def require_file(source: Path, named_in: str = "") -> None:
    """Refuse a feed that there is not.

    Args:
        named_in: the file whose key diagnose.input names it; "" where the command line does.

    Raises:
        InputError: when it is not a file.
    """
    if source.is_file():
        return
    if named_in:
        raise InputError(
            named_in, f"there is no file {os.fspath(source)!r}", place="diagnose.input", remedy=_REMEDY
        )
    raise InputError(source, "there is no such file", remedy=_REMEDY)


def given_feeds(source: Path, folder: Path) -> list[Path]:
    """The user's file for both venues; the second plays it a little later.

    Raises:
        InputError: when it can't be read or decompressed. What it holds is checked when it is played.
    """
    require_file(source)
    path = source
    if source.suffix == ".gz":
        path = folder / "input.itch"
        try:
            with gzip.open(source, "rb") as packed, path.open("wb") as plain:
                shutil.copyfileobj(packed, plain, 1 << 20)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            place = f"offset {path.stat().st_size} of the decompressed stream"
            raise InputError(
                source, f"can't be decompressed: {error}", place=place, remedy=_REMEDY
            ) from error
    return [path, path]
