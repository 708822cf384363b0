from __future__ import annotations

import gzip
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from latlab.cli.messaging._options import axis_of
from latlab.errors import InputError, UsageError
from latlab.messaging import find_limit, parse_objective, stability
from latlab.messaging._limit import RateProbe
from latlab.messaging.running.feed import arrival_ns
from latlab.messaging.running.schedule import patience_s
from latlab.messaging.running.shared import Body
from latlab.model.messaging.results import Settings
from latlab.reports.messaging.gnuplot import histogram, per_message, write_gnuplot


def limit_at(rate: float) -> object:
    def probe(tried: float, _: float) -> RateProbe:
        return RateProbe(tried, int(tried), tried <= rate, "holds" if tried <= rate else "fails")

    return find_limit(Settings("ring"), parse_objective("p99<1ms"), low_hz=1000.0, high_hz=1e7, probe=probe)


def test_the_search_ends_within_its_precision_below_the_true_limit() -> None:
    found = limit_at(77_000.0)
    assert found.rate_hz is not None  # type: ignore[attr-defined]
    assert 77_000 / 1.06 < found.rate_hz <= 77_000 < found.fails_at_hz  # type: ignore[attr-defined]
    assert (found.held, found.confidence) == (5, 1 - 1 / 32)  # type: ignore[attr-defined]


def test_a_rate_at_which_a_queue_grows_does_not_hold_though_the_objective_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    capacity_hz = 5000.0

    def served(settings: Settings) -> tuple[Any, Any]:
        due = np.arange(settings.total) * 1e9 / settings.rate_hz
        done = np.maximum.accumulate(due - np.arange(due.size) * 1e9 / capacity_hz)
        received = done + (np.arange(due.size) + 1) * 1e9 / capacity_hz
        m = SimpleNamespace(
            settings=settings, intended_ns=due.astype(np.int64), received_ns=received.astype(np.int64)
        )
        rising, _ = stability(m.intended_ns, m.received_ns - m.intended_ns)
        return m, SimpleNamespace(partial=None, lost=0, stability=rising)

    monkeypatch.setattr("latlab.messaging._limit.measure_and_analyse", served)
    monkeypatch.setattr("latlab.messaging._limit.disturbance", lambda _: None)
    limit = find_limit(Settings("tcp"), parse_objective("p50<900ms"), repeats=1)
    assert limit.rate_hz is not None
    assert 4500 < limit.rate_hz <= 5000
    assert {p.reason for p in limit.probes if not p.holds} == {"a queue grows: it would not hold for longer"}


def test_what_a_full_store_carries_for_a_while_is_no_limit() -> None:
    sustained_hz, store = 4000.0, 300.0  # a token bucket

    def probe(tried: float, seconds: float) -> RateProbe:
        holds = (tried - sustained_hz) * seconds <= store
        return RateProbe(tried, 1, holds, "", carried_hz=tried if holds else sustained_hz)

    found = find_limit(Settings("tcp"), parse_objective("p99<1ms"), probe=probe)

    assert found.rate_hz is not None
    assert 0.95 * sustained_hz < found.rate_hz <= 1.01 * sustained_hz
    assert (found.sustained_s, found.held) == (10.0, 5)


def test_a_rate_that_holds_for_a_moment_only_has_no_limit() -> None:
    found = find_limit(
        Settings("tcp"), parse_objective("p99<1ms"), high_hz=4000.0,
        probe=lambda rate, seconds: RateProbe(rate, 1, seconds < 1.0, ""),
    )  # fmt: skip
    assert (found.rate_hz, found.fails_at_hz) == (None, 1000.0)


def test_a_rate_that_failed_while_others_took_the_cpus_is_tried_again() -> None:
    tries: list[float] = []

    def probe(tried: float, _: float) -> RateProbe:
        tries.append(tried)
        holds = tried <= 77_000 and not (tried == 8000 and tries.count(8000) < 3)
        return RateProbe(tried, 1, holds, "", disturbed=not holds and tried <= 77_000)

    found = find_limit(Settings("ring"), parse_objective("p99<1ms"), high_hz=1e7, probe=probe)
    assert found.rate_hz is not None
    assert 77_000 / 1.03 < found.rate_hz <= 77_000
    assert found.trustworthy


def test_the_highest_rate_is_tried_itself() -> None:
    found = find_limit(
        Settings("ring"), parse_objective("p99<1ms"), low_hz=200.0, high_hz=1000.0,
        probe=lambda rate, _: RateProbe(rate, 1, True, "holds"),
    )  # fmt: skip
    assert (found.rate_hz, found.fails_at_hz) == (1000.0, None)


@pytest.mark.parametrize(("disturbed", "trustworthy"), [(False, True), (True, False)])
def test_a_limit_is_not_trusted_where_a_rate_failed_while_others_took_cpus(
    disturbed: bool, trustworthy: bool
) -> None:
    def probe(tried: float, _: float) -> RateProbe:
        return RateProbe(tried, int(tried), tried <= 5000, "", disturbed and tried > 5000)

    found = find_limit(Settings("ring"), parse_objective("p99<1ms"), high_hz=1e7, probe=probe)

    assert found.trustworthy is trustworthy


def test_an_objective_that_never_holds_has_no_limit() -> None:
    assert limit_at(10.0).rate_hz is None  # type: ignore[attr-defined]


def test_an_objective_that_always_holds_ends_at_the_highest_rate() -> None:
    found = limit_at(1e9)
    assert found.fails_at_hz is None  # type: ignore[attr-defined]
    assert 5e6 < found.rate_hz <= 1e7  # type: ignore[attr-defined]


def test_objectives_are_read() -> None:
    objective = parse_objective("p99.9<200us")
    assert (objective.quantile, objective.name, objective.limit_ns) == (0.999, "p99.9", 200_000)
    for bad in ("p99.9", "p100<1ms", "99<1ms", "p50<1"):
        with pytest.raises(UsageError, match="not an objective"):
            parse_objective(bad)


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        ({"load": "max"}, 10.0),
        ({"load": "rate", "rate_hz": 1000.0}, 10.0),
        ({"load": "rate", "rate_hz": 0.1}, 30.0),
        ({"load": "poisson", "rate_hz": 5.0}, 12.0),
        ({"load": "bursts", "burst_period_ns": 60_000_000_000}, 180.0),
    ],
)
def test_a_run_waits_for_its_timeout_or_three_times_its_longest_gap(
    more: dict[str, Any], seconds: float
) -> None:
    assert patience_s(Settings("ring", timeout_s=10.0, **more)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("size=1,6,100", [1, 6, 100]),
        ("size=1,6,100,1k,…,1M", [1, 6, 100, 1000, 10_000, 100_000, 1_000_000]),
        ("size=1,2,...,9", [1, 2, 4, 8, 9]),
        ("rate=100,150,…,400", [100.0, 150.0, 225.0, 337.5, 400.0]),
    ],
)
def test_an_ellipsis_in_a_sweep_goes_on_by_the_factor_before_it(text: str, values: list[float]) -> None:
    assert axis_of(text)[1] == values


@pytest.mark.parametrize(
    "text",
    ["size", "size=", "size=1,,2", "size=1,2,", "size=1,…,9", "size=1,2,…", "size=…,9", "size=9,8,…,20",
     "size=0,1,…,9", "size=1,2,…,2", "size=1,10,1", "transport=ring,shm,…,tcp", "rate=1,1.001,…,1000"],
)  # fmt: skip
def test_a_sweep_with_a_slip_in_it_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a sweep|stands|twice|more than"):
        axis_of(text)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 15, 16, 17, 64, 5000])
def test_the_python_loops_message_carries_its_number_and_shows_damage(size: int) -> None:
    body = Body(size)
    number = 200 if size == 1 else 60_000
    body.stamp(number)
    message = bytearray(body.data)
    assert body.number(bytes(message), number - 30) == number
    if size > 16:
        message[-1] ^= 1
        assert body.number(bytes(message), number) is None
    assert body.number(b"", 0) is None


def test_histogram_bins_hold_every_value_and_overlap_adds_neighbours() -> None:
    values = np.arange(1000)
    _, counts = histogram(values, bins=10)
    assert counts.tolist() == [100] * 10
    _, smoother = histogram(values, bins=10, overlap=0.5)
    assert smoother[1:-1].tolist() == [200] * 8


def test_each_message_has_its_overheads_and_its_sign_where_they_are_defined() -> None:
    sent, received = np.array([0, 10, 20, 30, 40]), np.array([5, 17, -1, 35, 49])
    found = per_message(sent, received, 2)
    assert found["latency_ns"].tolist() == [5, 7, None, 5, 9]
    assert found["so_ns"].tolist() == [None, None, 10.0, 10.0, 10.0]
    assert found["ro_ns"].tolist() == [None, None, None, 9.0, None]
    assert found["sign"].tolist() == [None, 1, None, None, 1]


def test_the_gnuplot_script_draws_seven_graphs_from_files_that_are_there(tmp_path: Path) -> None:
    sent = np.arange(5000) * 1000
    write_gnuplot(tmp_path, sent=sent, received=sent + 500, sizes=[(64.0, 500.0, 1e6, 6.4e7)])
    script = (tmp_path / "plot.gp").read_text()
    assert script.count("set output") == 7
    words = ("#", "set ", "unset ", "plot ", "  ")
    assert [line for line in script.splitlines() if line and not line.startswith(words)] == []
    for name in ("latency.dat", "histogram.dat", "sizes.dat", "average.dat", "throughput-100.dat"):
        assert name in script
        assert np.loadtxt(tmp_path / name).size > 0


def test_arrival_times_are_read_from_itch_and_from_lines(tmp_path: Path) -> None:
    def itch(ns: int) -> bytes:
        body = b"S" + bytes(4) + ns.to_bytes(6, "big") + b"O"
        return len(body).to_bytes(2, "big") + body

    feed = tmp_path / "feed.itch"
    feed.write_bytes(itch(1000) + itch(1500) + itch(4000))
    assert arrival_ns(str(feed), 10).tolist() == [0, 500, 3000]
    lines = tmp_path / "times.txt"
    lines.write_text("10\n30\n35\n")
    assert arrival_ns(str(lines), 2).tolist() == [0, 20]


def test_a_damaged_archive_of_arrival_times_is_an_input_error(tmp_path: Path) -> None:
    whole = gzip.compress(b"1\n2\n" * 1000)
    for data in (whole[:20], whole[:12] + b"\xff" * 8 + whole[20:], b"\x1f\x8bnothing"):
        (tmp_path / "times.gz").write_bytes(data)
        with pytest.raises(InputError, match="can't be read"):
            arrival_ns(str(tmp_path / "times.gz"), 100)
