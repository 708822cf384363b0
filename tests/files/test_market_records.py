from __future__ import annotations

import csv
import gzip
import json
import os
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from latlab._core.market import RecordDecoder, best_permutation
from latlab.errors import InputError
from latlab.market import (
    RECORD_TYPES,
    census,
    decode,
    generate,
    read,
    read_events,
    stats,
    stats_archive,
    stats_csv,
)
from latlab.market.records import layouts
from latlab.market.records.layouts import Records

SHARED = Path(os.environ.get("LATLAB_SHARED", Path(__file__).parents[3] / "shared"))


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("market") / "day.itch.gz"
    generate(path, seed=4, messages=20_000, symbols=40)
    return path


def frames(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        found.append((at, data[at + 2 : at + 2 + size]))
        at += 2 + size
    return found


def slow_records(data: bytes) -> list[tuple[int, str, tuple[object, ...]]]:
    """Every field by the wire's order, from the widths that the record types give."""
    rows: list[tuple[int, str, tuple[object, ...]]] = []
    for offset, message in frames(data):
        kind = chr(message[0])
        at = 0
        values: list[object] = []
        for name in RECORD_TYPES[kind].names or ():
            if name == "offset":
                continue
            dtype = RECORD_TYPES[kind][name]
            size = 6 if name == "ts_ns" else dtype.itemsize
            raw = message[at : at + size]
            values.append(raw.rstrip(b"\0") if dtype.kind == "S" else int.from_bytes(raw, "big"))
            at += size
        assert at == len(message)
        rows.append((offset, kind, tuple(values)))
    return rows


@pytest.mark.parametrize("permutation", range(best_permutation() + 1))
def test_every_field_of_every_type_is_decoded_by_every_permutation(day: Path, permutation: int) -> None:
    data = gzip.decompress(day.read_bytes())
    decoder = RecordDecoder(False, permutation)
    rows = []
    for at in range(0, len(data), 10_007):
        decoder.feed(np.frombuffer(data, np.uint8)[at : at + 10_007])
        for (kind, dtype), (count, raw) in zip(RECORD_TYPES.items(), decoder.take(), strict=True):
            for row in raw[: count * dtype.itemsize].view(dtype).tolist():
                rows.append((row[-1], kind, tuple(row[:-1])))
    decoder.finish()
    assert sorted(rows) == slow_records(data)
    assert {kind for _, kind, _ in rows} == set(RECORD_TYPES)


def test_reading_yields_all_messages_with_their_offsets(day: Path) -> None:
    batches = list(read(day))
    offsets = np.sort(np.concatenate([r["offset"] for b in batches for r in b.values()]))
    assert offsets.tolist() == [at for at, _ in frames(gzip.decompress(day.read_bytes()))]


def test_decoding_writes_one_table_a_type_and_goes_on_behind_finished_parts(
    day: Path, tmp_path: Path
) -> None:
    rows = decode(day, tmp_path / "out.parquet")
    assert rows == census(day).by_type
    table = pq.read_table(tmp_path / "out.parquet" / "A")
    assert table.num_rows == rows["A"]
    part = next((tmp_path / "out.parquet" / "A").iterdir())
    before = part.stat().st_mtime_ns
    assert decode(day, tmp_path / "out.parquet", resume=True) == rows
    assert part.stat().st_mtime_ns == before


def test_events_are_the_same_in_one_table(day: Path, tmp_path: Path) -> None:
    decode(day, tmp_path / "events.parquet", per="event")
    table = pq.read_table(tmp_path / "events.parquet")
    events = np.concatenate(list(read_events(day)))
    assert table.num_rows == len(events) == 20_000
    assert table["price"].to_numpy().tolist() == events["price"].tolist()


BINARY: list[tuple[str, dict[str, Any], bytes]] = [
    # From the specification, field by field: values, and the bytes that they are.
    ("0x20", {"seconds": 34_200}, struct.pack("<BBI", 6, 0x20, 34_200)),
    (
        "0x21",
        {"ref": 7, "side": b"B", "shares": 70_000, "symbol": b"ZVZZT ", "price": 123_456, "add_flags": 1},
        struct.pack("<BBIQcI6sQB", 34, 0x21, 5, 7, b"B", 70_000, b"ZVZZT ", 123_456, 1),
    ),
    (
        "0x22",
        {"ref": 8, "side": b"S", "shares": 100, "symbol": b"ZVZZT ", "price": 10_100, "add_flags": 1},
        struct.pack("<BBIQcH6sHB", 26, 0x22, 6, 8, b"S", 100, b"ZVZZT ", 101, 1),
    ),
    (
        "0x2f",
        {
            "ref": 9,
            "shares": 5,
            "symbol": b"ZVZZTABC",
            "price": 9_999,
            "participant": b"ABCD",
        },
        struct.pack("<BBIQcI8sQB4s", 40, 0x2F, 7, 9, b"B", 5, b"ZVZZTABC", 9_999, 1, b"ABCD"),
    ),
    ("0x23", {"ref": 7, "shares": 3, "execution": 11}, struct.pack("<BBIQIQ", 26, 0x23, 8, 7, 3, 11)),
    (
        "0x24",
        {"ref": 7, "shares": 3, "remaining": 2, "execution": 12, "price": 123_400},
        struct.pack("<BBIQIIQQ", 38, 0x24, 9, 7, 3, 2, 12, 123_400),
    ),
    ("0x25", {"ref": 7, "shares": 1}, struct.pack("<BBIQI", 18, 0x25, 10, 7, 1)),
    ("0x26", {"ref": 8, "shares": 1}, struct.pack("<BBIQH", 16, 0x26, 11, 8, 1)),
    (
        "0x27",
        {"ref": 9, "shares": 6, "price": 10_000, "modify_flags": 3},
        struct.pack("<BBIQIQB", 27, 0x27, 12, 9, 6, 10_000, 3),
    ),
    ("0x28", {"ref": 8, "shares": 6, "price": 10_200}, struct.pack("<BBIQHHB", 19, 0x28, 13, 8, 6, 102, 0)),
    ("0x29", {"ref": 8}, struct.pack("<BBIQ", 14, 0x29, 14, 8)),
    (
        "0x2a",
        {"symbol": b"ZVZZT ", "price": 500, "execution": 13},
        struct.pack("<BBIQcI6sQQ", 41, 0x2A, 15, 0, b"B", 70_000, b"ZVZZT ", 500, 13),
    ),
    (
        "0x2b",
        {"shares": 7, "price": 50_000, "execution": 14},
        struct.pack("<BBIQcH6sHQ", 33, 0x2B, 16, 0, b"B", 7, b"ZVZZT ", 500, 14),
    ),
    ("0x2c", {"execution": 14}, struct.pack("<BBIQ", 14, 0x2C, 17, 14)),
    (
        "0x31",
        {"symbol": b"ZVZZT   ", "trading_status": b"T", "reg_sho_action": b"0"},
        struct.pack("<BBI8scc2s", 18, 0x31, 18, b"ZVZZT   ", b"T", b"0", b"  "),
    ),
    ("0x97", {}, struct.pack("<BBI", 6, 0x97, 19)),
]


@pytest.mark.parametrize("output", ["numpy", "arrow"])
def test_every_field_of_binary_pitch_is_decoded(tmp_path: Path, output: str) -> None:
    body = b"".join(raw for _, _, raw in BINARY)
    (tmp_path / "units").write_bytes(struct.pack("<HBBI", 8 + len(body), len(BINARY), 3, 1) + body)
    (batch,) = read(tmp_path / "units", output=output)  # type: ignore[call-overload]
    assert sorted(batch) == sorted(kind for kind, _, _ in BINARY)
    for number, (kind, fields, _) in enumerate(BINARY):
        row = batch[kind]
        row = row.to_pylist()[0] if output == "arrow" else dict(zip(row.dtype.names, row[0], strict=True))
        if output == "arrow":  # texts, without the blanks that fill them
            fields = {k: v.decode().rstrip() if isinstance(v, bytes) else v for k, v in fields.items()}
        assert {name: row[name] for name in fields} == fields
        offset_ns = 0 if kind == "0x20" else number + 4
        assert (row["unit"], row["ts_ns"]) == (3, 34_200 * 10**9 + offset_ns)


ASCII = [
    "S28800011AAK27GA0000DTS000100SH    0000619200Y",
    "28800012dAK27GA0000DUB000200ABCDEFGH0000619100NMPID",
    "S28800013EAK27GA0000DT000040000000000A1Z",
    "S28800014XAK27GA0000DT000010",
    "S28800015P000000000001B000005SH    00006192000000000000A2",
    "S28800016B0000000000A2",
    "S28800017HSH      T0XY",
    "S28800018JSH      O00006192000000001000",
    "S28800019sSH      ",
]


def test_every_field_of_ascii_pitch_is_decoded(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("\n".join(ASCII) + "\n")
    (batch,) = read(tmp_path / "lines")
    found = {}
    for kind, rows in batch.items():
        found[kind] = dict(zip(rows.dtype.names or (), rows[0].tolist(), strict=True))
    ref = int("AK27GA0000DT", 36)
    assert found["A"] == {
        "type": b"A",
        "ts_ns": 28_800_011_000_000,
        "ref": ref,
        "side": b"S",
        "shares": 100,
        "symbol": b"SH    ",
        "price": 619_200,
        "display": b"Y",
        "offset": 0,
    }
    assert (found["d"]["symbol"], found["d"]["participant"]) == (b"ABCDEFGH", b"MPID")
    assert (found["E"]["ref"], found["E"]["shares"], found["E"]["execution"]) == (ref, 40, int("A1Z", 36))
    assert (found["X"]["ref"], found["X"]["shares"]) == (ref, 10)
    assert (found["P"]["price"], found["P"]["execution"]) == (619_200, int("A2", 36))
    assert found["B"]["execution"] == int("A2", 36)
    assert (found["H"]["trading_status"], found["H"]["reserved"]) == (b"T", b"XY")
    assert (found["J"]["price"], found["J"]["shares"]) == (619_200, 1_000)
    assert found["s"]["symbol"] == b"SH      "


def test_pitch_is_decoded_to_a_table_a_type_and_as_book_events(tmp_path: Path) -> None:
    path = SHARED / "data/pitch/bats-pitch-ascii-20k.txt"
    if not path.exists():
        pytest.skip(f"no sample data in {SHARED}")
    assert decode(path, tmp_path / "out") == census(path).by_type
    events = np.concatenate(list(read_events(path)))
    assert len(events) == 20_000
    assert (events["ref"][0], events["price"][0], events["qty"][0]) == (int("AK27GA0000DT", 36), 619_200, 100)
    assert pq.read_table(tmp_path / "out" / "A").slice(0, 1).to_pylist()[0]["price"] == 619_200


def test_a_torn_capture_is_an_error_of_reading_too(tmp_path: Path) -> None:
    (tmp_path / "units").write_bytes(struct.pack("<HBBI", 8, 0, 3, 1) + b"\x30\0\1")
    with pytest.raises(InputError, match="inside a unit"):
        list(read(tmp_path / "units"))


class Killed(BaseException):
    pass


@pytest.mark.long
@pytest.mark.parametrize("per", ["type", "event"])
def test_a_killed_decoding_is_resumed_without_a_row_lost_or_doubled(
    day: Path, tmp_path: Path, per: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latlab.market.files.parts._PART_ROWS", 700)
    monkeypatch.setattr("latlab.market.files.open._PIECE_BYTES", 4_000)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    decode(day, whole, per=per)
    calls, arrow = 0, layouts.table_of

    def dying(records: Records) -> object:
        nonlocal calls
        calls += 1
        if calls == 60:
            raise Killed
        return arrow(records)

    monkeypatch.setattr(layouts, "table_of", dying)
    with pytest.raises(Killed):
        decode(day, killed, per=per)
    monkeypatch.setattr(layouts, "table_of", arrow)
    kept = killed.with_name("killed.parts" if per == "event" else "killed.part")
    assert not killed.exists()
    assert any(kept.rglob("part-*.parquet"))
    assert decode(day, killed, per=per, resume=True) == decode(day, whole, per=per)
    kinds = sorted(p.name for p in whole.iterdir()) if per == "type" else ["."]
    for kind in kinds:
        # By values: parts have their own categories.
        assert pq.read_table(killed / kind).to_pylist() == pq.read_table(whole / kind).to_pylist()
    assert not killed.with_name("killed.parts").exists()
    assert not killed.with_name("killed.part").exists()


def test_a_torn_file_yields_what_came_before_the_tear(tmp_path: Path) -> None:
    generate(tmp_path / "day", seed=1, messages=1000, symbols=5)
    (tmp_path / "torn").write_bytes((tmp_path / "day").read_bytes()[:-1])
    batches: list[dict[str, Records]] = []
    with pytest.raises(InputError, match="offset"):
        batches.extend(read(tmp_path / "torn"))
    assert sum(len(records) for batch in batches for records in batch.values()) == 999


def delete(ts: int, locate: int) -> bytes:
    return b"\x00\x13D" + struct.pack(">HHHIQ", locate, 0, ts >> 32, ts & 0xFFFFFFFF, 1)


def test_rates_are_weighted_by_time_and_gaps_are_counted_exactly(tmp_path: Path) -> None:
    # One event at 0, one at 0.5 s, two at 2 s: for 0.5 s one in the trailing second, for 0.5 s two, for 0.5 s
    # one, for 0.5 s none.
    times = [0, 500_000_000, 2_000_000_000, 2_000_000_000]
    (tmp_path / "a").write_bytes(b"".join(delete(t, 1) for t in times))
    found, _ = stats(tmp_path / "a", over="messages")
    one = found["__aggregate__"]
    second = one.distributions[0]
    assert second.bins[:3].tolist() == [500_000_000, 1_000_000_000, 500_000_000]
    assert (second.quantile(0.25), second.quantile(0.5), second.quantile(0.75), second.greatest) == (
        0,
        1,
        1,
        2,
    )
    gaps = one.distributions[3]
    assert (one.samples, gaps.least, gaps.greatest) == (4, 0, 1_500_000_000)
    assert gaps.quantile(0.5) == pytest.approx(500_000_000, rel=0.01)


def slow_rates(times: list[int], window: int) -> dict[int, int]:
    """Time spent at each count of events in the trailing window, by looking at every edge."""
    edges = sorted({*times, *(t + window for t in times)})
    edges = [e for e in edges if e <= times[-1]]
    spent: dict[int, int] = {}
    for begin, end in pairwise(edges):
        count = sum(begin - window < t <= begin for t in times)
        spent[count] = spent.get(count, 0) + end - begin
    return spent


@pytest.mark.parametrize("scale", [10, 3_000, 400_000_000])
def test_rates_agree_with_a_slow_count_in_all_windows(tmp_path: Path, scale: int) -> None:
    times = np.cumsum(np.random.default_rng(scale).integers(0, scale, 300)).tolist()
    (tmp_path / "a").write_bytes(b"".join(delete(t, 1) for t in times))
    found, _ = stats(tmp_path / "a", over="messages")
    for distribution, window in zip(
        found["__aggregate__"].distributions[:3], (10**9, 10**6, 10**3), strict=True
    ):
        bins = {i: int(w) for i, w in enumerate(distribution.bins) if w}
        if max(bins) < 256:
            assert bins == slow_rates(times, window)


def test_the_columns_are_those_of_the_published_statistics(day: Path) -> None:
    found, _ = stats(day)
    rows = list(csv.reader(stats_csv(found).splitlines()))
    path = SHARED / "data/statistics/nasdaq-itch-per-symbol.csv.gz"
    if path.exists():
        with gzip.open(path, "rt") as file:
            assert rows[0] == next(csv.reader(file))
    assert rows[-1][0] == "__aggregate__"
    assert int(rows[-1][1]) == sum(int(row[1]) for row in rows[1:-1])


def without_processing(text: str) -> list[list[str]]:
    rows = list(csv.reader(text.splitlines()))
    kept = [i for i, name in enumerate(rows[0]) if "Processing" not in name]
    return [[row[i] for i in kept] for row in rows]


def test_an_archive_merges_histograms_and_is_resumed(tmp_path: Path) -> None:
    days = tmp_path / "days"
    days.mkdir()
    for seed in (1, 2):
        generate(days / f"{seed}.itch.gz", seed=seed, messages=3_000, symbols=10)
    whole = stats_archive(days, tmp_path / "parts")
    assert whole["__aggregate__"].samples == sum(
        stats(days / f"{seed}.itch.gz")[0]["__aggregate__"].samples for seed in (1, 2)
    )
    seen: list[str] = []
    again = stats_archive(days, tmp_path / "parts", notice=seen.append)
    assert seen == []
    assert without_processing(stats_csv(again)) == without_processing(stats_csv(whole))


def test_json_of_a_census_is_schema_1(day: Path) -> None:
    assert json.loads(json.dumps(census(day).document()))["schema"] == 1
