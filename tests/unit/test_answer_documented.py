"""Every key of `answer.json` is described where a reader looks: the docstring of its class, and the page."""

from __future__ import annotations

import dataclasses
import re
import typing
from pathlib import Path

import pytest

from latlab.model.diagnosis.answer import Answer

REFERENCE = Path(__file__).parents[2] / "docs/reference"
PAGE = REFERENCE / "answer.md"


def classes_of(start: type) -> dict[str, type]:
    """The dataclass, and all that its fields hold."""
    found: dict[str, type] = {}
    left: list[object] = [start]
    while left:
        one = left.pop()
        left += typing.get_args(one)
        if isinstance(one, type) and dataclasses.is_dataclass(one) and one.__qualname__ not in found:
            found[one.__qualname__] = one
            left += typing.get_type_hints(one).values()
    return found


CLASSES = classes_of(Answer)


def described(one: type) -> set[str]:
    """The names in front of a colon in the section on attributes; one line may describe several."""
    section = (one.__doc__ or "").partition("Attributes:")[2]
    named = re.findall(r"^\s+((?:[a-z]\w*, )*[a-z]\w*): ", section, re.M) + re.findall(
        r"; ((?:[a-z]\w*, )*[a-z]\w*): ", section
    )
    return {name for names in named for name in names.split(", ")}


@pytest.mark.parametrize("name", CLASSES)
def test_each_attribute_of_the_answer_is_described(name: str) -> None:
    one = CLASSES[name]
    fields = {field.name for field in dataclasses.fields(one) if not field.name.startswith("_")}
    assert fields - described(one) == set()


def test_each_class_of_the_answer_is_in_the_reference_by_its_module() -> None:
    page = PAGE.read_text(encoding="utf-8") + (REFERENCE / "python.md").read_text(encoding="utf-8")
    assert {one.__module__ for one in CLASSES.values()} <= set(re.findall(r"^::: (\S+)", page, re.M))


def test_keys_that_are_no_attributes_are_named_on_the_page() -> None:
    answer = Answer("x", "Bottleneck: x.", "x", "stage", 1.0, (), (), (), ())
    page = PAGE.read_text(encoding="utf-8")
    attributes = {field.name for field in dataclasses.fields(Answer)}
    assert {key for key in answer.to_json() if key not in attributes and f"`{key}`" not in page} == {"schema"}
