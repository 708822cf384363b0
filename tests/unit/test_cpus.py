"""CPUs as text, and which of them this process can have."""

from __future__ import annotations

import os

import pytest

from latlab.system.cpus import cpu_list, parse_cpu_list, refused_cpus


@pytest.mark.parametrize(
    ("cpus", "text"), [([], ""), ([3], "3"), ([1, 0], "0-1"), ([0, 1, 2, 5, 7, 8], "0-2,5,7-8")]
)
def test_a_list_of_cpus_reads_back_what_it_says(cpus: list[int], text: str) -> None:
    assert cpu_list(cpus) == text
    assert parse_cpu_list(text) == sorted(cpus)


def test_a_cpu_outside_of_the_affinity_is_offered_and_an_absent_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pinned: list[set[int]] = []

    def pin(_thread: int, cpus: set[int]) -> None:
        if max(cpus) > 3:
            raise OSError(22, "Invalid argument")
        pinned.append(set(cpus))

    monkeypatch.setattr(os, "sched_getaffinity", lambda _thread: {0, 1})
    monkeypatch.setattr(os, "sched_setaffinity", pin)

    assert refused_cpus([1, 3, 99]) == [99]
    assert pinned == [{1}, {3}, {0, 1}]
