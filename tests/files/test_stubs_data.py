"""A recorded value is loaded without running what the trace names."""

from __future__ import annotations

import array
import collections
import copyreg
import datetime
import decimal
import enum
import io
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from latlab.stubs.components import data, trace, values


class Colour(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Order:
    price: float
    legs: list[Point]


class Slotted:
    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 3


class NoisyError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} {two}")


class Calls:
    """Its pickle calls what it is given."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], tuple(self.call[1:])


GOOD = [
    {"a": [1, 2.5, None, True], "b": ("x", b"y", 2j), "c": {1, 2}, "d": frozenset({3})},
    bytearray(b"abc"),
    range(3),
    collections.deque([1, 2]),
    collections.OrderedDict(a=1),
    collections.Counter("aab"),
    array.array("d", [1.5]),
    datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
    decimal.Decimal("1.10"),
    Path("a/b"),
    Colour.RED,
    Point(1, 2),
    Order(1.5, [Point(3, 4)]),
    np.float64(2.5),
    ...,
    NotImplemented,
]


@pytest.mark.parametrize("value", GOOD, ids=lambda value: type(value).__name__)
def test_data_and_objects_of_loaded_classes_come_back(value: Any) -> None:
    assert data.loads(values.dumps(value)) == value


@pytest.mark.parametrize("value", GOOD, ids=lambda value: type(value).__name__)
def test_data_and_objects_are_shown_without_loading_them(value: Any) -> None:
    assert repr(trace.decode_pickle(values.dumps([value])))


def test_what_a_class_of_containers_holds_is_shown() -> None:
    made = collections.defaultdict(list, {"key": [7]})
    assert "key" in repr(trace.decode_pickle(values.dumps(made)))
    assert "7" in list(trace.flatten(trace.decode_pickle(values.dumps(made))))


def test_arrays_slots_and_exceptions_come_back() -> None:
    assert data.loads(values.dumps(np.arange(6).reshape(2, 3))).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert data.loads(values.dumps(Slotted())).n == 3
    assert data.loads(values.dumps(ValueError("x"))).args == ("x",)


EVIL = {
    "os.system": Calls(os.system, "touch ran"),
    "eval": Calls(eval, "open('ran', 'w')"),
    "subprocess.Popen": Calls(subprocess.Popen, ["touch", "ran"]),
    "getattr": Calls(getattr, os, "system"),
    "a class of the program": Calls(Order, 1.0, []),
    "within data": [{"deep": Calls(os.system, "touch ran")}],
    "within an object": Order(1.0, [Calls(os.system, "touch ran")]),  # type: ignore[list-item]
    "a state": values.State(values.dumps(Calls(os.system, "touch ran"))),
    "a pickle in a pickle": Calls(pickle.loads, values.dumps(Calls(os.system, "touch ran"))),
    "a maker of exceptions": Calls(
        values.chain_exception, os.system, ("touch ran",), None, (None, None, False)
    ),
    "an exception's maker": Calls(values.make_exception, subprocess.Popen, (["touch", "ran"],), {}),
}


@pytest.mark.parametrize("what", list(EVIL))
def test_what_would_run_code_is_refused(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((data.RefusedError, TypeError)):
        data.loads(values.dumps(EVIL[what]))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("code", [b"cos\nsystem\n(S'touch ran'\ntR.", b"(S'touch ran'\nios\nsystem\n."])
def test_old_forms_of_a_pickle_are_refused(
    code: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pickle.UnpicklingError):
        data.loads(code)
    assert not list(tmp_path.iterdir())


class Harmful:
    made = 0

    def __init__(self) -> None:
        Harmful.made += 1


def test_numpys_random_generators_come_back_and_call_nothing_else() -> None:
    for made in (np.random.default_rng(3), np.random.RandomState(3)):
        assert data.loads(values.dumps(made)).random() == made.random()
    for name in ("__bit_generator_ctor", "__generator_ctor", "__randomstate_ctor"):
        evil = pickle.dumps(Calls(getattr(sys.modules["numpy.random._pickle"], name), Harmful))
        with pytest.raises((data.RefusedError, TypeError, AttributeError)):
            data.loads(evil)
    assert Harmful.made == 0


def test_a_module_that_is_not_loaded_is_not_imported() -> None:
    with pytest.raises(data.RefusedError, match="of a module that is not loaded"):
        data.loads(b"cantigravity\nfly\n.")


def test_an_exception_keeps_its_cause() -> None:
    error = NoisyError(1, 2)
    error.__cause__ = KeyError("k")

    file = io.BytesIO()
    values.Pickler(file, {}).dump(error)
    found = data.loads(file.getvalue())
    assert (type(found), found.args, repr(found.__cause__)) == (NoisyError, ("1 2",), "KeyError('k')")


def test_exceptions_are_data_whatever_a_library_registers_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(copyreg.dispatch_table, ValueError, lambda error: (os.getenv, (str(error),)))

    file = io.BytesIO()
    values.Pickler(file, {}).dump({"error": ValueError("HOME")})
    for pickled in (file.getvalue(), values.dumps(ValueError("HOME"))):
        found = data.loads(pickled)
        error = found["error"] if isinstance(found, dict) else found
        assert (type(error), error.args) == (ValueError, ("HOME",))
