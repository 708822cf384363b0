from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from latlab.cli._main import main
from latlab.errors import InputError, UsageError
from latlab.market import fit_counts, generate, microbursts, read_events, read_statistics, without_aggregate
from latlab.model.market import StatisticsTable

SHARED = Path(os.environ.get("LATLAB_SHARED", Path(__file__).parents[3] / "shared"))
REAL = SHARED / "data/statistics/nasdaq-itch-per-symbol.csv.gz"


def table(counts: np.ndarray) -> StatisticsTable:
    return StatisticsTable(tuple(f"S{i}" for i in range(len(counts))), {"NSamples": counts.astype(float)})


def planted(law: str, size: int = 3000) -> Any:
    random = np.random.default_rng(5)
    laws: dict[str, Callable[[], Any]] = {
        "geometric": lambda: random.geometric(1e-3, size),
        "lognormal": lambda: random.lognormal(8, 2, size),
        "power law": lambda: 10 * (1 + random.pareto(1.2, size)),
        "Weibull": lambda: 1e4 * random.weibull(0.5, size),
        "gamma": lambda: random.gamma(3.0, 1e3, size),
    }
    return np.ceil(laws[law]())


@pytest.mark.parametrize("law", ["lognormal", "power law", "Weibull", "gamma"])
def test_the_law_that_was_planted_is_the_likeliest(law: str) -> None:
    fit = fit_counts(table(planted(law)))
    assert fit.laws[0].name == law
    assert fit.p_value < 1e-6
    assert [one.log_likelihood for one in fit.laws] == sorted(
        (one.log_likelihood for one in fit.laws), reverse=True
    )


def test_a_planted_geometric_is_not_refuted() -> None:
    values = [fit_counts(table(np.random.default_rng(s).geometric(1e-3, 2000))).p_value for s in range(20)]
    assert np.mean(np.array(values) > 0.05) >= 0.8


def test_parameters_are_recovered() -> None:
    fit = fit_counts(table(planted("lognormal", 20_000)))
    assert fit.laws[0].parameters["mu"] == pytest.approx(8, abs=0.05)
    assert fit.laws[0].parameters["sigma"] == pytest.approx(2, abs=0.05)


def test_too_few_symbols_are_no_fit() -> None:
    with pytest.raises(UsageError, match="needs 20"):
        fit_counts(table(np.arange(1, 6)))


def test_the_busiest_millisecond_of_each_stretch_is_that_of_all_its_messages(tmp_path: Path) -> None:
    generate(tmp_path / "day", seed=4, messages=20_000, symbols=20)
    times = np.concatenate([events["ts_ns"] for events in read_events(tmp_path / "day")])
    found = microbursts(tmp_path / "day")
    assert sum(mean * 1e5 for mean in found.mean_per_ms) == pytest.approx(len(times))
    at = found.at_s[len(found.at_s) // 2]
    inside = times[(times >= at * 1e9) & (times < (at + 100) * 1e9)]
    assert (
        found.most_in_ms[len(found.at_s) // 2] == np.unique(inside // 1_000_000, return_counts=True)[1].max()
    )


def test_our_own_table_and_page_are_made_in_one_command(tmp_path: Path) -> None:
    generate(tmp_path / "day.itch", seed=4, messages=20_000, symbols=60)
    with pytest.raises(SystemExit) as left:
        main(
            [
                "market",
                "stats",
                str(tmp_path / "day.itch"),
                "-o",
                str(tmp_path / "day.csv"),
                "--html",
                str(tmp_path / "day.html"),
            ]
        )
    assert left.value.code == 0
    text = (tmp_path / "day.html").read_text()
    assert all(title in text for title in ("How many events a symbol has", "Busy seconds", "Microbursts"))
    assert "__aggregate__" not in text
    names = read_statistics(tmp_path / "day.csv").names
    assert names[-1] == "__aggregate__"


@pytest.mark.skipif(not REAL.exists(), reason=f"no sample data in {SHARED}")
def test_a_real_day_goes_through_the_same_plots(tmp_path: Path) -> None:
    symbols = without_aggregate(read_statistics(REAL))
    assert len(symbols.names) == 8_172
    fit = fit_counts(symbols)
    assert fit.laws[0].name == "lognormal"
    assert fit.p_value < 1e-6
    with pytest.raises(SystemExit) as left:
        main(["market", "stats", str(REAL), "--html", str(tmp_path / "real.html")])
    assert left.value.code == 0
    assert "8,172 symbols" in (tmp_path / "real.html").read_text()


@pytest.mark.parametrize(
    "content", [b"", b"Name,NSamples\nA,1\n", gzip.compress(b"x" * 999, mtime=0)[:20], b"\xff\xfe\x00"]
)
def test_a_foreign_table_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InputError) as refused:
        read_statistics(tmp_path / "t.csv")
    assert "\n" not in str(refused.value)


def test_a_page_of_a_feed_needs_a_place_for_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate(tmp_path / "day.itch", seed=4, messages=1_000, symbols=5)
    with pytest.raises(SystemExit) as left:
        main(["market", "stats", str(tmp_path / "day.itch"), "--html", str(tmp_path / "day.html")])
    assert left.value.code == 2
    assert "-o OUT.csv" in capsys.readouterr().err
