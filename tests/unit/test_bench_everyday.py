"""What a verdict says of layouts, of calls that take long, and what is said beside times."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from latlab.bench.judging.compare import judge_unpaired
from latlab.bench.judging.judge import judge_pairs
from latlab.bench.measuring.builds import padding
from latlab.bench.measuring.pilot import run_pilot
from latlab.bench.results.targets import Target, parse
from latlab.cli.bench.options import check_outputs
from latlab.errors import NotTrustworthyError, UsageError
from latlab.model.bench import Judgement, Sample, Settings
from latlab.model.statistics.paired import Ruling
from latlab.reports.bench.text import (
    costs_text,
    judgement_json,
    judgement_text,
    summary_json,
    summary_text,
)


def judged(shifts: list[float], *, block_pairs: int = 2, placement: float = 0.0) -> Judgement:
    """Pairs whose sides differ by so much each, a thousandth of noise beside it."""
    random = np.random.default_rng(4)
    pairs = []
    for shift in shifts:
        a, b = (100.0 * np.exp(x + 0.001 * random.normal(size=40)) for x in (0.0, shift))
        pairs.append((Sample(a, context=("placed",)), Sample(b, context=("placed",))))
    return judge_pairs(
        pairs,
        smallest_effect=0.01,
        smallest_effect_why="",
        alpha=0.05,
        block_pairs=block_pairs,
        placement=placement,
    )


def test_a_difference_that_one_layout_carries_is_no_verdict() -> None:
    of_pairs = judged([0.3] * 2 + [0.0] * 30, block_pairs=2)
    of_a_build = judged([0.3] * 16 + [0.0] * 16 * 7, block_pairs=16)
    assert of_pairs.result.verdict not in (Ruling.SLOWER, Ruling.FASTER)
    assert of_a_build.result.verdict not in (Ruling.SLOWER, Ruling.FASTER)


def test_what_layouts_vary_by_is_reported() -> None:
    random = np.random.default_rng(8)
    found = judged([0.02 * x for x in random.normal(size=40)])
    assert found.details["layouts"]["deviation"] == pytest.approx(0.02, rel=0.5)
    assert "from layout to layout, the ratio varies by" in judgement_text(judgement_json(found, name="one"))


def test_a_small_difference_of_two_builds_names_the_command_that_draws_layouts_anew() -> None:
    assert any("--padding" in w for w in judged([0.05] * 30, placement=0.03).warnings)
    assert not any("--padding" in w for w in judged([0.5] * 30, placement=0.03).warnings)
    assert not any("--padding" in w for w in judged([0.02] * 30).warnings)


def test_every_build_moves_functions_by_another_distance_that_the_seed_fixes() -> None:
    first = [padding(1, build) for build in range(20)]
    assert first == [padding(1, build) for build in range(20)]
    assert len(set(first)) > 10
    assert all(f.startswith("-fpatchable-function-entry=") for f in first)


def test_a_call_that_takes_longer_than_the_budget_is_said_before_it_is_measured() -> None:
    target = Target("python", "none.py", fixture="Slow")
    with pytest.raises(NotTrustworthyError, match="a call takes 5 s") as caught:
        run_pilot(target, target, Settings(), fixed_iterations=False, budget_s=10.0, rebuild=None, call_s=5.0)
    assert "--seconds" in str(caught.value)


def test_too_few_processes_carry_no_verdict_and_the_difference_stands_beside_it() -> None:
    sides = [[np.array([level + 0.1 * i]) for i in range(3)] for level in (100.0, 998.0)]
    result, _, _ = judge_unpaired(sides[0], sides[1], smallest_effect=0.01, alpha=0.05)
    assert result.verdict is Ruling.INCONCLUSIVE
    assert "3 processes a side are too few for a verdict" in result.why
    assert "+89" in result.why


def test_costs_and_rates_are_of_an_operation() -> None:
    sample = Sample(np.full(100, 500.0), operations=2, items=1000.0, bytes=4096.0)
    costs = {"allocations": 6.0, "allocated_bytes": 2048.0, "voluntary_switches": 1.0}
    costs |= {"involuntary_switches": 0.0, "minor_faults": 0.0, "major_faults": 0.0}
    document = summary_json("one", [sample], costs=costs)
    assert document["rates"] == pytest.approx({"items_per_s": 1e9, "bytes_per_s": 4.096e9})
    assert document["costs"]["allocations"] == 3.0
    said = costs_text(document)
    assert "1,000,000,000 items/s" in said
    assert "3 allocations (1 KiB)" in said
    assert "0.5 context switches" in said


def test_where_costs_were_not_counted_it_is_said_why() -> None:
    document = summary_json("one", [Sample(np.full(100, 5e9))], uncounted="a run takes 5 s")
    assert costs_text(document) == "# one: costs beside the time not counted: a run takes 5 s"
    said = summary_text([document, {**document, "name": "two"}])
    assert said.splitlines()[-1] == "# costs beside the time of 2 benchmarks not counted: a run takes 5 s"
    assert said.count("a run takes 5 s") == 1


def test_where_nothing_was_counted_nothing_is_said() -> None:
    assert costs_text(summary_json("one", [Sample(np.full(100, 500.0))])) == ""


def test_a_program_and_its_script_are_a_command_and_not_a_missing_file_of_fixtures(tmp_path: Path) -> None:
    script = tmp_path / "old.py"
    script.write_text("pass\n")

    assert parse(f"sh {script}").kind == "command"
    with pytest.raises(UsageError, match="there is no such file"):
        parse(f"{tmp_path}/nowhere.py")


def test_the_tail_of_batches_is_of_runs_that_were_timed_one_by_one() -> None:
    one_by_one = np.full(5000, 40.0)
    one_by_one[::500] = 9000.0  # one run of 500, which the mean of 256 shows as 75 ns
    sample = Sample(np.full(2000, 60.0), batch=256, singles_ns=one_by_one)
    document = summary_json("tiny", [sample, sample])
    summary = document["summary"]
    assert (summary["p50"], summary["p90"]) == (60.0, 60.0)  # a single run is not below the means of many
    assert (summary["p99.9"], summary["max"]) == (9000.0, 9000.0)
    assert document["one_by_one"] == 10_000
    assert "10,000 timed one by one" in summary_text([document])


def test_batches_of_which_no_run_was_timed_by_itself_show_no_tail() -> None:
    document = summary_json("batched", [Sample(np.full(2000, 60.0), batch=256, quantum_ns=10.0)])
    assert document["summary"]["p75"] == 60.0
    assert {document["summary"][key] for key in ("p90", "p99", "p99.9", "max")} == {None}
    assert any("--batch 1" in warning for warning in document["warnings"])
    foreign = summary_json("batched", [Sample(np.full(2000, 60.0), batch=256)])
    assert any("the program batches them itself" in warning for warning in foreign["warnings"])


def test_what_is_not_batched_has_its_tail_from_its_iterations() -> None:
    document = summary_json("plain", [Sample(np.arange(1.0, 2001.0))])
    assert (document["summary"]["p99.9"], document["summary"]["max"]) == (1998.0, 2000.0)
    assert document["one_by_one"] == 0


def test_five_processes_that_happen_to_rise_leave_a_tenfold_difference_told() -> None:
    # In this order neighbours are alike, as of so few they are by chance: still nine times as long is slower.
    sides = [[np.array([level * (1 + 0.002 * i)]) for i in range(5)] for level in (100.0, 998.0)]
    result, _, warnings = judge_unpaired(sides[0], sides[1], smallest_effect=0.01, alpha=0.05)
    assert result.verdict is Ruling.SLOWER
    assert result.interval[0] is not None
    assert result.interval[0] > 5.0
    assert not any("correlated" in str(warning) for warning in warnings)


def test_neighbours_that_are_alike_in_a_long_series_are_said_to_be() -> None:
    random = np.random.default_rng(5)
    x = np.zeros(60)
    for i in range(1, 60):
        x[i] = 0.9 * x[i - 1] + random.normal()
    sides = [[np.array([100.0 * np.exp(0.01 * v)]) for v in side] for side in (x, x[::-1])]
    _, _, warnings = judge_unpaired(sides[0], sides[1], smallest_effect=0.01, alpha=0.05)
    assert any("correlated" in str(warning) for warning in warnings)


def test_few_independent_processes_are_hardly_ever_called_different_or_correlated() -> None:
    random, different, said = np.random.default_rng(11), 0, 0
    for _ in range(400):
        count = int(random.choice([4, 5, 8, 20]))
        shift = 0.01 * random.normal(size=2)
        sides = [
            [np.array([100.0 * np.exp(shift[i] + 0.01 * random.normal())]) for _ in range(count)]
            for i in (0, 1)
        ]
        result, _, warnings = judge_unpaired(sides[0], sides[1], smallest_effect=0.01, alpha=0.05)
        different += result.verdict in (Ruling.SLOWER, Ruling.FASTER)
        said += any("correlated" in str(warning) for warning in warnings)
    assert different <= 20
    assert said <= 20


def test_the_quantiles_of_single_runs_are_not_below_those_of_the_batches_between_them() -> None:
    sample = Sample(np.linspace(29.0, 31.0, 100), batch=64, singles_ns=np.array([26.9] * 99 + [50.0]))
    found = summary_json("it", [sample])["summary"]
    assert found["p75"] <= found["p90"] <= found["p99"] <= found["max"] == 50.0


def test_an_inconclusive_answer_says_what_it_could_have_seen_and_which_budget_sees_more() -> None:
    shifts = np.random.default_rng(1).normal(0.02, 0.1, 20)
    pairs = [(Sample(np.full(8, 1e6)), Sample(np.full(8, 1e6 * np.exp(x)))) for x in shifts]
    found = judge_pairs(
        pairs, smallest_effect=0.01, smallest_effect_why="default", alpha=0.05, block_pairs=1, declared=False
    )
    document = {**judgement_json(found, name="one"), "plan": {"pair_s": 0.5, "why": "p"}}
    reach = document["details"]["findable"]
    assert document["verdict"] == "inconclusive"
    assert 0.05 < reach["effect"] < 0.25
    (line,) = [line for line in judgement_text(document).splitlines() if "here (in nine of ten" in line]
    needed = reach["pairs"][0]["pairs"]
    assert needed > 20
    assert f"; 5 % takes {needed} pairs: --seconds " in line
    assert int(line.split()[-1]) >= needed * 0.5


def test_a_full_disk_is_found_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for option in ("raw", "html", "junit"):
        with pytest.raises(OSError, match="No space left") as found:
            check_outputs({"seed": 1, option: tmp_path / "out"})
        assert found.value.filename == str(tmp_path / "out")
    check_outputs({"seed": 1, "raw": Path("/dev/null")})
    assert list(tmp_path.iterdir()) == []
