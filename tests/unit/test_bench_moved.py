"""Copies of compiled files at another distance: what of a file is moved, and which files are left alone."""

from __future__ import annotations

import ctypes
import dataclasses
import math
import os
import struct
import sys
import zlib
from pathlib import Path

import pytest

from latlab.bench.measuring.pilot import Pilot
from latlab.bench.measuring.plan import make_plan
from latlab.bench.processes import moved
from latlab.model.bench import Settings
from latlab.stats.variance import Components

HEADER, SEGMENT, SECTION = (
    struct.Struct("<16sHHIQQQIHHHHHH"),
    struct.Struct("<IIQQQQQQ"),
    struct.Struct("<IIQQQQIIQQ"),
)
LOAD, DYNAMIC, TLS = 1, 2, 7
EXPORTED, POINTER, POINTED = 0x1000, 0x3100, 0x3108  # addresses of the made file
RELATIVE = 8


def made(
    *, relocated: tuple[int, ...] = (RELATIVE,), packed: bool = False, kind: int = 3, text: bytes = b"",
    code: int = 16, data: int = 8, tag: int = 0, writable: int = 0x3000,
) -> bytes:  # fmt: skip
    """A shared object of one function, one pointer to a variable and the tables that the loader reads."""
    image = bytearray(writable + 0x400)
    symbols, relocations, dynamic = 0x200, 0x300, writable
    strings = b"\0exported\0"
    image[0x280 : 0x280 + len(strings)] = strings
    image[EXPORTED : EXPORTED + 8] = b"\xc3" + text.ljust(7, b"\x90")[:7]
    struct.pack_into("<IBBHQQ", image, symbols + 24, 1, 0x12, 0, 1, EXPORTED, 1)
    struct.pack_into("<IBBHQQ", image, symbols + 48, 1, 0x12, 0, 0, 0, 0)  # of another file
    struct.pack_into("<IBBHQQ", image, symbols + 72, 1, 0x16, 0, 1, 8, 1)  # a thread's own variable
    struct.pack_into("<Q", image, writable + 0x100, POINTED)
    entries = [(6, symbols), (5, 0x280)]
    if packed:
        struct.pack_into("<QQ", image, relocations, writable + 0x100, 0b101)  # and the second word behind it
        struct.pack_into("<QQ", image, writable + 0x108, POINTED, POINTED)
        entries += [(36, relocations), (35, 16), (37, 8)]
    else:
        for index, how in enumerate(relocated):
            at = writable + 0x100 + 16 * index
            struct.pack_into("<QQq", image, relocations + 24 * index, at, how, POINTED)
        entries += [(7, relocations), (8, 24 * len(relocated)), (9, 24)]
    entries += [(tag, 0)] if tag else []
    for index, entry in enumerate([*entries, (0, 0)]):
        struct.pack_into("<QQ", image, dynamic + 16 * index, *entry)
    segments = [
        (LOAD, 4, 0, 0, 0, 0x400, 0x400, 0x1000),
        (LOAD, 5, 0x1000, 0x1000, 0x1000, 0x100, 0x100, 0x1000),
        (LOAD, 6, writable, writable, writable, 0x400, 0x500, 0x1000),
        (DYNAMIC, 6, writable, writable, writable, 0x100, 0x100, 8),
    ]
    sections = [
        (0, 11, 2, symbols, symbols, 96, 0, 0, 8, 24),
        (0, 1, 6, EXPORTED, EXPORTED, 8, 0, 0, code, 0),
        (0, 1, 3, writable + 0x100, writable + 0x100, 64, 0, 0, data, 0),
    ]
    at = len(image)
    image += b"".join(SECTION.pack(*s) for s in sections)
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = (identity, kind, 62, 1, 0, 64, at, 0, 64, 56, len(segments), 64, len(sections), 0)
    image[:64] = HEADER.pack(*header)
    image[64 : 64 + 56 * len(segments)] = b"".join(SEGMENT.pack(*s) for s in segments)
    return bytes(image)


def word(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<Q", data, at)[0])


def how(data: bytes) -> moved.Moving:
    found = moved.moving_of(data)
    assert found is not None
    return found


def test_all_addresses_of_a_copy_are_larger_by_the_distance_and_content_lies_that_much_later() -> None:
    copy = how(made()).copy(48)
    by = 4096 + 48
    assert copy[EXPORTED + by] == 0xC3
    assert word(copy, 0x200 + by + 24 + 8) == EXPORTED + by
    assert word(copy, 0x200 + by + 48 + 8) == 0  # another file's symbol has no address here
    assert word(copy, 0x200 + by + 72 + 8) == 8  # a thread's variable is at a distance in its own block
    assert (word(copy, 0x300 + by), word(copy, 0x300 + by + 16)) == (POINTER + by, POINTED + by)
    assert (word(copy, 0x3000 + by + 8), word(copy, 0x3000 + by + 24)) == (0x200 + by, 0x280 + by)
    assert word(copy, 0x3000 + by + 5 * 8 - 8 + 24) == 24  # sizes stay


def test_a_copy_has_one_segment_which_the_file_fills_but_for_its_last_zeros() -> None:
    copy = how(made()).copy(16)
    count = HEADER.unpack_from(copy)[10]
    segments = [SEGMENT.unpack_from(copy, 64 + 56 * i) for i in range(count)]
    (load,) = (s for s in segments if s[0] == LOAD)
    assert load[1:5] == (7, 0, 0, 0)
    assert (load[5], load[6]) == (len(copy), len(copy) + 0x100)
    (dynamic,) = (s for s in segments if s[0] == DYNAMIC)
    assert dynamic[2] == dynamic[3] == 0x3000 + 4096 + 16


def test_packed_relocations_and_what_they_point_at_are_moved() -> None:
    copy = how(made(packed=True)).copy(32)
    by = 4096 + 32
    assert (word(copy, 0x300 + by), word(copy, 0x300 + by + 8)) == (POINTER + by, 0b101)
    # The bitmap's lowest bit marks it as one, the next stands for the next word, and so on.
    assert [word(copy, POINTER + by + 8 * i) for i in range(3)] == [POINTED + by, POINTED, POINTED + by]


def test_a_relocation_by_a_symbol_keeps_its_addend() -> None:
    copy = how(made(relocated=(RELATIVE, (1 << 32) + 1))).copy(16)
    assert word(copy, 0x300 + 4112 + 24 + 16) == POINTED


@pytest.mark.parametrize("data", [
    b"", b"#!/bin/sh\n", made()[:100], made(kind=2), made(tag=0x6FFFFE80), made(writable=0x1800),
    made(text=b"$ORIGIN"), b"\x7fELF" + b"\0" * 200,
])  # fmt: skip
def test_what_has_fixed_or_unknown_addresses_is_left_alone(data: bytes) -> None:
    assert moved.moving_of(data) is None


WIDE = b"\xc5\xfd\x6f\x06"  # vmovdqa (%rsi), %ymm0


@pytest.mark.parametrize(("data", "step", "draws"), [
    (made(), 16, True), (made(code=32), 32, True), (made(code=1), 16, False), (made(data=32), 16, True),
    (made(data=32, text=WIDE), 32, False), (made(data=64), 64, False),
])  # fmt: skip
def test_steps_keep_alignments_and_say_whether_every_place_of_a_line_is_drawn(
    data: bytes, step: int, draws: bool
) -> None:
    found = how(data)
    assert (found.step, found.draws_lines) == (step, draws)
    assert found.copy(48) == found.copy(48 // step * step)


def test_four_consecutive_places_are_all_that_a_line_has() -> None:
    for _ in range(20):
        assert sorted(moved.drawn(place) % 64 for place in range(3, 7)) == [0, 16, 32, 48]
    assert len({moved.drawn(0) for _ in range(50)}) > 10
    assert max(moved.drawn(3) for _ in range(200)) < 4096


def test_a_block_has_all_places_of_a_line_where_the_budget_holds_such_blocks() -> None:
    settings = Settings(iterations=160, batch=1, turn=10)
    pilot = Pilot(settings, Components(0.01, 0.02, 1.0), 0.01, None, 0.0, 0.01, 1e-4, 1e4)
    placed = dataclasses.replace(pilot, settings=dataclasses.replace(settings, moved=True))

    def block(of: Pilot, seconds: float) -> int:
        plan = make_plan(
            of, smallest_effect=0.01, alpha=0.05, power=0.9, fixed_iterations=False, budget_s=seconds
        )
        return plan.block_pairs

    assert (block(placed, 10.0), block(pilot, 10.0)) == (4, 1)
    assert block(placed, 0.3) == 1


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="reads x86-64's ELF")
def test_a_library_of_this_machine_works_at_every_place() -> None:
    with open("/proc/self/maps") as file:
        paths = {Path(line.split()[-1]) for line in file if "libz.so" in line or "libm.so" in line}
    opened: list[int] = []
    for path in paths:
        found = moved.moving(path)
        for place in range(4) if found is not None else ():
            copy = moved.copied(path, moved.drawn(place))
            assert copy is not None
            opened.append(copy)  # or the next would have this one's name, which the loader knows
            library = ctypes.CDLL(f"/proc/self/fd/{copy}")
            if "libm" in path.name:
                library.cos.restype, library.cos.argtypes = ctypes.c_double, [ctypes.c_double]
                assert library.cos(0.5) == math.cos(0.5)
            else:
                assert library.crc32(0, b"a line", 6) == zlib.crc32(b"a line")
    for copy in opened:
        os.close(copy)
    if not opened:
        pytest.skip("neither library is loaded here")
