"""No command of market destroys an input, or passes damage for success.

Over 400 lines: one small day, and a test of each way to lose it or to be told nothing.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import pickle
import random
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from market_framings import capture, mold, soup
from tests.files.started import called

from latlab.cli._main import main
from latlab.errors import InputError
from latlab.market import (
    census,
    generate,
    inside,
    lobster,
    read,
    read_events,
    snapshot,
    stats,
    stats_archive,
    trades,
)
from latlab.market.files.decompress import checked
from latlab.market.files.open import Source

# What each command needs behind FILE to write OUT.
COMMANDS = {
    "bars": ["--every", "1s", "-o", "OUT.csv"],
    "census": [],
    "decode": ["-o", "OUT"],
    "depth": [],
    "inside": ["-o", "OUT.txt"],
    "lobster": ["--symbol", "AAAA", "-o", "OUT"],
    "snapshot": ["--at", "10:00", "-o", "OUT.csv"],
    "stats": ["-o", "OUT.csv"],
    "trades": ["-o", "OUT.csv"],
    "replay": ["--to", "OUT.itch"],
}


def run(command: str, file: object, folder: Path, *more: str) -> int:
    options = [str(folder / o) if o.startswith("OUT") else o for o in COMMANDS[command]]
    with pytest.raises(SystemExit) as left:
        main(["market", command, str(file), *options, *more])
    return int(left.value.code or 0)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("safety") / "day.itch"
    generate(path, seed=5, messages=3_000, symbols=10)
    return path


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Longer than any piece that is read at once (32 MiB of a plain file)."""
    path = tmp_path_factory.mktemp("safety") / "long.itch"
    generate(path, seed=6, messages=1_150_000, symbols=20)
    assert path.stat().st_size > 33 << 20
    return path


PACKED: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}


def packed(data: bytes, kind: str) -> bytes:
    return PACKED[kind](data) if kind in PACKED else bytes(pa.compress(data, kind, asbytes=True))


# The beginning of a frame, by the formats' specifications.
HEADS = {
    "zstd": (b"\x28\xb5\x2f\xfd\x64", b"\x28\xb5\x2f\xfd\x60"),
    "lz4": (b"\x04\x22\x4d\x18\x64\x40", b"\x04\x22\x4d\x18\x60\x40"),
    "xz": (b"\xfd7zXZ\0\0\x04", b"\xfd7zXZ\0\0\0"),
    "gzip": (b"\x1f\x8b\x08\0\0\0\0\0", None),
    "bzip2": (b"BZh91AY&", None),
}


@pytest.mark.parametrize("kind", list(HEADS))
def test_a_compression_without_a_checksum_is_known_by_its_header(kind: str) -> None:
    with_one, without = HEADS[kind]
    assert checked(with_one)
    assert without is None or not checked(without)


@pytest.mark.parametrize("kind", ["gz", "xz", "xz without", "zstd", "lz4"])
def test_a_file_whose_compression_has_no_checksum_is_told_and_read(
    day: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data, file = day.read_bytes(), tmp_path / "file"
    bare = kind == "xz without"
    file.write_bytes(lzma.compress(data, check=lzma.CHECK_NONE) if bare else packed(data, kind))
    code, _, said = called(capsys, "market", "trades", file, "-o", tmp_path / "OUT.csv")
    assert code == 0
    assert said.count("carries no checksum: damage inside it can go unseen") == (kind not in ("gz", "xz"))
    assert census(file).unchecked == {"xz without": "xz", "zstd": "zstd", "lz4": "lz4"}.get(kind, "")


@pytest.mark.parametrize("way", ["file", "fifo"])
@pytest.mark.parametrize("kind", ["gz", "xz", "bz2", "zstd", "lz4"])
def test_a_block_larger_than_what_is_read_at_first_is_recognised(tmp_path: Path, kind: str, way: str) -> None:
    day, file = tmp_path / "day.itch", tmp_path / "file"
    generate(day, seed=8, messages=30_000, symbols=100)
    data = packed(day.read_bytes(), kind)
    assert len(data) > 3 << 16
    if way == "fifo":
        os.mkfifo(file)
        threading.Thread(target=lambda: file.write_bytes(data), daemon=True).start()
    else:
        file.write_bytes(data)
    assert census(file) == census(day)


@pytest.mark.parametrize("kind", ["gz", "xz", "bz2", "zstd", "lz4"])
def test_damage_before_the_first_message_is_not_called_a_foreign_file(
    day: Path, tmp_path: Path, kind: str
) -> None:
    torn = tmp_path / "torn"
    torn.write_bytes(packed(day.read_bytes(), kind)[:20])
    with pytest.raises(InputError, match="stream is truncated or damaged"):
        census(torn)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c != "replay"])
@pytest.mark.parametrize("kind", ["plain", "gz", "xz", "bz2", "zst", "fifo"])
def test_every_command_reads_every_kind_of_file(day: Path, tmp_path: Path, command: str, kind: str) -> None:
    file, data = tmp_path / "file", day.read_bytes()
    if kind == "fifo":
        os.mkfifo(file)
        threading.Thread(target=lambda: file.write_bytes(data), daemon=True).start()
    elif kind == "zst":
        file.write_bytes(pa.compress(data, "zstd", asbytes=True))
    else:
        file.write_bytes(PACKED.get(kind, bytes)(data))
    assert run(command, file, tmp_path) == 0


@pytest.mark.parametrize("command", ["census", "snapshot", "decode", "trades"])
def test_files_past_every_buffer_are_read_to_their_end(long: Path, tmp_path: Path, command: str) -> None:
    assert run(command, long, tmp_path) == 0


@pytest.mark.parametrize("pack", ["plain", "gz"])
def test_a_snapshot_in_the_middle_of_a_long_file_is_no_error(long: Path, tmp_path: Path, pack: str) -> None:
    file = long
    if pack == "gz":
        file = tmp_path / "long.gz"
        file.write_bytes(gzip.compress(long.read_bytes(), 1))
    assert snapshot(file, at_ns=36_000 * 10**9).num_rows > 100


def test_the_standard_input_and_output_are_files_too(day: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "latlab", "market", "inside", "-", "-o", "-"]
    with day.open("rb") as stdin:
        done = subprocess.run(command, stdin=stdin, capture_output=True, check=True)
    inside(day, tmp_path / "inside.txt")
    assert done.stdout == (tmp_path / "inside.txt").read_bytes()
    command = [sys.executable, "-m", "latlab", "market", "trades", "-", "-o", "-"]
    done = subprocess.run(command, input=gzip.compress(day.read_bytes()), capture_output=True, check=True)
    assert len(done.stdout.splitlines()) == trades(day).num_rows + 1


@pytest.mark.parametrize("how", ["same", "link", "hard", "part", "detour", "behind"])
@pytest.mark.parametrize("command", [c for c in COMMANDS if COMMANDS[c]])
def test_an_output_that_is_the_input_is_refused_and_nothing_is_touched(
    day: Path, tmp_path: Path, command: str, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if command == "lobster":  # its outputs have names of their own
        pytest.skip("writes to a folder")
    data = day.read_bytes()
    name = {"bars": "a.csv", "stats": "a.csv", "snapshot": "a.csv", "trades": "a.csv"}.get(command, "a.txt")
    out = tmp_path / name
    file = tmp_path / "input" if how in ("link", "hard") else out
    if how == "part":
        file = tmp_path / f"{name}.part"
    elif how == "behind":  # where a link's target is made
        file = tmp_path / f"real-{name}.part"
    file.write_bytes(data)
    if how == "link":
        out.symlink_to(file)
    elif how == "behind":
        out.symlink_to(tmp_path / f"real-{name}")
    elif how == "detour":  # a folder that need not be there
        out = tmp_path / "nowhere" / ".." / name
    elif how == "hard":
        out.hardlink_to(file)
    options = [str(out) if o.startswith("OUT") else o for o in COMMANDS[command]]
    code, _, err = called(capsys, "market", command, file, *options)
    assert code == 2
    assert file.read_bytes() == data
    assert "is the input" in err


def test_two_outputs_of_one_name_are_refused(day: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "a.csv")
    with pytest.raises(SystemExit) as left:
        main(["market", "stats", str(day), "-o", out, "--html", out])
    assert left.value.code == 2


class Stopped(BaseException):
    pass


def test_an_interrupted_generation_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "day.itch"
    out.write_bytes(b"before")
    monkeypatch.setattr("latlab.market.files.generate._CHUNK_BYTES", 4_000)
    calls = 0

    class Dying:
        def __init__(self, *args: object) -> None:
            pass

        def fill(self, size: int) -> bytes:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise Stopped
            return bytes(size)

    monkeypatch.setattr("latlab.market.files.generate.Generator", Dying)
    with pytest.raises(Stopped):
        generate(out)
    assert out.read_bytes() == b"before"
    assert [p.name for p in tmp_path.iterdir()] == ["day.itch"]


@pytest.mark.parametrize("command", [c for c in COMMANDS if COMMANDS[c] and c not in ("lobster", "snapshot")])
def test_an_input_that_is_torn_leaves_an_output_of_before_as_it_was(
    day: Path, tmp_path: Path, command: str
) -> None:
    torn = tmp_path / "torn.itch"
    torn.write_bytes(day.read_bytes()[:-3])
    assert run(command, day, tmp_path) == 0
    (out,) = [p for p in tmp_path.iterdir() if p.name.startswith("OUT")]
    before = {p: p.read_bytes() for p in [out, *out.rglob("*")] if p.is_file()}
    assert run(command, torn, tmp_path) == 1
    assert {p: p.read_bytes() for p in [out, *out.rglob("*")] if p.is_file()} == before


def test_decode_refuses_a_folder_that_holds_something_else(day: Path, tmp_path: Path) -> None:
    (tmp_path / "OUT").mkdir()
    (tmp_path / "OUT" / "thesis.tex").write_text("years")
    assert run("decode", day, tmp_path) == 2
    assert (tmp_path / "OUT" / "thesis.tex").read_text() == "years"


def test_a_reading_goes_on_behind_a_hundred_flipped_bits(tmp_path: Path) -> None:
    generate(tmp_path / "day.itch", seed=8, messages=10_000, symbols=20)
    whole = (tmp_path / "day.itch").read_bytes()
    for seed in range(10):
        rng = random.Random(seed)
        data = bytearray(whole)
        for _ in range(100):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        (tmp_path / "flipped").write_bytes(data)
        found = census(tmp_path / "flipped", lenient=True)
        assert found.messages >= 9_900
        assert found.damage(books=False)
        decoded = 0
        for batch in read(tmp_path / "flipped", lenient=True, tell=lambda _: None):
            decoded += sum(len(records) for records in batch.values())
        assert decoded >= 9_900 - found.unknown


def test_a_hole_of_zeros_costs_a_lenient_reading_what_stood_there_and_no_more(tmp_path: Path) -> None:
    generate(tmp_path / "day.itch", seed=8, messages=10_000, symbols=20)
    data = bytearray((tmp_path / "day.itch").read_bytes())
    data[100_000:104_096] = bytes(4_096)
    (tmp_path / "hole").write_bytes(data)
    found = census(tmp_path / "hole", lenient=True)
    assert 9_800 < found.messages < 9_960
    assert found.damage(books=False)
    assert run("census", tmp_path / "hole", tmp_path) in (1, 3)


@pytest.mark.parametrize("damage", ["torn", "checksum", "garbage"])
@pytest.mark.parametrize("command", ["census", "inside", "trades", "stats", "decode"])
def test_a_damaged_compression_leaves_with_3_when_lenient_and_with_1_when_strict(
    day: Path, tmp_path: Path, command: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = gzip.compress(day.read_bytes())
    packed = {
        "torn": packed[: len(packed) // 2],
        "checksum": packed[:-8] + bytes(4) + packed[-4:],
        "garbage": packed + b"garbage",
    }[damage]
    (tmp_path / "day.gz").write_bytes(packed)
    assert run(command, tmp_path / "day.gz", tmp_path) == 1
    assert run(command, tmp_path / "day.gz", tmp_path, "--lenient") == 3
    assert "truncated or damaged" in capsys.readouterr().err


def event(ts: int) -> bytes:
    return b"S" + struct.pack(">HHHI", 0, 0, 0, ts) + b"Q"


def test_captures_of_tcpdump_on_any_interface_are_read(tmp_path: Path) -> None:
    sll2 = struct.pack(">HHIHBB", 0x0800, 0, 2, 1, 0, 6) + bytes(8)
    (tmp_path / "any.pcap").write_bytes(capture(276, sll2, [mold(1, event(1), event(2)), mold(3, event(3))]))
    found = census(tmp_path / "any.pcap")
    assert (found.messages, found.errors) == (3, ())


def test_a_capture_of_an_unknown_link_type_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "strange.pcap").write_bytes(capture(147, bytes(14), [mold(1, event(1))]))
    (error,) = census(tmp_path / "strange.pcap").errors
    assert "link type 147" in error.what
    assert run("census", tmp_path / "strange.pcap", tmp_path, "--lenient") == 3


def test_other_traffic_between_a_feeds_packets_is_counted_and_ends_nothing(tmp_path: Path) -> None:
    mdns = bytes.fromhex("000084000000000100000000095f7365727669636573075f646e732d7364045f756470056c6f63616c")
    ether = bytes(12) + b"\x08\x00"
    packets = [(5353, mdns), mold(1, event(1)), (5353, mdns), mold(2, event(2))]
    (tmp_path / "mixed.pcap").write_bytes(capture(1, ether, packets))
    found = census(tmp_path / "mixed.pcap")
    assert (found.messages, found.errors) == (2, ())
    assert (found.transport["ignored"], found.transport["malformed"]) == (2, 0)
    assert run("census", tmp_path / "mixed.pcap", tmp_path) == 0


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_damaged_packet_where_the_feeds_come_is_damage_also_before_the_first_that_is_whole(
    tmp_path: Path, place: int
) -> None:
    packets = [mold(1, event(1)), mold(2, event(2))]
    packets.insert(place, mold(9, event(9))[:-3])
    (tmp_path / "hurt.pcap").write_bytes(capture(1, bytes(12) + b"\x08\x00", packets))
    assert run("census", tmp_path / "hurt.pcap", tmp_path, "--lenient") == 3
    assert run("census", tmp_path / "hurt.pcap", tmp_path) == 1


def test_captures_of_openbsds_loopback_are_read(tmp_path: Path) -> None:
    (tmp_path / "loop.pcap").write_bytes(capture(108, b"\0\0\0\2", [mold(1, event(1))]))
    found = census(tmp_path / "loop.pcap")
    assert (found.messages, found.errors) == (1, ())


def test_a_capture_without_messages_is_an_error(tmp_path: Path) -> None:
    ether = bytes(12) + b"\x08\x00"
    (tmp_path / "other.pcap").write_bytes(capture(1, ether, [b"dns"]))
    assert run("census", tmp_path / "other.pcap", tmp_path) == 1


def test_a_first_packet_that_was_overtaken_is_not_called_a_duplicate(tmp_path: Path) -> None:
    ether = bytes(12) + b"\x08\x00"
    late = [mold(11, event(2)), mold(10, event(1)), mold(12, event(3))]
    (tmp_path / "late.pcap").write_bytes(capture(1, ether, late))
    found = census(tmp_path / "late.pcap")
    assert (found.messages, found.out_of_order) == (3, 0)
    assert (found.transport["duplicates"], found.transport["lost"], found.transport["late"]) == (0, 0, 0)
    begun = [mold(n, event(n)) for n in range(100, 140)]
    (tmp_path / "later.pcap").write_bytes(capture(1, ether, [*begun, mold(99, event(1))]))
    assert census(tmp_path / "later.pcap").transport["late"] == 1
    assert run("census", tmp_path / "later.pcap", tmp_path) == 3


def message(kind: bytes, locate: int, ts: int, rest: bytes) -> bytes:
    body = kind + struct.pack(">HHHI", locate, 0, 0, ts) + rest
    return struct.pack(">H", len(body)) + body


def add(ref: int, side: bytes, qty: int, price: int, ts: int = 1) -> bytes:
    return message(b"A", 1, ts, struct.pack(">QcI8sI", ref, side, qty, b"SYM", price))


def test_crosses_keep_all_their_shares_and_have_no_side_and_none_without_shares(tmp_path: Path) -> None:
    big = message(b"Q", 1, 2, struct.pack(">Q8sIQc", 5_000_000_000, b"SYM", 10_000, 7, b"O"))
    none = message(b"Q", 1, 3, struct.pack(">Q8sIQc", 0, b"SYM", 0, 0, b"C"))
    (tmp_path / "a").write_bytes(add(1, b"B", 1, 10_000) + big + none)
    (row,) = trades(tmp_path / "a").to_pylist()
    assert (row["qty"], row["side"], row["aggressor"], row["match"]) == (5_000_000_000, None, None, 7)
    events = [e for batch in read_events(tmp_path / "a") for e in batch.tolist()]
    assert [e[4] for e in events] == [1, 5_000_000_000, 0]


def test_a_broken_trade_marks_its_trade_and_an_execution_has_an_aggressor(tmp_path: Path) -> None:
    executions = [message(b"E", 1, 2 + i, struct.pack(">QIQ", 1, 10, 50 + i)) for i in range(2)]
    broken = message(b"B", 1, 9, struct.pack(">Q", 51))
    (tmp_path / "a").write_bytes(add(1, b"S", 100, 10_000) + b"".join(executions) + broken)
    rows = trades(tmp_path / "a").to_pylist()
    assert [(r["match"], r["broken"], r["aggressor"], r["side"]) for r in rows] == [
        (50, False, "B", "S"),
        (51, True, "B", "S"),
    ]


def test_the_greatest_rate_counts_the_events_of_the_last_instant(tmp_path: Path) -> None:
    orders = b"".join(add(ref, b"B", 1, 10_000 + ref * 100, ts=5) for ref in range(1, 8))
    (tmp_path / "a").write_bytes(orders)
    found, _ = stats(tmp_path / "a", over="messages")
    assert [found["SYM"].distributions[i].quantile(1.0) for i in range(3)] == [7, 7, 7]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["snapshot", "--at", "25:00:00", "-o", "a.csv"], "later than 24:00:00"),
        (["snapshot", "--at", "10:60", "-o", "a.csv"], "is not a time of day"),
        (["snapshot", "--at", "ten", "-o", "a.csv"], "HH:MM:SS"),
        (["trades", "-o", "a.xlsx"], "not the name of a table"),
        (["inside", "-o", "a.h5"], "not the name of a table"),
        (["inside", "-o", "a.parquet.gz"], "not the name of a table"),
        (["decode", "-o", "-"], "give -o a name"),
        (["snapshot", "-o", "a.csv"], "give one of"),
        (["snapshot", "--every", "often", "-o", "a.csv"], "often"),
        (["inside", "-o", "."], "is a folder"),
    ],
)
def test_what_can_not_be_done_is_one_clear_line(
    day: Path,
    options: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: Any,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = called(capsys, "market", options[0], day, *options[1:])
    assert code in (1, 2)
    (line,) = err.splitlines()
    assert says in line


def test_tables_are_written_as_feather_and_csv_too(day: Path, tmp_path: Path) -> None:
    inside(day, tmp_path / "a.parquet")
    inside(day, tmp_path / "a.feather")
    inside(day, tmp_path / "a.csv.gz")
    rows = pq.read_table(tmp_path / "a.parquet")
    assert pyarrow.feather.read_table(tmp_path / "a.feather").to_pylist() == rows.to_pylist()
    text = gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).decode().splitlines()
    assert text[0].replace('"', "").split(",") == rows.column_names
    assert len(text) == rows.num_rows + 1


@pytest.mark.parametrize("damage", ["torn", "flipped"])
def test_a_delay_between_damaged_feeds_leaves_with_3_when_lenient_and_with_1_when_strict(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    generate(tmp_path / "a.itch", seed=3, messages=20_000, symbols=10)
    data = (tmp_path / "a.itch").read_bytes()
    if damage == "torn":
        (tmp_path / "b").write_bytes(gzip.compress(data)[:-2_000])
    else:
        (tmp_path / "b").write_bytes(data[:50_000] + bytes([data[50_000] ^ 16]) + data[50_001:-7])
    command = ["market", "delay", str(tmp_path / "a.itch"), str(tmp_path / "b")]
    for more, wanted in (([], 1), (["--lenient"], 3)):
        with pytest.raises(SystemExit) as left:
            main([*command, *more])
        assert left.value.code == wanted
    assert "do not trust the result" in capsys.readouterr().err


def test_symbols_and_damage_are_told_where_there_is_nothing_else_to_tell(
    day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = tmp_path / "torn"
    torn.write_bytes(day.read_bytes()[:-5])
    code, _, said = called(capsys, "market", "delay", day, torn, "--symbols", "NOPE", "--lenient")
    assert code == 3
    assert "no symbol NOPE in the input" in said
    assert "the stream ends inside a message" in said
    out = str(tmp_path / "levels.csv")
    code, _, said = called(capsys, "market", "snapshot", day, "--at", "10:00", "--symbols", "NOPE", "-o", out)
    assert code == 0
    assert "no symbol NOPE in the input" in said


@pytest.mark.parametrize("more", [(), ("--lenient",)])
def test_a_capture_without_packets_is_one_line_of_every_command(
    tmp_path: Path, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_bytes(capture(1, b"", []))
    for command in COMMANDS:
        if command == "replay" and more:
            continue
        assert run(command, file, tmp_path, *more) in (1, 3)
        assert "Traceback" not in (said := capsys.readouterr().err), command
        assert said.startswith("latlab: "), command


@pytest.mark.parametrize("more", [(), ("--lenient",)])
def test_messages_behind_an_end_of_session_are_damage_to_decode_too(
    day: Path, tmp_path: Path, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    data, at = day.read_bytes(), 0
    for _ in range(1_000):
        at += 2 + int.from_bytes(data[at : at + 2], "big")
    for name, made, status in (
        ("middle", data[:at] + b"\0\0" + data[at:], 3),
        ("end", data + b"\0\0", 0),
        ("days", data + b"\0\0" + data, 0),
    ):
        file = tmp_path / name
        file.write_bytes(made)
        assert run("decode", file, tmp_path, *more) == status, name
        assert ("zero lengths" in capsys.readouterr().err) == (status == 3), name


def test_a_symbol_that_is_not_there_leaves_no_folder_behind(day: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no symbol NOPE"):
        lobster(day, tmp_path / "made", symbol="NOPE")
    assert not (tmp_path / "made").exists()
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match="has no symbol NOPE"):
        lobster(day, tmp_path / "there", symbol="NOPE")
    assert (tmp_path / "there").exists()


@pytest.mark.parametrize("command", ["trades", "inside", "bars"])
def test_a_reader_that_has_seen_enough_is_no_error(day: Path, command: str) -> None:
    more = ["--every", "1s"] if command == "bars" else []
    line = [sys.executable, "-m", "latlab", "market", command, str(day), *more, "-o", "-"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        done = subprocess.run(line, stdout=gone, stderr=subprocess.PIPE, text=True, check=False, timeout=100)
    assert "Broken pipe" not in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("folder", ["OUT.parquet.parts", "OUT.parquet.part"])
def test_an_input_in_a_folder_where_the_output_grows_is_refused(
    day: Path, tmp_path: Path, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / folder).mkdir()
    mine = tmp_path / folder / "mine.itch"
    mine.write_bytes(day.read_bytes())
    code, _, said = called(capsys, "market", "inside", mine, "-o", tmp_path / "OUT.parquet")
    assert code == 2
    assert "is in the folder" in said
    assert mine.read_bytes() == day.read_bytes()


def test_a_wrong_length_of_soup_costs_its_packet_alone(tmp_path: Path, day: Path) -> None:
    sound = soup(day.read_bytes())
    hurt, at = bytearray(sound), 3
    for number in range(2_000):
        if number % 40 == 39:
            hurt[at] |= 0x10  # 4,096 bytes more
        at += 2 + int.from_bytes(sound[at : at + 2], "big")
    (tmp_path / "hurt").write_bytes(hurt)
    found = census(tmp_path / "hurt", lenient=True)
    assert found.malformed == 50
    assert found.messages == census(day).messages - 50


def test_what_somebody_else_put_beside_the_parts_stays(day: Path, tmp_path: Path) -> None:
    (tmp_path / "out.parquet.parts").mkdir()
    other = tmp_path / "out.parquet.parts/notes"
    other.write_text("mine")
    inside(day, tmp_path / "out.parquet")
    assert other.read_text() == "mine"
    assert pq.read_table(tmp_path / "out.parquet").num_rows == inside(day).num_rows


@pytest.mark.parametrize("command", ["census", "depth", "delay"])
def test_what_a_command_prints_does_not_go_into_its_input(day: Path, tmp_path: Path, command: str) -> None:
    mine = tmp_path / "mine.itch"
    mine.write_bytes(day.read_bytes())
    files = [str(mine)] * (2 if command == "delay" else 1)
    with mine.open("r+b") as out:
        line = [sys.executable, "-m", "latlab", "market", command, *files]
        done = subprocess.run(line, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "the standard output is the input" in done.stderr
    assert mine.read_bytes() == day.read_bytes()


def test_statistics_of_a_folder_do_not_take_the_place_of_a_day(
    day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.itch"
    mine.write_bytes(day.read_bytes())
    code, _, said = called(capsys, "market", "stats", tmp_path, "-o", mine)
    assert code == 2
    assert "is the input" in said
    assert mine.read_bytes() == day.read_bytes()


def test_damage_of_a_day_in_a_folder_is_told_in_later_runs_too(
    day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    days = tmp_path / "days"
    days.mkdir()
    (days / "torn.itch").write_bytes(day.read_bytes()[:-3])
    out = tmp_path / "out.csv"
    for _ in range(2):
        code, _, said = called(capsys, "market", "stats", days, "-o", out, "--lenient")
        assert code == 3
        assert "torn.itch: 1 errors in all" in said
    assert called(capsys, "market", "stats", days, "-o", out)[0] == 1  # not from the lenient run's parts
    (days / "torn.itch").write_bytes(day.read_bytes())
    assert called(capsys, "market", "stats", days, "-o", out)[0] == 0  # the day is another now


@pytest.mark.parametrize("option", [["--levels", "2"], ["--long"], ["--from", "9:00"], ["--to", "11:00"]])
def test_a_snapshot_at_one_time_refuses_what_it_would_not_heed(
    day: Path, tmp_path: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["market", "snapshot", str(day), "--at", "10:00", "-o", str(tmp_path / "a.csv"), *option]
    code, _, said = called(capsys, *line)
    assert code == 2
    assert f"--at takes no {option[0]}" in said


class Planted:
    """A pickle that makes a file as it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


def archived(day: Path, folder: Path) -> tuple[Path, Path, Path, Any]:
    """A folder of one day, that of its parts, the one part, and the statistics."""
    days, parts = folder / "days", folder / "parts"
    days.mkdir()
    shutil.copy(day, days / "one")
    whole = stats_archive(days, parts)
    (kept,) = parts.iterdir()
    return days, parts, kept, whole


def test_what_somebody_lays_beside_an_output_is_never_run(day: Path, tmp_path: Path) -> None:
    days, parts, kept, whole = archived(day, tmp_path)
    for name in (kept.name, "one.inside.pickle"):
        (parts / name).write_bytes(pickle.dumps(Planted(tmp_path / "owned")))
    again = stats_archive(days, parts)
    assert not (tmp_path / "owned").exists()
    assert again["__aggregate__"].samples == whole["__aggregate__"].samples


def test_a_part_that_was_cut_or_lies_is_made_anew(day: Path, tmp_path: Path) -> None:
    days, parts, kept, whole = archived(day, tmp_path)
    good = kept.read_bytes()
    for data in (
        good[:-1],
        good[:20],
        b"",
        good + b"x",
        good.replace(b'"symbols"', b'"symbol5"'),
        bytes(100),
    ):
        kept.write_bytes(data)
        seen: list[str] = []
        again = stats_archive(days, parts, notice=seen.append)
        assert seen == ["one"]
        assert again["__aggregate__"].samples == whole["__aggregate__"].samples
    kept.write_bytes(good)
    seen = []
    stats_archive(days, parts, notice=seen.append)
    assert seen == []


def test_a_file_that_is_cut_short_while_it_is_read_is_told(day: Path, tmp_path: Path) -> None:
    path = tmp_path / "shrinks"
    path.write_bytes(day.read_bytes())
    with Source(path).pieces() as pieces:
        piece = next(pieces)
        os.truncate(path, 0)
        assert int(piece[-1]) == 0  # the first look at it: a map of before would end the process
        with pytest.raises(InputError, match="became shorter while it was read"):
            next(pieces)


def test_a_name_of_two_lines_is_one_line_of_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a\nlatlab: all is well"
    path.write_bytes(b"neither ITCH nor PITCH")
    with pytest.raises(SystemExit):
        main(["market", "census", str(path)])
    assert capsys.readouterr().err.count("\n") == 1
