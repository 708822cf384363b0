"""Components that are recorded and replayed, in one process.

Over 400 lines: one recorded component, and a test of each kind of call.
"""

from __future__ import annotations

import array
import collections
import contextlib
import json
import re
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latlab import stubs
from latlab.cli import main
from latlab.errors import InputError, LatlabError, UsageError
from latlab.stubs.components import effects as _effects
from latlab.stubs.components import hook as _component
from latlab.stubs.components import trace as _trace
from latlab.stubs.components.registry import register


class Book:
    def __init__(self) -> None:
        self.__orders: dict[int, list[int]] = {}

    def add(self, key: int, value: int) -> None:
        self.__orders.setdefault(key, []).append(value)

    def orders(self) -> dict[int, list[int]]:
        return self.__orders


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Any:
    names: list[str] = []

    def component(function: Any, mutates: tuple[str, ...] = ()) -> Any:
        name = f"{request.node.name}.{len(names)}"
        names.append(name)
        return register(name, function, mutates)

    yield component
    for name in names:
        _component.components()[name].off()
        del _component.components()[name]


def test_results_none_and_exceptions_are_replayed_in_order(make: Any, tmp_path: Path) -> None:
    calls = []

    def parse(text: str) -> int | None:
        calls.append(text)
        return int(text) if text else None

    stub = make(parse)
    with stubs.record(tmp_path / "t"):
        stub("1"), stub("")
        with pytest.raises(ValueError, match="invalid literal"):
            stub("x")
    with stubs.replay(tmp_path / "t"):
        assert stub("ignored") == 1
        assert stub("ignored") is None
        with pytest.raises(ValueError, match="invalid literal"):
            stub("ignored")
    assert calls == ["1", "", "x"]
    assert stub("7") == 7


def test_a_mutated_argument_is_overwritten_in_place_with_its_private_members(
    make: Any, tmp_path: Path
) -> None:
    def apply(book: Book, key: int) -> None:
        book.add(key, 5)

    stub = make(apply, ("book",))
    with stubs.record(tmp_path / "t"):
        stub(Book(), 3)
    book = Book()
    orders = book.orders()
    with stubs.replay(tmp_path / "t"):
        stub(book, 3)
    assert orders is book.orders()
    assert orders == {3: [5]}


def test_a_result_that_is_an_argument_stays_that_argument(make: Any, tmp_path: Path) -> None:
    def push(items: list[int], value: int) -> list[int]:
        items.append(value)
        return items

    stub = make(push, ("items",))
    with stubs.record(tmp_path / "t"):
        stub([], 1)
    mine: list[int] = []
    with stubs.replay(tmp_path / "t"):
        assert stub(mine, 1) is mine
    assert mine == [1]


def test_an_object_that_was_returned_twice_is_one_object_again(make: Any, tmp_path: Path) -> None:
    held: list[int] = []

    def grow(value: int) -> list[int]:
        held.append(value)
        return held

    stub = make(grow)
    with stubs.record(tmp_path / "t"):
        stub(1), stub(2)
    with stubs.replay(tmp_path / "t"):
        first = stub(1)
        assert first == [1]
        assert stub(2) is first
        assert first == [1, 2]


def test_a_replayed_array_is_its_own_writable_and_laid_out_as_recorded(make: Any, tmp_path: Path) -> None:
    stub = make(lambda: np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    with stubs.record(tmp_path / "t"):
        stub(), stub()
    with stubs.replay(tmp_path / "t"):
        one, two = stub(), stub()
    assert (one.flags.owndata, one.flags.writeable, one.flags.f_contiguous) == (True, True, True)
    one[:] = 0
    assert two.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_results_that_contain_one_another_are_separate_objects(make: Any, tmp_path: Path) -> None:
    stub = make(lambda: {"legs": [{"side": "b"}]})
    with stubs.record(tmp_path / "t"):
        stub(), stub()
    with stubs.replay(tmp_path / "t"):
        one, two = stub(), stub()
    one["legs"][0]["side"] = "s"
    assert two == {"legs": [{"side": "b"}]}


def test_a_trace_of_other_components_is_refused_and_leaves_the_originals(make: Any, tmp_path: Path) -> None:
    stub = make(lambda: 1)
    _trace.write(tmp_path / "t", [_trace.Definition("another", "python", "", [])])
    with (
        pytest.raises(InputError, match=r"holds nothing of this program's components \(it holds another\)"),
        stubs.replay(tmp_path / "t"),
    ):
        pass
    assert stub() == 1


def test_where_one_component_cannot_be_replayed_none_is_replaced(make: Any, tmp_path: Path) -> None:
    first, second = make(lambda: "original 1"), make(lambda: "original 2")
    with stubs.record(tmp_path / "t"):
        first(), second()
    definitions = _trace.read(tmp_path / "t")
    values = definitions[-1].values
    values[0] = values[0]._replace(data=b"no pickle")
    _trace.write(tmp_path / "t", definitions)
    with pytest.raises(InputError, match="damaged"), stubs.replay(tmp_path / "t"):
        pass
    assert (first(), second()) == ("original 1", "original 2")


def test_a_replayed_dict_is_fresh_each_time(make: Any, tmp_path: Path) -> None:
    stub = make(lambda: {"a": 1})
    with stubs.record(tmp_path / "t"):
        stub(), stub()
    with stubs.replay(tmp_path / "t"):
        one = stub()
        one["b"] = 2
        assert stub() == {"a": 1}


def test_arrays_are_copies_or_read_only_views(make: Any, tmp_path: Path) -> None:
    stub = make(lambda: np.arange(4.0))
    with stubs.record(tmp_path / "t"):
        stub()
    with stubs.replay(tmp_path / "t"):
        stub()[0] = 9
    with stubs.replay(tmp_path / "t", views=True):
        view = stub()
        assert view.tolist() == [0, 1, 2, 3]
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 9


def test_each_thread_gets_its_own_results_in_its_own_order(make: Any, tmp_path: Path) -> None:
    stub = make(lambda value: value * 10)

    def both(results: dict[str, list[int]]) -> None:
        def work(base: int) -> None:
            results[threading.current_thread().name] = [stub(base + i) for i in range(50)]

        threads = [threading.Thread(target=work, args=(100 * i,), name=f"worker {i}") for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    original: dict[str, list[int]] = {}
    replayed: dict[str, list[int]] = {}
    with stubs.record(tmp_path / "t"):
        both(original)
    with stubs.replay(tmp_path / "t"):
        both(replayed)
    assert replayed == original


def test_more_and_fewer_calls_than_recorded_are_named_and_the_original_comes_back(
    make: Any, tmp_path: Path
) -> None:
    stub = make(lambda: 5)
    with stubs.record(tmp_path / "t"):
        stub(), stub()
    with (
        pytest.raises(stubs.ReplayError, match=r"less often .* \(1 results are left\)"),
        stubs.replay(tmp_path / "t"),
    ):
        stub()
    with stubs.replay(tmp_path / "t"):
        stub(), stub()
        with pytest.raises(stubs.ReplayError, match=r"more often than it was recorded \(2 times\)"):
            stub()
    assert stub() == 5


def test_keyed_replay_goes_by_the_arguments(make: Any, tmp_path: Path) -> None:
    stub = make(lambda value: [value])
    with stubs.record(tmp_path / "t", keyed=True):
        stub(1), stub(2)
    with stubs.replay(tmp_path / "t", keyed=True):
        assert [stub(2), stub(1), stub(2)] == [[2], [1], [2]]
        with pytest.raises(stubs.ReplayError, match="were not recorded"):
            stub(3)


def test_an_object_without_recorded_data_is_refused() -> None:
    with pytest.raises(_effects.AmbiguousStateError, match="nothing was recorded"):
        _effects.overwrite([1], None)


def test_a_result_that_cannot_be_serialised_is_named(make: Any, tmp_path: Path) -> None:
    stub = make(lambda: threading.Lock())
    with pytest.raises(LatlabError, match=r"type lock can't be serialised"), stubs.record(tmp_path / "t"):
        stub()


def test_the_text_form_is_that_of_the_format(tmp_path: Path) -> None:
    data = (1).to_bytes(4, "little") + (2).to_bytes(4, "little") + (1).to_bytes(2, "little")
    data += (302845744).to_bytes(4, "little")
    values = [_trace.Value(0, 0, _trace.PACKED, None), _trace.Value(1, 0, _trace.PACKED, data)]
    _trace.write(tmp_path / "t", [_trace.Definition("conn", "class Connection", "{i4i4i2i4}", values)])
    assert list(_trace.as_text(tmp_path / "t")) == [
        "0;5;conn;17;class Connection;1",
        "1;5;conn;17;class Connection;0;14;1;2;1;302845744",
    ]


def test_a_trace_of_another_version_is_refused(tmp_path: Path) -> None:
    _trace.write(tmp_path / "t", [])
    raw = bytearray((tmp_path / "t").read_bytes())
    raw[8] = 9
    (tmp_path / "t").write_bytes(raw)
    with pytest.raises(InputError, match="of version 9"):
        _trace.read(tmp_path / "t")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cut=st.integers(0, 300), flip=st.integers(0, 300), bit=st.integers(0, 7))
def test_a_damaged_trace_is_refused_or_read_but_never_crashes(
    tmp_path: Path, cut: int, flip: int, bit: int
) -> None:
    values = [_trace.Value(i, 0, _trace.PACKED, b"\x05\0\0\0" * 2) for i in range(3)]
    _trace.write(tmp_path / "t", [_trace.Definition("a", "int", "{i4 v(i4)}", values)])
    raw = bytearray((tmp_path / "t").read_bytes())
    raw[flip % len(raw)] ^= 1 << bit
    (tmp_path / "t").write_bytes(raw[: len(raw) - cut] if cut < len(raw) else b"")
    try:
        list(_trace.as_text(tmp_path / "t"))
    except InputError:
        pass


class CodedError(Exception):
    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class Levels(dict):  # type: ignore[type-arg]
    pass


def test_an_exception_with_members_and_an_init_of_its_own_is_raised_as_it_was(
    make: Any, tmp_path: Path
) -> None:
    def refuse() -> None:
        raise CodedError(7, "closed")

    stub = make(refuse)
    with stubs.record(tmp_path / "t"), pytest.raises(CodedError):
        stub()
    with stubs.replay(tmp_path / "t"), pytest.raises(CodedError) as raised:
        stub()
    assert (raised.value.code, raised.value.args) == (7, ("closed",))


def test_calls_within_a_recorded_call_are_part_of_it(make: Any, tmp_path: Path) -> None:
    def fibonacci(n: int) -> int:
        return n if n < 2 else stub(n - 1) + stub(n - 2)

    stub = make(fibonacci)
    inner = make(lambda: 3)
    outer = make(lambda: inner() + 1)
    with stubs.record(tmp_path / "t"):
        expected = [stub(7), outer(), inner()]
    with stubs.replay(tmp_path / "t"):
        assert [stub(7), outer(), inner()] == expected == [13, 4, 3]


def test_arguments_that_are_not_given_and_those_that_cannot_change_need_no_state(
    make: Any, tmp_path: Path
) -> None:
    def fill(kept: list[int], other: Any = None) -> None:
        kept.append(len(kept))

    stub = make(fill, mutates=("kept", "other"))

    def run() -> list[int]:
        kept: list[int] = []
        stub(kept)
        stub(kept, 10**20)
        stub(kept, other=("a", "b"))
        return kept

    with stubs.record(tmp_path / "t"):
        expected = run()
    with stubs.replay(tmp_path / "t"):
        assert run() == expected == [0, 1, 2]


def test_containers_of_every_kind_are_overwritten_in_place() -> None:
    levels: Any = Levels(a=1)
    wanted: Any = Levels(b=2)
    wanted.name = "bids"
    assert _effects.overwrite(levels, wanted) is levels
    assert (dict(levels), levels.name) == ({"b": 2}, "bids")
    queue = collections.deque([1, 2])
    assert _effects.overwrite(queue, collections.deque([3])) is queue
    assert list(queue) == [3]
    numbers = array.array("i", [1])
    assert _effects.overwrite(numbers, array.array("i", [4, 5])) is numbers
    pair = ([1], "long enough not to be the same object")
    assert _effects.overwrite(pair, ([6], "".join(pair[1]))) is pair
    assert (list(numbers), pair[0]) == ([4, 5], [6])


def test_methods_and_properties_are_components_below_and_above_their_decorators(tmp_path: Path) -> None:
    class Book:
        depth = 2

        @stubs.component("book.of_class")
        @classmethod
        def of_class(cls) -> int:
            return cls.depth

        @stubs.component("book.level")  # type: ignore[prop-decorator]
        @property
        def level(self) -> list[int]:
            return [self.depth]

    try:
        with stubs.record(tmp_path / "t"):
            expected = (Book.of_class(), Book().level)
        Book.depth = 9
        with stubs.replay(tmp_path / "t"):
            assert (Book.of_class(), Book().level) == expected == (2, [2])
    finally:
        for name in ("book.of_class", "book.level"):
            del _component.components()[name]


@pytest.mark.parametrize("kind", ["a generator", "an async function"])
def test_a_function_that_returns_before_its_work_is_done_is_refused(
    make: Any, tmp_path: Path, kind: str
) -> None:
    def numbers() -> Any:
        yield 1

    async def later() -> int:
        return 1

    make(numbers if kind == "a generator" else later)
    with pytest.raises(UsageError, match=f"is {kind}"), stubs.record(tmp_path / "t"):
        pass


def test_a_recording_that_misses_a_result_is_not_written_even_where_the_program_goes_on(
    make: Any, tmp_path: Path
) -> None:
    locked = make(lambda: threading.Lock())

    def once() -> None:
        with contextlib.suppress(Exception):
            locked()

    with pytest.raises(LatlabError, match="can't be serialised"), stubs.record(tmp_path / "t"):
        once()
    assert not (tmp_path / "t").exists()


def test_a_place_that_cannot_be_written_is_refused_before_anything_runs(make: Any, tmp_path: Path) -> None:
    make(lambda: 1)
    with pytest.raises(InputError, match="can't be written"), stubs.record(tmp_path / "no" / "t"):
        pytest.fail("the program ran")


def test_a_program_is_recorded_and_replayed_from_outside(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "priced.py").write_text("def price(i):\n    print('original')\n    return {'price': i * 2}\n")
    (tmp_path / "app.py").write_text(
        "import sys, priced\n"
        "try:\n  print(sum(priced.price(i)['price'] for i in range(int(sys.argv[1]))))\n"
        "except Exception:\n  pass\n"
    )

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(["stubs", *arguments])
        out, err = capfd.readouterr()
        return int(left.value.code or 0), out, err

    named = ["--component", "priced:price"]
    assert run("record", *named, "-o", "t", "--", sys.executable, "app.py", "5")[0] == 0
    for lazy in ([], ["--lazy"]):
        code, out, err = run(
            "replay", "t", *named, *lazy, "--no-compare", "--", sys.executable, "app.py", "5"
        )
        assert (code, out) == (0, "20\n")
        assert re.search(r"5 calls of priced:price replayed, .* of memory", err)
    code, out, err = run("replay", "t", *named, "--", sys.executable, "app.py", "5")
    assert (code, out, "it prints 1 lines and not 6" in err) == (1, "20\n", True)
    code, _, err = run("replay", "t", *named, "--", sys.executable, "app.py", "4")
    assert (code, "1 results are left" in err) == (1, True)
    code, _, err = run("replay", "t", *named, "--", sys.executable, "app.py", "6")
    assert (code, "more often than it was recorded (5 times)" in err) == (1, True)
    code, out, _ = run("record", *named, "-o", "u", "--json", "--", sys.executable, "app.py", "5")
    told = {"schema": 1, "trace": "u", "component": "priced:price", "results": 5, "keeps": [], "not_kept": {}}
    assert json.loads(out) == told
    code, out, err = run("replay", "t", *named, "--json", "--no-compare", "--", sys.executable, "app.py", "5")
    told = json.loads(out)
    assert (told["schema"], told["calls"], told["exit_code"], "20\n" in err) == (1, 5, 0, True)
    code, _, err = run("replay", "t", "--component", "priced:other", "--", sys.executable, "app.py", "5")
    assert (code, "it holds priced:price" in err) == (2, True)
