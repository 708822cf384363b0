from __future__ import annotations

import gzip
import json
import os
import random
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from market_oracle import slow_inside
from tests.files.started import called

from latlab.errors import InputError, UsageError
from latlab.market import census, depth, generate, inside, snapshot, trades

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("LATLAB_SHARED", ROOT.parent / "shared"))
SAMPLES = sorted(p for folder in ("itch", "moldudp64", "pitch") for p in (SHARED / "data" / folder).glob("*"))


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("market") / "day.itch"
    generate(path, seed=3, messages=6_000, symbols=12)
    return path


def lines_of(path: Path, tmp_path: Path, **options: object) -> list[str]:
    inside(path, tmp_path / "inside.txt", **options)
    return (tmp_path / "inside.txt").read_text().splitlines()


@pytest.mark.parametrize("book", ["ladder", "array", "map"])
def test_every_true_change_of_the_inside_is_written_and_none_that_is_not(
    day: Path, tmp_path: Path, book: str
) -> None:
    assert lines_of(day, tmp_path, book=book) == slow_inside(day.read_bytes())


def test_a_small_array_gives_the_same_inside(day: Path, tmp_path: Path) -> None:
    small = inside(day, tmp_path / "small.txt", book="array", capacity=64)
    assert (tmp_path / "small.txt").read_text().splitlines() == slow_inside(day.read_bytes())
    assert small.side_counts["far"] > 0
    assert small.side_counts["flushes"] > 0


def test_a_book_of_real_messages_has_the_inside_of_the_slow_one(tmp_path: Path) -> None:
    path = SHARED / "data/itch/aapl-premarket-10k.itch"
    if not path.exists():
        pytest.skip(f"no sample data in {SHARED}")
    assert lines_of(path, tmp_path) == slow_inside(path.read_bytes())


def message(kind: str, locate: int, ref: int, *rest: bytes, ts: int = 1) -> bytes:
    body = kind.encode() + struct.pack(">HHHIQ", locate, 0, 0, ts, ref) + b"".join(rest)
    return struct.pack(">H", len(body)) + body


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Orders in two symbols with few references and prices, so that everything collides."""
    out = []
    number = st.integers(0, 5)
    for _ in range(draw(st.integers(0, 60))):
        locate, ref, new = draw(st.integers(1, 2)), draw(number), draw(number)
        qty = struct.pack(">I", draw(st.sampled_from([0, 1, 5, 6, 100, 2**32 - 1])))
        price = struct.pack(">I", draw(st.sampled_from([1, 9_999, 10_000, 10_001, 10_100, 1_999_999_900])))
        kind = draw(st.sampled_from("AAAFECXDUP"))
        name = b"SYM%d    " % locate
        if kind in "AFP":
            tail = {"A": b"", "F": b"NITE", "P": b"\0" * 8}[kind]
            out.append(
                message(kind, locate, ref, draw(st.sampled_from([b"B", b"S"])), qty, name, price, tail)
            )
        elif kind in "EC":
            out.append(message(kind, locate, ref, qty, b"\0" * 8, b"Y" + price if kind == "C" else b""))
        elif kind == "X":
            out.append(message(kind, locate, ref, qty))
        elif kind == "D":
            out.append(message(kind, locate, ref))
        else:
            out.append(message(kind, locate, ref, struct.pack(">Q", new), qty, price))
    return b"".join(out)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(data=streams(), book=st.sampled_from(["ladder", "array", "map"]))
def test_any_stream_of_orders_gives_the_inside_of_the_slow_book(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, book: str
) -> None:
    folder = tmp_path_factory.mktemp("stream")
    (folder / "s.itch").write_bytes(b"\x00\x0cS\0\0\0\0\0\0\0\0\0\0O" + data)
    assert lines_of(folder / "s.itch", folder, book=book) == slow_inside(data)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_damaged_input_of_any_kind_ends_in_a_result_or_one_clear_error(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    rng = random.Random(seed)
    folder = tmp_path_factory.getbasetemp()
    base = folder / "base.itch"
    if not base.exists():
        generate(base, seed=9, messages=300, symbols=5)
    if SAMPLES and rng.random() < 0.7:
        base = rng.choice(SAMPLES)
    data = bytearray(base.read_bytes()[:8000])
    for _ in range(rng.randrange(6)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    if rng.random() < 0.5:
        del data[rng.randrange(len(data)) :]
    if rng.random() < 0.3:
        at = rng.randrange(len(data) + 1)
        data[at:at] = data[at // 2 : at]
    if rng.random() < 0.2:
        data = bytearray(gzip.compress(bytes(data)))[: rng.randrange(10, 5000)]
    damaged = folder / "damaged"
    damaged.write_bytes(data)
    for lenient in (False, True):
        complaint = f"{damaged}: "
        try:
            found = census(damaged, lenient=lenient)
        except InputError as error:
            complaint = str(error)
        else:
            assert found.messages == sum(found.by_type.values())
            assert all(e.offset <= max(len(data), found.messages * 60 + 70_000) for e in found.errors)
        assert complaint.startswith(str(damaged))
        assert "\n" not in complaint


@pytest.mark.skipif(not SAMPLES, reason=f"no sample data in {SHARED}")
@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.name[-40:])
def test_every_sample_is_read_without_an_error(path: Path) -> None:
    found = census(path)
    assert found.errors == ()
    assert found.messages > 0


def test_text_columns_and_compressed_text_hold_the_same_changes(day: Path, tmp_path: Path) -> None:
    text = lines_of(day, tmp_path)
    inside(day, tmp_path / "inside.txt.gz")
    inside(day, tmp_path / "inside.parquet")
    rows = pq.read_table(tmp_path / "inside.parquet").to_pylist()
    assert [" ".join(str(v) for v in row.values()) for row in rows] == text
    assert gzip.decompress((tmp_path / "inside.txt.gz").read_bytes()).decode().splitlines() == text


def test_symbols_and_times_select_lines_and_do_not_change_them(day: Path, tmp_path: Path) -> None:
    every = [line.split() for line in lines_of(day, tmp_path)]
    name, begin = every[len(every) // 2][2], int(every[len(every) // 3][0])
    wanted = [" ".join(line) for line in every if line[2] == name and int(line[0]) >= begin]
    assert lines_of(day, tmp_path, symbols=(name,), from_ns=begin) == wanted


def test_the_first_level_of_several_is_the_inside(day: Path, tmp_path: Path) -> None:
    top = [line.split() for line in lines_of(day, tmp_path)]
    deep = [line.split() for line in lines_of(day, tmp_path, levels=3)]
    last: dict[str, list[str]] = {}
    changes = []
    for line in deep:
        assert len(line) == 3 + 12
        if line[3:7] != last.get(line[1], ["0"] * 4):
            changes.append(line[:7])
        last[line[1]] = line[3:7]
    assert changes == top


def test_a_killed_run_is_resumed_at_its_last_whole_line(day: Path, tmp_path: Path) -> None:
    text = "\n".join(lines_of(day, tmp_path)) + "\n"
    for name, torn in (("a.txt", text[:5000].encode()), ("a.txt.gz", gzip.compress(text.encode())[:3000])):
        (tmp_path / name).write_bytes(torn)
        inside(day, tmp_path / name, resume=True)
        data = (tmp_path / name).read_bytes()
        assert (gzip.decompress(data) if name.endswith("gz") else data).decode() == text


def test_a_killed_table_of_changes_is_resumed(
    day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latlab.market.files.parts._PART_ROWS", 500)
    inside(day, tmp_path / "whole.parquet")
    rows = pq.read_table(tmp_path / "whole.parquet")
    assert rows.num_rows > 2_000
    (tmp_path / "killed.parquet.parts").mkdir()
    pq.write_table(rows.slice(0, 1_234), tmp_path / "killed.parquet.parts" / "part-00000.parquet")
    for _ in range(2):  # and a finished one again
        assert inside(day, tmp_path / "killed.parquet", resume=True).rows == rows.num_rows
        assert pq.read_table(tmp_path / "killed.parquet").equals(rows)


def system_event(code: bytes, ts: int) -> bytes:
    body = b"S" + struct.pack(">HHHI", 0, 0, 0, ts) + code
    return struct.pack(">H", len(body)) + body


def test_books_and_numbers_of_symbols_are_those_of_a_day(tmp_path: Path) -> None:
    def order(ref: int, name: bytes, price: int) -> bytes:
        qty = struct.pack(">I", 100)
        return message("A", 1, ref, b"B", qty, name.ljust(8), struct.pack(">I", price))

    def directory(name: bytes) -> bytes:
        body = b"R" + struct.pack(">HHHI", 1, 0, 0, 1) + name.ljust(8) + bytes(20)
        return struct.pack(">H", len(body)) + body

    first = system_event(b"O", 1) + directory(b"OLD") + order(1, b"OLD", 20_000)
    second = system_event(b"O", 1) + directory(b"NEW") + order(1, b"NEW", 10_000)
    (tmp_path / "days").write_bytes(first + second)
    assert lines_of(tmp_path / "days", tmp_path) == ["1 1 OLD 20000 100 0 0", "1 1 NEW 10000 100 0 0"]
    assert lines_of(tmp_path / "days", tmp_path, symbols=("NEW",)) == ["1 1 NEW 10000 100 0 0"]
    assert not any(census(tmp_path / "days").anomalies.values())


def test_a_wrong_length_stops_a_strict_reading_at_its_offset_and_is_skipped_by_a_lenient_one(
    tmp_path: Path,
) -> None:
    good = message("D", 1, 7)
    bad = b"\x00\x05D1234"
    (tmp_path / "a").write_bytes(good + bad + good)
    strict, lenient = census(tmp_path / "a"), census(tmp_path / "a", lenient=True)
    assert [(e.offset, "length 5" in e.what) for e in strict.errors] == [(len(good), True)]
    assert (strict.messages, lenient.messages, lenient.malformed) == (1, 2, 1)


def test_unknown_types_and_zero_lengths_are_counted_and_skipped(tmp_path: Path) -> None:
    good = message("D", 1, 7)
    (tmp_path / "a").write_bytes(good + b"\x00\x03zzz" + b"\x00\x00" + good)
    found = census(tmp_path / "a")
    assert (found.messages, found.by_type["z"], found.unknown, found.empty) == (3, 1, 1, 1)
    assert found.errors == ()


def test_what_a_book_cannot_apply_is_counted_by_kind(tmp_path: Path) -> None:
    add = message("A", 1, 1, b"B", struct.pack(">I", 100), b"SYM     ", struct.pack(">I", 10_000))
    beyond = message("E", 1, 1, struct.pack(">I", 101), b"\0" * 8)
    (tmp_path / "a").write_bytes(add + add + beyond + message("D", 1, 1))
    found = census(tmp_path / "a").anomalies
    assert (found["duplicate_order"], found["beyond_quantity"], found["unknown_order"]) == (1, 1, 1)


def test_a_torn_file_is_an_error_with_its_offset_and_keeps_what_came_before(
    day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = tmp_path / "torn.itch"
    torn.write_bytes(day.read_bytes()[:-3])
    code, out, err = called(capsys, "market", "census", torn, "--json")
    assert code == 1
    assert json.loads(out)["messages"] == 5_999
    assert len(err.splitlines()) == 1
    with pytest.raises(InputError, match="offset"):
        inside(torn, tmp_path / "inside.txt")
    assert not (tmp_path / "inside.txt").exists()
    kept = (tmp_path / "inside.txt.part").read_text().splitlines()
    assert kept == slow_inside(day.read_bytes()[:-3])


@pytest.mark.parametrize(
    "content",
    [b"", b"hello, world\n" * 10, b"\x7fELF" + b"\0" * 100, b"root:x:0:0:root:/root:/bin/sh\n" * 9],
)
def test_a_foreign_file_is_refused_in_one_line(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "foreign").write_bytes(content)
    code, _, err = called(capsys, "market", "inside", tmp_path / "foreign", "-o", tmp_path / "out")
    assert code == 1
    (said,) = err.splitlines()
    assert "is empty" in said or "holds neither ITCH nor PITCH messages" in said


def test_a_generated_day_has_the_published_depth(tmp_path: Path) -> None:
    generate(tmp_path / "day.itch.gz", seed=1, messages=400_000, symbols=300)
    found = depth(tmp_path / "day.itch.gz").event_depth
    assert found["p50"] == 1
    assert 5 <= found["p75"] <= 7
    assert 12 <= found["p90"] <= 17
    assert 160 <= found["p99"] <= 250
    assert 1_600 <= found["p99.9"] <= 2_600
    assert found["p99.99"] > 10_000


def test_trades_are_at_the_resting_price_unless_the_message_has_its_own(tmp_path: Path) -> None:
    add = message("A", 1, 1, b"S", struct.pack(">I", 100), b"SYM     ", struct.pack(">I", 10_000))
    execution = message("E", 1, 1, struct.pack(">I", 30), struct.pack(">Q", 5))
    printed = message("C", 1, 1, struct.pack(">I", 20), struct.pack(">Q", 6), b"N", struct.pack(">I", 9_900))
    (tmp_path / "a").write_bytes(add + execution + printed)
    rows = trades(tmp_path / "a").to_pylist()
    assert [(r["price"], r["qty"], r["match"], r["printable"]) for r in rows] == [
        (10_000, 30, 5, True),
        (9_900, 20, 6, False),
    ]
    assert {(r["symbol"], r["side"]) for r in rows} == {("SYM", "S")}


def test_a_snapshot_holds_the_inside_of_its_time(day: Path, tmp_path: Path) -> None:
    lines = [line.split() for line in slow_inside(day.read_bytes())]
    at_ns = int(lines[len(lines) // 2][0])
    last = {int(line[1]): line[3:] for line in lines if int(line[0]) <= at_ns}
    found = {locate: ["0"] * 4 for locate in last}
    for row in snapshot(day, at_ns=at_ns).to_pylist():
        if row["level"] == 0:
            at = 0 if row["side"] == "B" else 2
            found[row["locate"]][at : at + 2] = [str(row["price"]), str(row["qty"])]
    assert found == last


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_what_stands_before_the_tear_of_a_compressed_file_is_read(
    day: Path, tmp_path: Path, kind: str
) -> None:
    whole = tmp_path / "whole"
    with pa.output_stream(str(whole), compression=kind) as stream:
        stream.write(day.read_bytes())
    data = whole.read_bytes()
    torn = tmp_path / "torn"
    torn.write_bytes(data[: len(data) * 3 // 4])
    found = census(torn)
    assert 2_000 < found.messages < 6_000
    assert [error.what for error in found.errors if "truncated or damaged" in error.what]
    lines = lines_of(day, tmp_path)
    with pytest.raises(InputError, match=r"what came before it is in .*torn.txt.part"):
        inside(torn, tmp_path / "torn.txt")
    kept = (tmp_path / "torn.txt.part").read_text().splitlines()
    assert len(kept) > 100
    assert kept == lines[: len(kept)]


def test_a_period_that_ends_before_it_begins_is_a_usage_error(day: Path, tmp_path: Path) -> None:
    for refused in (
        lambda: inside(day, tmp_path / "out.txt", from_ns=2, to_ns=1),
        lambda: depth(day, from_ns=2, to_ns=1),
        lambda: trades(day, from_ns=2, to_ns=1),
    ):
        with pytest.raises(UsageError, match="ends before it begins"):
            refused()


def test_a_symbol_that_the_input_has_not_is_told(
    day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = ["-o", str(tmp_path / "out.txt"), "--symbols", "AAAA,NOPE"]
    code, _, err = called(capsys, "market", "inside", day, *outputs)
    assert code == 0
    assert "no symbol NOPE in the input" in err
