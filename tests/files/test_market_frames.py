"""The Python of the how-to runs, with the packages that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from latlab.market import generate, inside, trades

PAGE = Path(__file__).parents[2] / "docs/how-to/market-research.md"


def test_the_examples_of_the_how_to_give_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("polars", "pandas", "duckdb"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    day = tmp_path / "20190130.day.itch.gz"
    generate(day, seed=1, messages=20_000, symbols=20)
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M))
    found: dict[str, object] = {}
    exec(compile(code, str(PAGE), "exec"), found)
    rows = trades(day).to_pylist()
    shares: dict[str, int] = {}
    for row in rows:
        shares[row["symbol"]] = shares.get(row["symbol"], 0) + row["qty"]
    assert dict(found["busiest"]) == shares  # type: ignore[call-overload]
    unbroken = {s: sum(r["qty"] for r in rows if r["symbol"] == s and not r["broken"]) for s in shares}
    assert dict(found["volume"].iter_rows()) == {s: n for s, n in unbroken.items() if n}  # type: ignore[attr-defined]
    assert found["rows"] == inside(day).num_rows
    assert found["median"] > 0  # type: ignore[operator]
