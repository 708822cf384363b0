from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from latlab.errors import InputError, LatlabError, UsageError
from latlab.messaging import compare_pairs, load_workload
from latlab.model.messaging.options import OPTIONS, settings_of
from latlab.model.messaging.results import Doubt, Settings
from latlab.model.statistics.paired import Ruling
from latlab.reports.messaging.pairs import comparison_json, render_comparison

A = Settings("tcp", load="rate", rate_hz=1000.0)
B = A.with_(size=65)


def ticks() -> Callable[[], float]:
    """A clock by which every run takes equally long: whose turn it is does not depend on the machine."""
    seconds = itertools.count()
    return lambda: float(next(seconds))


def runs(factor: float, seed: int, spread: float = 0.3) -> Any:
    """Runs whose percentiles vary from run to run; those of B are `factor` times as long."""
    random = np.random.default_rng(seed)

    def run(settings: Settings) -> Any:
        p50 = 1e5 * random.lognormal(0, spread) * (factor if settings.size == 65 else 1.0)
        latency = SimpleNamespace(
            median=p50, quantiles={"p50": p50, "p99": p50 * random.lognormal(2, spread)}
        )
        return SimpleNamespace(
            intended_latency=latency,
            latency=latency,
            receiving_throughput=SimpleNamespace(messages_per_s=1e9 / p50),
            verdict=SimpleNamespace(doubts=(Doubt("others", 0.5),)),
        )

    return run


@pytest.mark.long
def test_identical_workloads_are_hardly_ever_different() -> None:
    different = 0
    for seed in range(150):
        found = compare_pairs(
            A, B, seconds=1e6, pairs=30, control=False, seed=seed, run=runs(1.0, seed), clock=ticks()
        )
        different += found.verdict in (Ruling.SLOWER, Ruling.FASTER, Ruling.MIXED)
    assert different <= 3


def test_a_workload_that_takes_twice_as_long_is_slower() -> None:
    found = compare_pairs(A, B, seconds=1e6, pairs=40, run=runs(2.0, 1, 0.1), clock=ticks())
    assert found.verdict is Ruling.SLOWER
    low, high = found.changes[0].result.interval
    assert low is not None
    assert high is not None
    assert low < 1.0 < high
    assert found.control is not None
    assert render_comparison(found, "a", "b").startswith("B is slower than A.")
    assert comparison_json(found)["doubts"]["A"] == {"others": found.runs}


def test_workloads_that_vary_little_are_equivalent() -> None:
    found = compare_pairs(A, B, seconds=1e6, pairs=60, control=False, run=runs(1.0, 2, 0.005), clock=ticks())
    assert found.verdict is Ruling.EQUIVALENT


def test_what_is_not_decided_says_what_is_sure_and_what_decides_it() -> None:
    found = compare_pairs(A, B, seconds=1e6, pairs=60, run=runs(1.0, 3), clock=ticks())
    assert found.verdict is Ruling.INCONCLUSIVE
    low, high = found.changes[0].result.interval
    assert low is not None
    assert high is not None
    told = render_comparison(replace(found, pair_s=0.5), "a", "b")
    assert told.startswith(
        f"Not decided: B is at most {-100 * low:.1f} % faster and at most {100 * high:.1f} %"
    )
    needed = found.changes[0].result.needed_pairs
    assert needed is not None
    assert f"--seconds {math.ceil((needed + 12) / 2)}" in told
    assert "other programs took CPUs from 100 % of the runs" in told


def test_a_load_without_a_rate_is_compared_by_the_time_a_message_takes() -> None:
    fast = A.with_(load="max", rate_hz=0.0)
    found = compare_pairs(
        fast, fast.with_(size=65), seconds=1e6, pairs=20, control=False, run=runs(2.0, 1, 0.02)
    )
    assert [change.name for change in found.changes] == ["time a message", "p50"]
    assert found.verdict is Ruling.SLOWER


def test_latency_is_not_compared_with_throughput() -> None:
    with pytest.raises(UsageError, match="one workload has a rate"):
        compare_pairs(A, B.with_(load="max"), run=runs(1.0, 1))


def test_a_run_that_breaks_off_ends_the_comparison() -> None:
    def broken(_: Settings) -> Any:
        raise LatlabError("a run broke off: no reason")

    with pytest.raises(LatlabError, match="broke off"):
        compare_pairs(A, B, run=broken)


def test_a_workload_file_is_read_as_the_options_are(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        'transport = "unix"\nsize = "1k"\nrate = 20000\nfault = ["drop=100", "swap=7"]\n'
        'receiver-delay = "5us"\nwarmup = 0\nduration = "2s"\nhalf = true\ntopology = "pingpong"\n'
    )
    found = load_workload(file, size="64")
    assert (found.transport, found.size, found.load, found.rate_hz) == ("unix", 64, "rate", 20000.0)
    assert (found.faults, found.receiver_delay_ns) == ({"drop": 100, "swap": 7}, 5000)
    assert found.warmup == 0
    assert (found.duration_s, found.half, found.topology) == (2.0, True, "pingpong")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("transport = ", "is not TOML"),
        ('transport = "tcp"\nraet = 5', "did you mean 'rate'"),
        ('transport = "tcp"\n[size]\na = 1', "is a table"),
        ('transport = "tcp"\nsize = "big"', "a.toml"),
        ("size = 5", "no transport is named"),
        ('transport = "tcp"\nhalf = "yes"', "true or false"),
        ('transport = "tcp"\npoisson = true', "needs a rate"),
    ],
)
def test_a_slip_in_a_workload_file_is_one_line(written: Any, text: str, said: str) -> None:
    with pytest.raises((InputError, UsageError), match=said) as caught:
        load_workload(written(text))
    assert "\n" not in str(caught.value)


def test_every_option_sets_a_field_that_there_is() -> None:
    known = set(Settings("tcp").to_json())
    assert {o.setting for o in OPTIONS if o.setting} <= known
    assert settings_of({"transport": "tcp"}).with_(warmup=0) == Settings("tcp")
