from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latlab.bench import (
    Results,
    accept,
    accepted,
    baseline,
    between_runs,
    compare_results,
    history,
    judge_unpaired,
    load,
)
from latlab.errors import InputError
from latlab.model.statistics.paired import Ruling
from latlab.stats.sequential import level_changes

RANDOM = np.random.default_rng(1)


def seconds(count: int, scale: float = 1.0) -> list[float]:
    return [float(x) for x in 1e-3 * scale * np.exp(0.01 * RANDOM.normal(size=count))]


def pyperf(scale: float = 1.0) -> dict[str, Any]:
    calibration = {"warmups": [[1, 0.1]], "metadata": {}}
    runs = [{"values": seconds(3, scale), "metadata": {"hostname": "a"}} for _ in range(20)]
    return {"version": "1.0", "metadata": {"name": "sort"}, "benchmarks": [{"runs": [calibration, *runs]}]}


def google(scale: float = 1.0) -> dict[str, Any]:
    rows = [
        {"name": "sort", "run_name": "sort", "run_type": "iteration", "real_time": 1e3 * t, "time_unit": "ms"}
        for t in seconds(20, scale)
    ]
    mean = {
        "name": "sort_mean",
        "run_name": "sort",
        "run_type": "aggregate",
        "real_time": 5,
        "time_unit": "ms",
    }
    return {"context": {"host_name": "a", "num_cpus": 2}, "benchmarks": [*rows, mean]}


def hyperfine(scale: float = 1.0) -> dict[str, Any]:
    return {
        "results": [{"command": "sort", "mean": 1e-3, "times": seconds(20, scale), "exit_codes": [0] * 20}]
    }


def pytest_benchmark(scale: float = 1.0) -> dict[str, Any]:
    machine = {"node": "a", "python_version": "3.11.2", "cpu": {"brand_raw": "x"}}
    stats = {"data": seconds(50, scale), "min": 1e-3}
    return {
        "machine_info": machine,
        "benchmarks": [{"name": "sort", "fullname": "t.py::sort", "stats": stats}],
    }


TOOLS = {
    "pyperf": pyperf,
    "Google Benchmark": google,
    "hyperfine": hyperfine,
    "pytest-benchmark": pytest_benchmark,
}


TEXTS = {tool: json.dumps(make()) for tool, make in TOOLS.items()}


def written(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("tool", TOOLS)
def test_a_fifth_more_time_in_another_tools_results_is_slower(tool: str, tmp_path: Path) -> None:
    a = load(written(tmp_path / "a.json", TOOLS[tool]()))
    b = load(written(tmp_path / "b.json", TOOLS[tool](1.2)))
    assert a.tool == tool
    (judgement,) = compare_results(a, b, smallest_effect=None, alpha=0.05).values()
    assert judgement.result.verdict is Ruling.SLOWER
    assert judgement.result.effect == pytest.approx(0.2, abs=0.02)
    low, high = judgement.result.interval
    assert low is not None
    assert high is not None
    assert 0.1 < low < 0.205
    assert 0.195 < high < 0.32
    assert judgement.typical_ns[0] == pytest.approx(1e6, rel=0.02)
    (other,) = compare_results(a, a, smallest_effect=None, alpha=0.05).values()
    assert other.result.verdict in (Ruling.EQUIVALENT, Ruling.INCONCLUSIVE)


def test_one_process_a_side_says_that_the_variance_between_processes_is_assumed(tmp_path: Path) -> None:
    a = load(written(tmp_path / "a.json", google()))
    b = load(written(tmp_path / "b.json", google(1.02)))
    (judgement,) = compare_results(a, b, smallest_effect=None, alpha=0.05).values()
    assert judgement.result.verdict is Ruling.INCONCLUSIVE
    assert any("one process" in w for w in judgement.warnings)


def test_unlike_environments_are_named(tmp_path: Path) -> None:
    other = google()
    other["context"]["host_name"] = "b"
    a, b = load(written(tmp_path / "a.json", google())), load(written(tmp_path / "b.json", other))
    (judgement,) = compare_results(a, b, smallest_effect=None, alpha=0.05).values()
    assert "host_name was a, is b" in judgement.warnings[0]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"benchmarks": []}', '{"results": []}',
     '{"benchmarks": [{"runs": 5}]}', "\x00\xff",
     '{"results": [{"command": "x", "times": [-1.0]}]}', '{"results": [{"command": "x", "times": []}]}',
     '{"machine_info": {}, "benchmarks": [{"name": "x", "stats": {"min": 1}}]}', '{"results": [5]}'],
)  # fmt: skip
def test_a_foreign_or_truncated_file_is_an_input_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match=r"x\.json"):
        load(tmp_path / "x.json")


@pytest.mark.parametrize("tool", TOOLS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_file_of_another_tool_never_gives_anything_but_results_or_an_input_error(
    tool: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = TEXTS[tool]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    damaged = (
        text[:start] + data.draw(st.sampled_from(["", "null", "[]", "1", "-", '"x"', "{}"])) + text[end:]
    )
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_text(damaged)
    with contextlib.suppress(InputError):
        assert load(path).tests


def test_apart_measured_sides_that_are_alike_are_called_different_no_more_often_than_alpha() -> None:
    called = 0
    for seed in range(300):
        random = np.random.default_rng(seed)
        a, b = ([np.exp(0.02 * random.standard_t(3, size=1)) for _ in range(12)] for _ in range(2))
        result, _, _ = judge_unpaired(a, b, smallest_effect=0.0, alpha=0.05)
        called += result.verdict in (Ruling.FASTER, Ruling.SLOWER)
    assert called <= 24  # 8 %: at a true rate of 5 % passed with probability 0.99; the seeds are fixed


def test_too_few_processes_are_inconclusive() -> None:
    few = [np.array([1.0]), np.array([1.01])]
    result, _, _ = judge_unpaired(few, [np.array([9.0]), np.array([9.1])], smallest_effect=0.01, alpha=0.05)
    assert (result.verdict, result.interval) == (Ruling.INCONCLUSIVE, (None, None))


@given(
    st.lists(st.floats(1.0, 2.0), min_size=1, max_size=12),
    st.lists(st.floats(1.0, 2.0), min_size=1, max_size=12),
    st.sampled_from([0.01, 0.05, 0.2]),
)
def test_the_p_value_of_sides_measured_apart_is_at_most_alpha_exactly_where_the_interval_excludes_zero(
    a: list[float], b: list[float], alpha: float
) -> None:
    sides = [[np.array([x]) for x in side] for side in (a, b)]
    result, _, _ = judge_unpaired(*sides, smallest_effect=0.01, alpha=alpha)
    low, high = result.interval
    excluded = (low is not None and low > 0) or (high is not None and high < 0)
    assert (result.p_value <= alpha) == excluded or abs(result.p_value - alpha) < 1e-9


def test_a_step_in_a_history_is_found_where_it_happened(tmp_path: Path) -> None:
    scales = [1.0] * 10 + [1.1] * 6
    files = [written(tmp_path / f"{i:02}.json", hyperfine(s)) for i, s in enumerate(scales)]
    (found,) = history([(p.name, load(p)) for p in files], smallest_effect=0.01)
    assert found["verdict"] == "slower"
    assert found["changes"][-1]["at"] == "10.json"
    assert found["why"].startswith("slower by ")
    assert found["changes"][-1]["found_at"] == "11.json"
    (steady,) = history([(p.name, load(p)) for p in files[:10]], smallest_effect=0.01)
    assert steady["verdict"] == "unchanged"
    (few,) = history([(p.name, load(p)) for p in files[:4]], smallest_effect=0.01)
    assert few["verdict"] == "inconclusive"


def test_the_same_command_twice_in_one_file_is_two_benchmarks(tmp_path: Path) -> None:
    rows = [{"command": "true", "times": seconds(5)} for _ in range(3)]
    found = load(written(tmp_path / "twice.json", {"results": rows}))
    assert list(found.tests) == ["true", "true (2)", "true (3)"]


def test_fifty_percent_in_the_last_two_results_are_found_and_fifty_identical_ones_change_nowhere() -> None:
    def results(seed: int, count: int, last: float) -> list[tuple[str, Results]]:
        random = np.random.default_rng(seed)
        values = np.exp(0.01 * random.normal(size=count))
        values[-2:] *= last
        return [(f"{i}", Results("x", {"one": [np.array([v])]})) for i, v in enumerate(values)]

    verdicts = [history(results(s, 50, 1.0), smallest_effect=0.01)[0]["verdict"] for s in range(30)]
    assert verdicts == ["unchanged"] * 30
    for seed in range(10):
        assert history(results(seed, 20, 1.5), smallest_effect=0.01)[0]["verdict"] == "slower"


def test_a_level_that_is_accepted_is_no_slowdown_and_the_next_one_is(tmp_path: Path) -> None:
    def results(*levels: float) -> list[tuple[str, Results]]:
        random = np.random.default_rng(1)
        return [
            (f"{i}.json", Results("x", {"one": [np.array([level * np.exp(0.005 * random.normal())])]}))
            for i, level in enumerate(levels)
        ]

    file = tmp_path / "accepted.json"
    series = results(*[1.0] * 12, *[1.2] * 8)
    (before,) = history(series, smallest_effect=0.01, accepted=accepted(file))
    assert (before["verdict"], before["why"].endswith("latlab bench accept 12.json")) == ("slower", True)
    accept(file, "results/12.json", "one")
    (after,) = history(series, smallest_effect=0.01, accepted=accepted(file))
    assert (after["verdict"], after["changes"][-1]["accepted"]) == ("unchanged", True)
    more = results(*[1.0] * 12, *[1.2] * 12, *[1.5] * 3)
    assert history(more, smallest_effect=0.01, accepted=accepted(file))[0]["verdict"] == "slower"


@pytest.mark.parametrize("correlated", [0.0, 0.7])
def test_a_machine_that_shifts_by_one_percent_between_two_runs_is_no_change(correlated: float) -> None:
    called = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        sides = []
        for shift in (0.0, 0.01):
            noise = np.zeros(20)
            for i in range(1, 20):
                noise[i] = correlated * noise[i - 1] + 0.004 * random.normal()
            sides.append([np.array([np.exp(shift + x)]) for x in noise])
        result, _, warnings = judge_unpaired(*sides, smallest_effect=0.005, alpha=0.05)
        called += result.verdict in (Ruling.FASTER, Ruling.SLOWER)
        assert "run them interleaved" in result.why
    assert called <= 1
    assert any("between runs is assumed" in w for w in warnings)


def test_hyperfines_result_of_two_commands_is_one_comparison(tmp_path: Path) -> None:
    commands = [
        {"command": c, "times": [t + 0.001 * i for i in range(12)]} for c, t in (("a", 1.0), ("b", 2.0))
    ]
    found = load(written(tmp_path / "two.json", {"results": commands}))
    ((name, judgement),) = compare_results(found, found, smallest_effect=None, alpha=0.05).items()
    assert (name, judgement.result.verdict) == ("a / b", Ruling.SLOWER)


def test_ten_percent_are_found_with_the_second_of_results_that_scatter_by_two() -> None:
    random, found = np.random.default_rng(5), 0
    for _ in range(60):
        x = 0.02 * random.normal(size=32)
        x[30:] += np.log(1.1)
        found += any(c.found == 31 and c.after > c.before for c in level_changes(x, alarm_probability=2.7e-4))
    assert found >= 36  # 72 % in 150; a test that both of two have to pass found 48 %


def test_a_history_says_which_change_its_scatter_lets_it_find() -> None:
    random = np.random.default_rng(6)
    for scatter in (0.005, 0.035):
        values = np.exp(scatter * random.normal(size=40))
        series = [(f"{i}", Results("x", {"one": [np.array([v])]})) for i, v in enumerate(values)]
        (document,) = history(series, smallest_effect=0.01)
        two, four, eight, sixteen = (document["findable"][n] for n in (2, 4, 8, 16))
        assert two > four > eight > sixteen
        enough = min((n for n, change in document["findable"].items() if change <= 0.1), default=None)
        assert enough is not None
        assert (enough > 2) == (scatter > 0.01) == (f"10 % shows after {enough} results" in document["why"])
        assert (two > 0.1) == ("two results after a change show" in document["why"])
        shown = sum(
            bool(level_changes([*np.log(values), *(np.log1p(two) + scatter * random.normal(size=2))],
                               alarm_probability=0.1 / 365))
            for _ in range(100)
        )  # fmt: skip
        assert shown >= 80


def test_a_history_that_no_number_of_results_helps_says_so_with_what_would_help() -> None:
    values = np.exp(0.2 * np.random.default_rng(6).normal(size=40))
    series = [(f"{i}", Results("x", {"one": [np.array([v])]})) for i, v in enumerate(values)]
    (document,) = history(series, smallest_effect=0.01)
    assert "10 % may not show at all" in document["why"]
    assert "--false-alarms" in document["why"]


def test_two_outliers_in_a_row_are_no_change_where_single_ones_came_before() -> None:
    random = np.random.default_rng(4)
    for _ in range(20):
        x = 0.01 * random.normal(size=60)
        x[[10, 33]] += 0.15
        x[50:52] += 0.15
        assert not level_changes(x[:52], alarm_probability=2.7e-4)
        x[50:] += 0.15 * (np.arange(50, 60) > 51)  # one that stays is a change, seen by more values
        (change,) = level_changes(x, alarm_probability=2.7e-4)
        assert abs(change.index - 50) <= 2


@pytest.mark.parametrize("correlated", [0.5, 0.7])
def test_a_correlated_history_keeps_its_rate_of_false_alarms(correlated: float) -> None:
    random, alarms = np.random.default_rng(77), 0
    for _ in range(50):
        x = np.zeros(60)
        for i in range(1, 60):
            x[i] = correlated * x[i - 1] + random.normal()
        alarms += len(level_changes(0.01 * x, alarm_probability=0.001))
    assert alarms <= 4  # 2.7 values in a thousand were expected


def test_a_machine_that_goes_back_and_forth_between_two_levels_has_not_changed() -> None:
    random, alarms = np.random.default_rng(78), 0
    for _ in range(30):
        x = np.where(random.random(60) < 0.3, 0.02, 0.0) + 0.003 * random.normal(size=60)
        alarms += sum(change.found > 20 for change in level_changes(x, alarm_probability=0.001))
    assert alarms <= 2
    x[50:] += 0.1  # and one that it never had is a change
    assert [c.index for c in level_changes(x, alarm_probability=0.001)][-1:] == [50]


def test_several_runs_of_a_baseline_tell_what_lies_between_runs(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    random = np.random.default_rng(3)

    def run(scale: float) -> dict[str, list[np.ndarray]]:
        return {"one": [np.array([scale * np.exp(0.002 * random.normal())]) for _ in range(8)]}

    for _ in range(12):
        count = baseline.add(file, run(100.0 * np.exp(0.002 * random.normal())), {"cpu": "x"})
    assert count == 12
    before = load(file)
    verdicts = []
    for name, runs in (("one run", {}), ("twelve", before.runs)):
        after = Results("latlab", run(104.0))
        (found,) = compare_results(before, after, smallest_effect=None, alpha=0.05, runs=runs).values()
        verdicts.append((name, found.result.verdict))
    assert verdicts == [("one run", Ruling.INCONCLUSIVE), ("twelve", Ruling.SLOWER)]


def test_runs_that_differ_much_widen_what_is_assumed_between_them() -> None:
    assert between_runs([100.0]).reach(0.05) < between_runs([90.0, 110.0, 100.0, 85.0]).reach(0.05)


@pytest.mark.parametrize("text", ["{}", "[", '{"schema": 1, "kind": "bench-baseline", "runs": [{}]}'])
def test_a_damaged_baseline_is_an_input_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(InputError):
        baseline.read(tmp_path / "b.json")


def test_a_baseline_with_a_benchmark_that_was_never_measured_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text('{"schema": 1, "kind": "bench-baseline", "runs": [{"at": "a", "tests": {"one": []}}]}')
    with pytest.raises(InputError, match="a benchmark has no times"):
        baseline.read(path)
