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


class Eager:
    """Does something whatever it is asked as its object is made."""

    def append(self, item: Any) -> None:
        raise AssertionError(item)

    extend = __setitem__ = __setstate__ = append


class Restless:
    def __new__(cls) -> Restless:
        raise AssertionError


# An object without its __init__, and then: what a list gets, what a dict gets, a state.
@pytest.mark.parametrize("then", [b"K\x01a", b"(K\x01K\x02e", b"K\x01K\x02s", b"(K\x01K\x02u", b"K\x01b"])
def test_no_method_of_the_programs_classes_runs(then: bytes) -> None:
    with pytest.raises(data.RefusedError, match="would be called"):
        data.loads(b"\x80\x04c" + __name__.encode() + b"\nEager\n)\x81" + then + b".")
    with pytest.raises(data.RefusedError, match="__new__ would be called"):
        data.loads(b"\x80\x04c" + __name__.encode() + b"\nRestless\n)\x81.")
    with pytest.raises((data.RefusedError, TypeError)):
        data.loads(pickle.dumps(Calls(list, Calls(iter, Harmful, 0))))
    assert Harmful.made == 0


class Registry(dict[int, int]):
    def __setitem__(self, key: int, value: int) -> None:
        raise AssertionError(key)


class Pile(list[int]):
    pass


def test_containers_of_the_programs_classes_come_back_by_what_they_are_made_from() -> None:
    made = Registry()
    dict.__setitem__(made, 1, 2)
    assert data.loads(pickle.dumps(made)) == {1: 2}
    assert data.loads(pickle.dumps(Pile([1, 2]))) == Pile([1, 2])


RECORDS = np.zeros(3, dtype=[("price", "f8"), ("note", "O")])
ARRAYS = [
    np.arange(12).reshape(3, 4).T[::2], np.array([1, "a", None], dtype=object), RECORDS, RECORDS["price"],
    np.array(["ab", "c"]), np.zeros(2, dtype="M8[ns]"), np.zeros(2, dtype=">i4"), np.zeros(2, dtype="S3"),
    np.zeros(2, dtype=[("deep", [("x", "u1", (2,))]), ("y", "?")]),
    np.zeros(2, dtype=np.dtype([("a", "i1"), ("b", "f8")], align=True)),
]  # fmt: skip


@pytest.mark.parametrize("array_", ARRAYS, ids=lambda one: str(one.dtype))
def test_arrays_of_every_kind_come_back(array_: Any) -> None:
    found = data.loads(values.dumps(array_))
    assert found.dtype == array_.dtype
    assert repr(found) == repr(array_)


CORE: Any = sys.modules["numpy._core" if "numpy._core" in sys.modules else "numpy.core"]


class Pretends:
    """A dtype that holds objects, and says of itself that it doesn't."""

    def __init__(self, code: str, state: tuple[Any, ...]) -> None:
        self.code, self.state = code, state

    def __reduce__(self) -> Any:
        return np.dtype, (self.code, False, True), self.state


class WithState:
    """An array of such a dtype, whose bytes would be taken for pointers."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __reduce__(self) -> Any:
        return CORE.multiarray._reconstruct, (np.ndarray, (0,), b"b"), (1, (1,), self.kind, False, bytes(8))


PLAIN = Pretends("O8", (3, "|", None, None, None, -1, -1, 0))
RECORD = Pretends("V8", (3, "|", None, ("f",), {"f": (np.dtype("O"), 0)}, 8, 1, 0))
OUTSIDE = Pretends("V8", (3, "|", None, ("f",), {"f": (np.dtype("f8"), 64)}, 8, 1, 0))


@pytest.mark.parametrize("kind", [PLAIN, RECORD, OUTSIDE], ids=["objects", "a record", "outside"])
def test_bytes_are_never_taken_for_objects(kind: Any) -> None:
    for evil in (
        WithState(kind),
        Calls(CORE.numeric._frombuffer, bytes(8), kind, (1,), "C"),
        Calls(CORE.multiarray.scalar, kind, bytes(8)),
        Calls(np.ndarray, (1,), np.dtype("O"), bytearray(8)),
    ):
        with pytest.raises((data.RefusedError, TypeError, ValueError)):
            data.loads(pickle.dumps(evil))


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


@pytest.mark.parametrize(
    "held", [Calls(os.system, "touch ran"), [1], {"keyed": Calls(os.system, "touch ran")}]
)
def test_what_a_trace_tells_of_a_component_is_data_or_refused_in_one_line(
    held: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work.py").write_text("def step(i): return i\n")
    (tmp_path / "app.py").write_text("import work\nwork.step(1)\n")
    about = trace.Value(0, 0, trace.PICKLE, pickle.dumps(held))
    step = trace.Definition(
        "work:step", "python", "", [trace.Value(0, 0, trace.PICKLE, values.dumps({"v": 1}))]
    )
    trace.write(tmp_path / "t.trace", [step, trace.Definition("work:step about", "latlab", "", [about])])
    command = [sys.executable, "-m", "latlab", "stubs", "replay", "t.trace", "--component", "work:step"]
    done = subprocess.run(
        [*command, "--", sys.executable, "app.py"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.startswith("latlab: the trace: work:step: ")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "ran").exists()
