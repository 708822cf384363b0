"""A feed off the wire into a file, into books, or both."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from os import PathLike
from pathlib import Path

from latlab.market.books.passes import census, write_inside
from latlab.market.files.output import create, guard, unwritable
from latlab.market.wire.addresses import UdpAddress
from latlab.market.wire.receive import LiveSource
from latlab.model.market import Census

_FLUSH_S = 1.0


def receive(
    address: str | UdpAddress,
    *,
    output: str | PathLike[str] | None = None,
    changes: str | PathLike[str] | None = None,
    started: Callable[[LiveSource], None] = lambda source: None,
) -> Census:
    """Receive a feed until its session ends or it falls silent, into a file, into books, or both.

    Args:
        address: see `parse_udp`.
        output: a BinaryFILE (of a PITCH feed: its units one behind the other), compressed when it ends in
            ``.gz`` or ``.zst``.
        changes: every change of the inside, as `inside` writes it.
        started: is given the source when its lines are joined; `LiveSource.stop` ends the reception.

    Returns:
        The census; its `transport` says what was lost, recovered and doubled.

    Raises:
        UnavailableError: a line can't be joined, or nothing came.
        InputError: an output can't be written.
    """
    guard([], [output, changes])
    with ExitStack() as stack:
        copy = None
        if output is not None:
            try:
                copy = _Copy(stack.enter_context(create(Path(output))))
            except OSError as error:
                raise unwritable(output, error) from error
        source = LiveSource(address, copy=copy)
        started(source)
        # What a torn network brings is not the fault of a file that somebody could mend: it is counted.
        if changes is not None:
            return write_inside(source, changes, lenient=True).census
        return census(source, lenient=True)


class _Copy:
    """Writes, and once a second hands what was written to the system, so that a kill takes little back."""

    def __init__(self, file: object) -> None:
        self._file, self._flushed_at = file, time.monotonic()

    def __call__(self, frames: bytes) -> None:
        self._file.write(frames)  # type: ignore[attr-defined]
        if time.monotonic() - self._flushed_at > _FLUSH_S:
            self._file.flush()  # type: ignore[attr-defined]
            self._flushed_at = time.monotonic()
