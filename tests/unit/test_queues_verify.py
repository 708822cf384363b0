import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latlab.cli import main
from latlab.errors import InputError
from latlab.formats.event_traces.texts import read_pairs, read_sample_blocks
from latlab.queues.trace.verify import QueueSamples, verify


def samples(at: Any, fills: Any, counted: Any) -> Any:
    at, fills = np.array(at, np.int64), np.array(fills, np.int64)
    return QueueSamples(at, at, fills, fills, counted)


def pairs(*events: Any) -> tuple[Any, Any]:
    return np.array([e[0] for e in events], np.int64), np.array([e[1] for e in events], np.int64)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(1, 50)), min_size=1, max_size=40),
    st.lists(st.integers(0, 600), min_size=1, max_size=40),
)
def test_samples_of_the_very_queue_that_was_traced_never_contradict(events: Any, at: Any) -> None:
    # Odd sample times and even stamps: no ties.
    stays = [(2 * push, 2 * (push + length)) for push, length in events]
    times = sorted(2 * t + 1 for t in at)
    fills = [sum(push <= t <= pop for push, pop in stays) for t in times]
    found = verify(*pairs(*stays), samples(times, fills, len(stays)))
    assert (found.discrepancies, found.ties, found.complete) == (0, 0, True)
    assert found.sum_sampled == (found.sum_traced, found.sum_traced)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.data())
def test_every_planted_miscount_is_found_and_no_other(count: Any, data: Any) -> None:
    stays = [(10 * i, 10 * i + 23) for i in range(60)]
    times = [10 * i + 5 for i in range(2, 2 + count)]
    fills = [sum(push <= t <= pop for push, pop in stays) for t in times]
    spoiled = data.draw(st.sets(st.integers(0, count - 1)))
    for i in spoiled:
        fills[i] += data.draw(st.sampled_from([-1, 1]))
    found = verify(*pairs(*stays), samples(times, fills, len(stays)))
    assert {d.t_ns for d in found.found} == {times[i] for i in spoiled}
    assert found.rate == len(spoiled) / count


def test_of_a_part_of_the_events_only_samples_that_show_too_few_contradict() -> None:
    found = verify(*pairs((0, 100)), samples([10, 20], [5, 0], 1000))
    assert (found.complete, found.discrepancies) == (False, 1)
    assert found.found[0].events == ((0, 100),)
    assert found.mean_residence_of_discrepant_ns == 100


def test_a_contradiction_that_a_tie_explains_is_told_apart() -> None:
    found = verify(*pairs((0, 10), (10, 20)), samples([10], [1], 100))
    assert (found.discrepancies, found.ties) == (0, 1)


def test_stamps_less_than_a_step_of_the_clock_apart_have_no_order() -> None:
    for push, pop, apart in ((92, 200, False), (90, 200, True), (0, 108, False), (0, 110, True)):
        found = verify(*pairs((push, pop)), samples([100], [0], 100), clock_step_ns=10)
        assert (found.discrepancies, found.ties) == ((1, 0) if apart else (0, 1))


def test_an_event_that_left_while_the_sample_was_read_is_no_contradiction() -> None:
    begin, end, low, high = (np.array([v], np.int64) for v in (10, 30, 0, 1))
    window = QueueSamples(begin, end, low, high, 100)
    assert verify(*pairs((0, 20)), window).discrepancies == 0


def test_control_events_are_subtracted_from_the_sums() -> None:
    found = verify(*pairs((0, 10)), samples([5], [3], 3), control_events=2)
    assert (found.sum_sampled, found.sum_traced, found.events_counted) == ((1, 1), 1, 1)


def test_blocks_are_read_in_any_order_and_with_every_end(tmp_path: Any) -> None:
    file = tmp_path / "samples.txt"
    file.write_text(
        "inCount = 3\ntimestamp=7\nqueueId = 2\noutCount=1\n-\n"
        "timestamp = 8\noutCount = 1\ninCount = 1\n\n--\n"
        "timestamp=9\ninCount=2\noutCount=2\n---\n"
    )
    blocks = read_sample_blocks(file)
    assert {key: values.tolist() for key, values in blocks.items()} == {
        "timestamp": [7, 8, 9],
        "inCount": [3, 1, 2],
        "outCount": [1, 1, 2],
        "queueId": [2, 0, 0],
    }


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("timestamp = 1\ninCount = x\n---\n", "line 2: 'x' is not a whole number"),
        ("timestamp = 1\ntimestamp = 2\n---\n", "line 2: a second 'timestamp'"),
        ("when = 1\n---\n", "line 1: unknown key 'when'"),
        ("timestamp = 1\ninCount = 1\n---\n", "line 1: a block without 'outCount'"),
        ("timestamp = 1\ninCount = 1\noutCount = 2\n---\n", "line 1: more events went out"),
        ("timestamp = 1\ninCount = 1\noutCount = 1\n", "line 3: the last block is not ended"),
        ("nonsense\n", "line 1: 'nonsense' is not 'key = value'"),
    ],
)
def test_a_damaged_block_is_an_error_with_its_line(written: Any, text: Any, place: Any) -> None:
    with pytest.raises(InputError, match=place):
        read_sample_blocks(written(text))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory: Any, data: Any) -> None:
    file = tmp_path_factory.mktemp("fuzz") / "file"
    file.write_bytes(data)
    for read in (read_pairs, read_sample_blocks):
        try:
            read(file)
        except InputError:
            continue


def test_the_command_prints_the_traditional_text_and_the_contract_s_json(tmp_path: Any, capsys: Any) -> None:
    traces, fills = tmp_path / "pairs.txt", tmp_path / "samples.txt"
    traces.write_text("100,200\n150,300\n")
    fills.write_text(
        "timestamp = 120\ninCount = 1\noutCount = 0\n---\n"
        "queueId = 0\ntimestamp = 160\ninCount = 1\noutCount = 0\n---\n"
        "timestamp = 250\ninCount = 2\noutCount = 1\n---\n"
    )
    arguments = ["queues", "verify", "--traces", str(traces), "--samples", str(fills)]
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == ["100", "200 = 100", "150", "300 = 150", "160 1 2"]
    assert lines[5].startswith("2 traces, 3 samples, 1 discrepancies")
    with pytest.raises(SystemExit):
        main([*arguments, "--json"])
    said = json.loads(capsys.readouterr().out)
    assert (said["traces"], said["samples"], said["discrepancies"]) == (2, 3, 1)
    assert said["rate"] == pytest.approx(1 / 3)
    assert (said["mean_residence_ns"], said["mean_residence_of_discrepant_ns"]) == (125, 125)


def test_comment_lines_are_no_part_of_the_text_formats(tmp_path: Any) -> None:
    from latlab.formats.event_traces import texts as queue_texts

    path = tmp_path / "pairs.txt"
    path.write_text("# push,pop\n100,200\n\n# the end\n")
    push, pop = queue_texts.read_pairs(path)
    assert (push.tolist(), pop.tolist()) == ([100], [200])


@pytest.mark.parametrize("empty", ["traces", "samples"])
def test_where_there_is_nothing_to_compare_the_command_says_so(
    tmp_path: Any, capsys: Any, empty: Any
) -> None:
    traces, fills = tmp_path / "pairs.txt", tmp_path / "samples.txt"
    traces.write_text("" if empty == "traces" else "100,200\n")
    fills.write_text("" if empty == "samples" else "timestamp = 120\ninCount = 1\noutCount = 0\n---\n")
    with pytest.raises(SystemExit) as ended:
        main(["queues", "verify", "--traces", str(traces), "--samples", str(fills), "--json"])
    assert ended.value.code == 3
    said = capsys.readouterr()
    assert json.loads(said.out)[empty] == 0
    assert f"no {empty}" in said.err
