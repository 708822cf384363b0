"""Files of several days and times that go back: each row has the names of its own day."""

from __future__ import annotations

import struct
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from market_framings import capture
from market_oracle import frames

from latlab.cli._main import main
from latlab.errors import InputError
from latlab.market import (
    bar_stream,
    bars,
    census,
    delay,
    generate,
    inside,
    read,
    replay,
    snapshot,
    snapshots,
    stats,
    target_of,
    trade_stream,
)
from latlab.market import trades as trades_of
from latlab.market.files.table_output import write_tables

S = 1_000_000_000
# Where a message's symbol stands.
STOCK_AT = {
    b"R": 11,
    b"A": 24,
    b"F": 24,
    b"P": 24,
    b"H": 11,
    b"Y": 11,
    b"L": 15,
    b"Q": 19,
    b"I": 28,
} | dict.fromkeys((b"K", b"J", b"h", b"N"), 11)
TABLES: dict[str, Callable[[Path], pa.Table]] = {
    "inside": inside,
    "trades": trades_of,
    "even times": lambda path: snapshots(path, every_ns=600 * S),
    "changes": lambda path: snapshots(path, levels=2),
    "long": lambda path: snapshots(path, levels=2, long=True),
    "bars of trades": lambda path: bars(path, ticks=3),
    "bars of time": lambda path: bars(path, every_ns=600 * S),
    "bars as a stream": lambda path: bar_stream(path, every_ns=600 * S).read(),
}


def framed(messages: list[bytes]) -> bytes:
    return b"".join(struct.pack(">H", len(m)) + m for m in messages)


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A day, and a file of that day and of one like it in which its symbols' numbers are others'."""
    folder = tmp_path_factory.mktemp("days")
    one, both = folder / "20240105.one.itch", folder / "20240105.both.itch"
    generate(one, seed=3, messages=3_000, symbols=5)
    renamed = []
    for m in frames(one.read_bytes()):
        at = STOCK_AT.get(m[:1])
        renamed.append(m if at is None else m[:at] + b"Z" + m[at : at + 7] + m[at + 8 :])
    both.write_bytes(one.read_bytes() + framed(renamed))
    return one, both


@pytest.mark.parametrize("what", TABLES)
def test_each_row_of_a_file_of_two_days_has_the_symbol_of_its_day(days: tuple[Path, Path], what: str) -> None:
    one, both = (TABLES[what](path) for path in days)
    wanted = Counter(one["symbol"].to_pylist())
    assert len(wanted) == 5 or what.startswith("bars")
    assert Counter(both["symbol"].to_pylist()) == wanted + Counter({"Z" + k: n for k, n in wanted.items()})
    # The date of the name is the first day's.
    known = both.filter(both["time"].is_valid())
    assert known.select(one.column_names).to_pylist() == one.to_pylist() or what == "bars of trades"
    assert set(known["symbol"].to_pylist()) == set(wanted)


def test_the_symbols_of_every_day_are_in_the_input(days: tuple[Path, Path]) -> None:
    assert census(days[1]).symbols == 10
    assert inside(days[1], symbols=("AAAA", "ZAAAA")).num_rows > 0


def test_what_is_of_one_day_refuses_two(days: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match="holds several days"):
        stats(days[1])
    with pytest.raises(InputError, match="holds several days"):
        delay(days[1], days[1])


def test_messages_that_go_back_in_time_are_damage_for_who_makes_no_books_too(
    days: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = list(frames(days[0].read_bytes()))
    messages[1000], messages[2000] = messages[2000], messages[1000]
    file = tmp_path / "swapped.itch"
    file.write_bytes(framed(messages))
    told: list[Any] = []
    rows = sum(len(records) for batch in read(file, tell=told.append) for records in batch.values())
    assert (rows, told[0].out_of_order) == (3_000, census(file).out_of_order) == (3_000, 2)
    for command in (["census", str(file)], ["decode", str(file), "-o", str(tmp_path / "out")]):
        with pytest.raises(SystemExit) as left:
            main(["market", *command])
        assert left.value.code == 3
        assert "2 messages go back in time" in capsys.readouterr().err
    several: list[Any] = []
    assert sum(1 for _ in read(days[1], tell=several.append))
    assert several[0].out_of_order == 0  # another day's begin


def test_the_units_of_a_pitch_feed_have_no_common_order(tmp_path: Path) -> None:
    packets, next_of = [], {1: 1, 2: 1}
    for n in range(60):
        for unit, behind in ((1, 0), (2, 300_000_000)):
            seconds, ns = divmod(34_200 * S + n * 50_000_000 - behind, S)
            time = struct.pack("<BBI", 6, 0x20, seconds)
            order = struct.pack(
                "<BBIQcI6sQB", 34, 0x21, ns, 2 * n + unit, b"B", 100, b"ZVZZT ", 10_000 + 100 * n, 1
            )
            body = time + order if next_of[unit] == 1 or ns < 50_000_000 else order
            count = 1 + (len(body) > len(order))
            packets.append(struct.pack("<HBBI", 8 + len(body), count, unit, next_of[unit]) + body)
            next_of[unit] += count
    file = tmp_path / "feed.pcap"
    file.write_bytes(capture(1, bytes(12) + b"\x08\x00", packets))
    found = census(file)
    assert (found.messages, found.damage(books=True)) == (sum(next_of.values()) - 2, {})
    told: list[Any] = []
    assert sum(1 for _ in read(file, tell=told.append))
    assert told[0].damage(books=False) == {}


def test_one_damaged_time_does_not_end_a_snapshot(days: tuple[Path, Path], tmp_path: Path) -> None:
    messages = list(frames(days[0].read_bytes()))
    at = next(i for i, m in enumerate(messages) if m[:1] == b"A")
    noon = 43_200 * S
    whole = snapshot(days[0], at_ns=noon)
    # A message in front of all orders claims to be of the evening.
    state = next(m for m in messages if m[:1] == b"H")
    messages.insert(at, state[:5] + (86_000 * S).to_bytes(6, "big") + state[11:])
    file = tmp_path / "hurt.itch"
    file.write_bytes(framed(messages))
    told: list[Any] = []
    assert snapshot(file, at_ns=noon, tell=told.append).equals(whole)
    assert told[0].out_of_order == 1
    rows = snapshots(file, to_ns=noon, tell=told.append)
    assert rows.num_rows == snapshots(days[0], to_ns=noon, day="2024-01-05").num_rows


def test_a_table_that_an_error_ends_leaves_nothing_behind_to_complain(
    days: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)

    def tables() -> Any:
        yield pa.table({"a": [1, 2, 3]})
        raise InputError(days[0], "is torn")

    for name in ("out.parquet", "out.feather", "out.csv.gz"):
        with pytest.raises(InputError, match="is torn"):
            write_tables(tables(), tmp_path / name)
    assert said == []
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing_behind_to_complain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    for name in ("full.parquet", "full.feather", "full.csv"):
        (tmp_path / name).symlink_to("/dev/full")
        with pytest.raises(InputError, match="No space left"):
            write_tables(iter([pa.table({"a": list(range(100_000))})]), tmp_path / name)
    assert said == []


def test_a_break_is_of_its_own_day(days: tuple[Path, Path], tmp_path: Path) -> None:
    one, _ = days
    day = list(frames(one.read_bytes()))
    match = next(m[-8:] for m in day if m[:1] == b"P")
    end = next(at for at, m in enumerate(day) if m[:1] == b"S" and m[11:12] == b"E")
    unbroken = [m for m in day if m[:1] != b"B"]
    taken_back = b"B" + day[end][1:5] + day[end][5:11] + match
    broken = [*unbroken[: unbroken.index(day[end])], taken_back, *unbroken[unbroken.index(day[end]) :]]
    (tmp_path / "both").write_bytes(framed(unbroken) + framed(broken))
    number = struct.unpack(">Q", match)[0]
    for table in (trades_of(tmp_path / "both"), trade_stream(tmp_path / "both").read()):
        marked = [
            b
            for n, b in zip(*(table[k].to_pylist() for k in ("match", "broken")), strict=True)
            if n == number
        ]
        assert marked == [False, True]
        assert table["broken"].to_pylist().count(True) == 1


def test_what_the_books_could_not_apply_is_damage_for_the_census_too(
    days: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    day = list(frames(days[0].read_bytes()))
    executed = {m[11:19] for m in day if m[:1] == b"D"}
    first = next(m for m in day if m[:1] == b"A" and m[11:19] in executed)
    (tmp_path / "hurt").write_bytes(framed([m for m in day if m is not first]))
    with pytest.raises(SystemExit) as left:
        main(["market", "census", str(tmp_path / "hurt")])
    assert left.value.code == 3
    assert "unknown order" in capsys.readouterr().err


def test_a_replay_to_a_full_disk_names_its_output(days: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(InputError, match="full: can't be written: No space left"):
        replay(days[0], target_of(str(tmp_path / "full")))
