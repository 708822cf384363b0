"""Stages in the order of the flow, however many there are and whatever circles they form."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from latlab.queues.judge.measures.stages import _in_order

EDGES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=14)


def ordered(edges: list[tuple[int, int]]) -> tuple[list[str], dict[str, set[str]]]:
    queues = [SimpleNamespace(source=f"s{a}", sources=(f"s{a}",), drain=f"s{b}") for a, b in edges]
    inputs: dict[str, list[int]] = {}
    for row, queue in enumerate(queues):
        inputs.setdefault(queue.drain, []).append(row)
    series: Any = SimpleNamespace(queues=queues)
    before = {
        label: {queues[row].source for row in rows if queues[row].source in inputs} - {label}
        for label, rows in inputs.items()
    }
    return _in_order(inputs, {}, series), before


@given(EDGES)
def test_stages_come_by_their_distance_from_the_source_and_circles_last(edges: list[tuple[int, int]]) -> None:
    order, before = ordered(edges)
    expected: list[str] = []
    while len(expected) < len(before):  # as the definition says it
        free = [label for label in before if label not in expected and before[label] <= set(expected)]
        expected += free or [label for label in before if label not in expected]

    assert expected == order


def test_a_chain_comes_from_its_source_on_however_it_was_registered() -> None:
    order, _ = ordered([(2, 3), (0, 1), (1, 2)])

    assert order == ["s1", "s2", "s3"]
