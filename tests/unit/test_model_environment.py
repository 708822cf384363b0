from __future__ import annotations

import json

import pytest

from latlab.model.machine.environment import Environment, Fact, differences


def environment(**changes: object) -> Environment:
    values = {
        "cpu.model": "Z80",
        "cpu.count": 2,
        "load.1min": 0.1,
        "process.affinity": [0, 1],
        "git.revision": "a",
    }
    facts = {name: Fact(value) for name, value in {**values, **changes}.items()}  # type: ignore[arg-type]
    return Environment({**facts, "cpu.governor": Fact(unavailable="no cpufreq")})


def test_an_environment_survives_json() -> None:
    before = environment()
    assert Environment.from_json(json.loads(json.dumps(before.to_json()))) == before


def test_like_environments_differ_in_nothing() -> None:
    assert differences(environment(), environment()) == []


def test_an_unlike_item_is_named_with_both_sides() -> None:
    (found,) = differences(environment(), environment(**{"cpu.model": "6502"}))
    assert str(found) == "cpu.model: Z80 against 6502"


def test_a_change_of_the_code_under_measurement_is_no_difference() -> None:
    assert differences(environment(), environment(**{"git.revision": "b"})) == []


def test_a_load_is_a_difference_from_a_quarter_of_a_task_per_cpu() -> None:
    assert differences(environment(), environment(**{"load.1min": 0.5})) == []
    (found,) = differences(environment(), environment(**{"load.1min": 1.9}))
    assert str(found) == "load.1min: 0.1 against 1.9"


def test_what_one_side_never_recorded_is_a_difference() -> None:
    (found,) = differences(environment(), environment(**{"gpu.driver": "550"}))
    assert str(found) == "gpu.driver: unavailable (not recorded) against 550"


def test_a_known_item_against_an_unavailable_one_is_a_difference() -> None:
    known = Environment({**environment().facts, "cpu.governor": Fact("performance")})
    (found,) = differences(environment(), known)
    assert str(found) == "cpu.governor: unavailable (no cpufreq) against performance"


@pytest.mark.parametrize(
    ("document", "key"),
    [
        ([], "environment:"),
        ({"schema": 9}, "environment.schema:"),
        ({"schema": 1, "facts": 3}, "environment.facts:"),
        ({"schema": 1, "facts": {"a": 3}}, "environment.facts.a:"),
        ({"schema": 1, "facts": {"a": {"value": None}}}, "environment.facts.a:"),
    ],
)
def test_a_foreign_document_is_refused_with_its_key(document: object, key: str) -> None:
    with pytest.raises(ValueError, match=f"^{key}"):
        Environment.from_json(document)
