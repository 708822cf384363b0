"""What results say is data: each kind is worded once, and whoever says it gives what its wording needs."""

from __future__ import annotations

import ast
import copy
import importlib
import pickle
import pkgutil
from collections.abc import Callable
from pathlib import Path

import pytest

import latlab.model.evidence
from latlab.model.evidence.pipeline import RunDoubt
from latlab.model.evidence.said import Kind, data_of, fields_of, kind_of, said
from latlab.model.evidence.threads import ThreadEvidence

SOURCES = Path(latlab.__file__).parent
KINDS = {
    one.__name__: one
    for room in pkgutil.iter_modules(latlab.model.evidence.__path__)
    for one in vars(importlib.import_module(f"latlab.model.evidence.{room.name}")).values()
    if isinstance(one, type) and issubclass(one, Kind) and one is not Kind
}


def calls() -> list[tuple[str, Kind, set[str], bool]]:
    """Where something is said: the place, its kind, the values by name, and whether a mapping brings more."""
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "import said" not in text and ", said" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "said"
            ):
                continue
            kind = node.args[0]
            if not (isinstance(kind, ast.Attribute) and isinstance(kind.value, ast.Name)):
                continue
            names = {one.arg for one in node.keywords if one.arg}
            more = any(one.arg is None for one in node.keywords)
            place = f"{path.relative_to(SOURCES)}:{node.lineno}"
            found.append((place, KINDS[kind.value.id][kind.attr], names, more))
    return found


def test_a_sentence_keeps_its_kind_and_its_numbers() -> None:
    sentence = said(ThreadEvidence.WAITED_FOR, name="deflate", part=0.986)
    assert sentence == "progress waited for deflate 98.6 % of the time"
    assert kind_of(sentence) is ThreadEvidence.WAITED_FOR
    assert data_of([sentence, "read from a file"]) == [
        {"kind": "ThreadEvidence.WAITED_FOR", "name": "deflate", "part": 0.986}
    ]
    assert kind_of("read from a file") is None


def test_a_sentence_survives_copies_and_other_processes() -> None:
    sentence = said(RunDoubt.ENDED, status=3)
    for again in (copy.deepcopy(sentence), pickle.loads(pickle.dumps(sentence))):
        assert (again, kind_of(again)) == ("the command ended with status 3", RunDoubt.ENDED)


def test_what_is_said_gives_each_value_that_its_wording_needs() -> None:
    every = calls()
    assert len(every) > 500
    said_wrong = [
        f"{place}: {sorted(names ^ fields_of(kind))}"
        for place, kind, names, more in every
        if not names <= fields_of(kind) or not (more or names == fields_of(kind))
    ]
    assert said_wrong == []


def test_a_value_that_is_missing_or_of_no_wording_is_found(
    monkeypatch: pytest.MonkeyPatch, written: Callable[..., Path]
) -> None:
    given = ("", ", status=1, n=2", ", **x")
    text = "import said\n" + "".join(f"said(RunDoubt.ENDED{one})\n" for one in given)
    monkeypatch.setitem(globals(), "SOURCES", written(text, "a.py").parent)
    told = [(names <= fields_of(kind), more or names == fields_of(kind)) for _, kind, names, more in calls()]
    assert told == [(True, False), (False, False), (True, True)]


def test_every_kind_is_said_somewhere() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    unused = [
        f"{name}.{one.name}"
        for name, kind in KINDS.items()
        for one in kind
        if f"{name}.{one.name}" not in text
    ]
    assert unused == []
