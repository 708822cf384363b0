"""The framing of an Arrow IPC stream: where its messages end, so that a stream cut anywhere yields its whole
chunks.

Arrow's own reader either decodes a message or throws; it doesn't say up to which byte a stream is good. An
encapsulated message is `FF FF FF FF`, the length of its metadata (int32), the metadata (a flatbuffer, padded
to 8 bytes), and a body whose length stands in the metadata (Arrow columnar format, "Encapsulated message
format").
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from latlab.words import plural

__all__ = ["DICTIONARY_BATCH", "RECORD_BATCH", "SCHEMA", "ArrowMessage", "FramingError", "messages"]

# Message.header_type of format/Message.fbs.
SCHEMA, DICTIONARY_BATCH, RECORD_BATCH = 1, 2, 3
_CONTINUATION = b"\xff\xff\xff\xff"
_MOST_METADATA = 16 << 20  # a hundred thousand columns
# Slots of the Message table's fields in its flatbuffer vtable.
_HEADER_TYPE, _BODY_LENGTH = 1, 3


class FramingError(Exception):
    """Bytes that are no Arrow message.

    Args:
        offset: where they begin.
        what: what is wrong with them.
    """

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(what)
        self.offset = offset
        self.what = what


@dataclass(frozen=True, slots=True)
class ArrowMessage:
    """One whole message of a stream: what it is, and the bytes [begin, end) that it takes."""

    kind: int
    begin: int
    end: int


def messages(read: Callable[[int, int], bytes], size: int) -> Iterator[ArrowMessage]:
    """The whole messages at the start of a stream, up to its end mark or to an unfinished message.

    Args:
        read: gives the bytes at an offset, of a length; fewer at the end. Bodies are not asked for.
        size: of the stream.

    Raises:
        FramingError: where something else than a message begins.
    """
    at = 0
    while size - at >= 8:
        head = read(at, 8)
        if len(head) < 8:
            return  # it became shorter
        if head[:4] != _CONTINUATION:
            raise FramingError(at, "no Arrow message begins here")
        (metadata_length,) = struct.unpack_from("<i", head, 4)
        if metadata_length == 0:
            return
        if metadata_length < 0:
            raise FramingError(at + 4, f"an Arrow message of {plural(metadata_length, 'byte')}")
        body = at + 8 + metadata_length
        if body > size:
            return
        if metadata_length > _MOST_METADATA:
            raise FramingError(at + 4, f"an Arrow message with metadata of {plural(metadata_length, 'byte')}")
        kind, body_length = _header(memoryview(read(at + 8, metadata_length)), at + 8)
        end = body + body_length
        if end > size:
            return
        yield ArrowMessage(kind, at, end)
        at = end


def _header(metadata: memoryview, offset: int) -> tuple[int, int]:
    """The kind of a message and its body's length, from its flatbuffer."""
    try:
        (table,) = struct.unpack_from("<I", metadata, 0)
        (back,) = struct.unpack_from("<i", metadata, table)
        vtable = table - back
        if vtable < 0:
            raise FramingError(offset, "an Arrow message whose metadata point outside it")
        (size,) = struct.unpack_from("<H", metadata, vtable)

        def field(slot: int, layout: str) -> int:
            entry = 4 + 2 * slot
            if entry + 2 > size:
                return 0
            (distance,) = struct.unpack_from("<H", metadata, vtable + entry)
            return int(struct.unpack_from(layout, metadata, table + distance)[0]) if distance else 0

        kind, body_length = field(_HEADER_TYPE, "<B"), field(_BODY_LENGTH, "<q")
    except struct.error:
        raise FramingError(offset, "an Arrow message whose metadata point outside it") from None
    if body_length < 0 or body_length % 8:
        raise FramingError(offset, f"an Arrow message with a body of {plural(body_length, 'byte')}")
    if kind not in (SCHEMA, DICTIONARY_BATCH, RECORD_BATCH):
        raise FramingError(offset, f"an Arrow message of kind {kind}, which no series has")
    return kind, body_length
