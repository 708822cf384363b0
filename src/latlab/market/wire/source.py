"""What a path or an address names: a file, or a feed on the wire."""

from __future__ import annotations

from os import PathLike

from latlab.market.files.open import Source

__all__ = ["source_of"]


def source_of(path: str | PathLike[str] | Source) -> Source:
    """An input: a file, or ``udp://GROUP:PORT`` (see `parse_udp`).

    Raises:
        InputError: as `Source`.
        UsageError: the address is none.
        UnavailableError: a line can't be joined.
    """
    if isinstance(path, Source):
        return path
    if isinstance(path, str) and path.startswith("udp://"):
        from latlab.market.wire.receive import LiveSource

        return LiveSource(path)
    return Source(path)
