"""Tables for research, each against a slow book of its own."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.files.started import called

from latlab.errors import UsageError
from latlab.market import (
    bar_stream,
    bars,
    bars_of,
    date_of,
    decode,
    delay_windows,
    generate,
    inside,
    inside_stream,
    lobster,
    read,
    snapshot,
    snapshot_stream,
    snapshots,
    trade_stream,
    trades,
)

S = 1_000_000_000


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("research") / "20190130.day.itch"
    generate(path, seed=13, messages=9_000, symbols=4)
    return path


class SlowBook:
    """Orders in a dictionary; levels are summed anew whenever somebody asks."""

    def __init__(self) -> None:
        self.orders: dict[int, list[int | bytes]] = {}

    def levels(self, locate: int, side: bytes) -> list[tuple[int, int, int]]:
        found: dict[int, list[int]] = {}
        for its, which, price, qty in self.orders.values():
            if (its, which) == (locate, side) and qty:
                level = found.setdefault(int(price), [0, 0])
                level[0] += int(qty)
                level[1] += 1
        ordered = sorted(found.items(), reverse=side == b"B")
        return [(price, qty, orders) for price, (qty, orders) in ordered]


def played(path: Path) -> Iterator[tuple[int, bytes, int, SlowBook]]:
    """Time, message, and the book behind it."""
    data, at, book = path.read_bytes(), 0, SlowBook()
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        m = data[at + 2 : at + 2 + size]
        at += 2 + size
        kind, locate, ts = m[:1], int.from_bytes(m[1:3], "big"), int.from_bytes(m[5:11], "big")
        ref = int.from_bytes(m[11:19], "big") if kind in b"AFECXDU" else -1
        if kind in b"AF":
            qty, price = struct.unpack(">I8xI", m[20:36])
            book.orders[ref] = [locate, m[19:20], price, qty]
        elif ref in book.orders:
            order = book.orders[ref]
            order[3] = int(order[3]) - int.from_bytes(m[19:23], "big") if kind in b"ECX" else 0
            if int(order[3]) <= 0:
                del book.orders[ref]
            if kind == b"U":
                new, qty, price = struct.unpack(">QII", m[19:35])
                book.orders[new] = [order[0], order[1], price, qty]
        yield ts, m, locate, book


def test_books_at_even_times_are_those_of_a_slow_book(day: Path) -> None:
    every, levels = 1800 * S, 3
    wanted: list[list[object]] = []
    names: dict[int, str] = {}
    seen: list[int] = []

    def row(at: int, book: SlowBook) -> None:
        for locate in seen:
            values = []
            for bid, offer in zip(*(book_side(book, locate, side) for side in (b"B", b"S")), strict=True):
                values += [*bid, *offer]
            wanted.append([at, locate, names[locate], *values])

    def book_side(book: SlowBook, locate: int, side: bytes) -> list[tuple[int, int, int]]:
        return [*book.levels(locate, side), *[(0, 0, 0)] * levels][:levels]

    times = [ts for ts, *_ in played(day)]
    due = (times[0] + every - 1) // every * every
    for (_, m, locate, book), following in zip(played(day), [*times[1:], times[-1]], strict=True):
        if m[:1] == b"R":
            names[locate] = m[11:19].decode().strip()
        if m[:1] in b"AF" and locate not in seen:
            seen.append(locate)
        while due < following:
            row(due, book)
            due += every
    found = snapshots(day, every_ns=every, levels=levels).drop_columns(["time"]).to_pylist()
    rows = [list(r.values()) for r in found]
    # The last time up to the feed's end is told, too.
    assert rows[: len(wanted)] == wanted
    assert len(wanted) > 20
    assert len(rows) - len(wanted) in (0, len(seen))


def test_books_at_every_change_have_the_inside_of_market_inside_and_its_orders(day: Path) -> None:
    top = inside(day).to_pylist()
    rows = snapshots(day, levels=1).to_pylist()
    shown: list[tuple[int, ...]] = []
    last: dict[int, tuple[int, ...]] = {}
    for r in rows:
        key = (r["bid_px"], r["bid_qty"], r["offer_px"], r["offer_qty"])
        if last.get(r["locate"]) != key:
            shown.append((r["ts_ns"], r["locate"], *key))
        last[r["locate"]] = key
    assert shown == [
        (r["ts_ns"], r["locate"], r["bid_px"], r["bid_qty"], r["offer_px"], r["offer_qty"]) for r in top
    ]
    assert all((r["bid_orders"] > 0) == (r["bid_qty"] > 0) for r in rows)


def test_long_rows_hold_the_same_levels_as_wide_ones(day: Path) -> None:
    wide = snapshots(day, every_ns=3600 * S, levels=2).to_pylist()
    flat = []
    for r in wide:
        for side, word in (("B", "bid"), ("S", "offer")):
            for level, end in enumerate(("", "_2")):
                numbers = [r[f"{word}_{what}{end}"] for what in ("px", "qty", "orders")]
                if numbers[1]:
                    flat.append([r["ts_ns"], r["symbol"], side, level, *numbers])
    long = snapshots(day, every_ns=3600 * S, levels=2, long=True)
    names = ["ts_ns", "symbol", "side", "level", "price", "qty", "orders"]
    assert [list(r.values()) for r in long.select(names).to_pylist()] == flat


def test_the_first_levels_of_a_snapshot_are_those_of_the_books_of_that_time(day: Path) -> None:
    rows = (
        snapshots(day, every_ns=43_200 * S, levels=5, long=True).drop_columns(["time", "ts_ns"]).to_pylist()
    )
    at_noon = [r for r in snapshot(day, at_ns=43_200 * S).to_pylist() if r["level"] < 5]
    key = lambda r: (r["locate"], r["side"], r["level"])  # noqa: E731
    assert sorted(rows, key=key) == sorted(at_noon, key=key)


@pytest.mark.long
def test_lobster_files_go_together_line_by_line_and_are_those_of_a_slow_book(
    day: Path, tmp_path: Path
) -> None:
    levels = 2
    locate, symbol = next((n, m[11:19].decode().strip()) for _, m, n, _ in played(day) if m[:1] == b"R")
    messages, books, count = lobster(day, tmp_path, symbol=symbol, levels=levels)
    assert messages.name == f"{symbol}_2019-01-30_0_86400000_message_2.csv"
    said = [line.split(",") for line in messages.read_text().splitlines()]
    shown = [[int(v) for v in line.split(",")] for line in books.read_text().splitlines()]
    assert len(said) == len(shown) == count > 200
    wanted, last = [], None
    for ts, m, number, book in played(day):
        if number != locate or m[:1] not in b"AFECXDU":
            continue
        line: list[int] = []
        asks, bids = book.levels(locate, b"S"), book.levels(locate, b"B")
        for level in range(levels):
            line += asks[level][:2] if level < len(asks) else (9_999_999_999, 0)
            line += bids[level][:2] if level < len(bids) else (-9_999_999_999, 0)
        if line != last:
            wanted.append((f"{ts // S}.{ts % S:09d}", line))
        last = line
    # A replacement is two lines, of which the second has the slow book's.
    found = [(s[0], b) for s, b in zip(said, shown, strict=True) if s[1] in "1234"]
    lines = iter(found)
    assert all(one in lines for one in wanted)
    assert {s[1] for s in said} <= set("1234567")
    assert {s[5] for s in said} == {"1", "-1"}


def test_bars_are_those_of_the_trades_that_are_volume(day: Path) -> None:
    rows = [r for r in trades(day).to_pylist() if r["printable"] and not r["broken"]]
    made = bars(day, every_ns=1800 * S).to_pylist()
    wanted: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for r in rows:
        wanted.setdefault((r["locate"], r["ts_ns"] // (1800 * S)), []).append(r)
    assert len(made) == len(wanted) > 10
    for bar in made:
        its = wanted[bar["locate"], bar["ts_ns"] // (1800 * S)]
        prices, shares = [r["price"] for r in its], [r["qty"] for r in its]
        assert (bar["open"], bar["high"], bar["low"], bar["close"]) == (
            prices[0],
            max(prices),
            min(prices),
            prices[-1],
        )
        assert (bar["volume"], bar["trades"]) == (sum(shares), len(its))
        assert bar["vwap"] == pytest.approx(
            sum(p * q for p, q in zip(prices, shares, strict=True)) / sum(shares)
        )
        buys = sum(r["qty"] for r in its if r["aggressor"] == "B")
        sells = sum(r["qty"] for r in its if r["aggressor"] == "S")
        assert (bar["buy_volume"], bar["sell_volume"]) == (buys, sells)
        assert bar["imbalance"] == (
            None if buys + sells == 0 else pytest.approx((buys - sells) / (buys + sells))
        )


def test_bars_by_volume_are_full_but_the_last_and_bars_by_trades_have_as_many(day: Path) -> None:
    all_shares = sum(b["volume"] for b in bars(day, every_ns=3600 * S).to_pylist())
    asked: list[tuple[dict[str, Any], str]] = [({"volume": 1_000}, "volume"), ({"ticks": 5}, "trades")]
    for options, full in asked:
        made = bars(day, **options).to_pylist()
        assert sum(b["volume"] for b in made) == all_shares
        lasts = {b["locate"]: i for i, b in enumerate(made)}
        least = 1_000 if full == "volume" else 5
        assert all(b[full] >= least for i, b in enumerate(made) if i not in lasts.values())
    with pytest.raises(UsageError, match="give one"):
        bars(day, volume=5, ticks=5)


def test_streams_hold_what_the_tables_hold(day: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latlab.market.files.open._PIECE_BYTES", 1_000)
    assert inside_stream(day).read().to_pylist() == inside(day).to_pylist()
    assert len(list(inside_stream(day))) > 5
    assert trade_stream(day).reader().read_all().to_pylist() == trades(day).to_pylist()
    every = snapshot_stream(day, every_ns=3600 * S).reader().read_all()
    assert every.to_pylist() == snapshots(day, every_ns=3600 * S).to_pylist()
    key = lambda r: (r["locate"], r["ts_ns"])  # noqa: E731
    streamed = bar_stream(day, every_ns=1800 * S).read().to_pylist()
    assert sorted(streamed, key=key) == bars(day, every_ns=1800 * S).to_pylist()


def test_rows_at_even_times_are_bounded_in_number_however_many_a_piece_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "day.itch"
    generate(path, seed=4, messages=20_000, symbols=40)
    whole = snapshots(path, every_ns=60 * S)
    assert whole.num_rows > 20_000
    most = whole.num_rows // 40
    monkeypatch.setattr("latlab.market.books.bounded._ROWS", most)
    monkeypatch.setattr("latlab.market.books.bounded._MOST_STEP", 1 << 12)
    tables = list(snapshot_stream(path, every_ns=60 * S))
    assert [row for table in tables for row in table.to_pylist()] == whole.to_pylist()
    assert max(table.num_rows for table in tables) < 4 * most
    assert min(table.num_rows for table in tables[:-1]) >= most


@pytest.mark.parametrize(
    "asked",
    [
        lambda day, symbols: inside(day, symbols=symbols),
        lambda day, symbols: trades(day, symbols=symbols),
        lambda day, symbols: bars(day, every_ns=S, symbols=symbols),
        lambda day, symbols: snapshots(day, every_ns=S, symbols=symbols),
        lambda day, symbols: snapshot(day, at_ns=36_000 * S, symbols=symbols),
        lambda day, symbols: list(delay_windows(day, day, symbols=symbols)),
    ],
)
def test_symbols_that_the_input_has_not_are_told_and_one_string_is_not_taken_for_its_letters(
    day: Path, asked: Callable[[Path, Any], object]
) -> None:
    with pytest.warns(UserWarning, match="no symbol NOPE in the input"):
        asked(day, ("NOPE",))
    with pytest.raises(UsageError, match="symbols are a tuple: \\('AAAA',\\) and not 'AAAA'"):
        asked(day, "AAAA")


def test_no_trades_make_no_bars(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x00\x0cS\0\0\0\0\0\0\0\0\0\0O")
    assert bars_of(trades(tmp_path / "a"), every_ns=S).num_rows == 0


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("01302019.NASDAQ_ITCH50.gz", date(2019, 1, 30)),
        ("20190130.BX_ITCH_50.gz", date(2019, 1, 30)),
        ("S081321-v50.txt.gz", date(2021, 8, 13)),
        ("day-2022-11-03.itch", date(2022, 11, 3)),
        ("99999999.itch", None),
        ("day.itch", None),
    ],
)
def test_the_date_of_a_session_is_what_the_name_says(name: str, wanted: date | None) -> None:
    assert date_of(Path("folder") / name) == wanted


def test_with_a_date_times_are_times_in_new_york(day: Path) -> None:
    row = inside(day).slice(0, 1).to_pylist()[0]
    assert row["time"].date() == date(2019, 1, 30)
    local = row["time"].hour * 3600 + row["time"].minute * 60 + row["time"].second
    assert local == row["ts_ns"] // S
    assert "time" in trades(day, day="2020-07-01").column_names
    with pytest.raises(UsageError, match="YYYY-MM-DD"):
        trades(day, day="1.7.2020")


def test_every_row_of_every_type_has_its_symbol_and_texts_are_texts(day: Path, tmp_path: Path) -> None:
    names = {n: m[11:19].decode().strip() for _, m, n, _ in played(day) if m[:1] == b"R"}
    for batch in read(day, output="arrow"):
        for kind, table in batch.items():
            for row in table.to_pylist():
                assert row["symbol"] == names.get(row["locate"])
                assert row["type"] == kind
                if "stock" in row:
                    assert row["stock"] == names[row["locate"]]
    decode(day, tmp_path / "events.parquet", per="event")
    table = pq.read_table(tmp_path / "events.parquet")
    for row in table.to_pylist():
        assert row["symbol"] == names.get(row["locate"])
        assert (row["kind"] == "add") <= (row["side"] in ("B", "S"))
        assert (row["kind"] == "remove") <= (row["side"] is None)


@pytest.mark.parametrize(
    ("call", "key"),
    [
        ("trades DAY -o OUT.csv", "trades"),
        ("bars DAY --every 1m -o OUT.csv", "bars"),
        ("snapshot DAY --at 10:00 -o OUT.csv", "levels"),
        ("snapshot DAY --every 1m -o OUT.csv", "rows"),
        ("lobster DAY --symbol SYM -o OUT", "lines"),
        ("decode DAY --per event -o OUT", "rows"),
    ],
)
def test_what_was_written_is_told_to_machines(
    call: str, key: str, day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    symbol = snapshot(day, at_ns=36_000 * S)["symbol"][0].as_py()
    words = [{"DAY": str(day), "SYM": symbol}.get(word, word) for word in call.split()]
    words = [str(tmp_path / word.lower()) if word.startswith("OUT") else word for word in words]
    code, out, err = called(capsys, "market", *words, "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["schema"], found["messages"]) == (1, 9_000)
    assert found[key] > 0
    assert f"wrote {found[key]:,} " in err
    assert all(Path(file).exists() for file in found["files"])


def test_a_table_and_a_document_are_not_mixed_on_standard_output(
    day: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = called(capsys, "market", "trades", day, "-o", "-", "--json")
    assert (code, out) == (2, "")
    assert "both write to stdout" in err
