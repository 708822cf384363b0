"""Results that are plain data: recorded at the speed of C, in bounded memory, and written as they come."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab import stubs
from latlab._core import stubs_replay
from latlab.errors import InputError
from latlab.stubs.components import hook as _component
from latlab.stubs.components import session as _session
from latlab.stubs.components import trace as _trace
from latlab.stubs.components import values as _values
from latlab.stubs.components.session import Session
from latlab.stubs.studies.sameness.validate import recordings_differ

PLAIN = [
    None, True, False, 0, -1, 2**62, -(2**63), 0.5, -0.0, math.inf, "", "text", "\u20ac\U0001f600", b"",
    b"\0\xff", (), (1, ("a", None, (2.5,))),
]  # fmt: skip
#: Kept by the hook: too large, no Unicode, a class of its own, or changeable.
OTHER = [2**63, "\ud800", "x" * 70_000, [1], {"a": 1}, (1, [2]), frozenset({1})]


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Any:
    found = str(request.node.name)
    yield found
    _component.components()[found].off()
    del _component.components()[found]


def entries(path: Path, name: str) -> list[_trace.Value]:
    return next(one.values for one in _trace.read(path) if one.name == name)


def test_plain_results_share_an_entry_and_come_back_as_they_were(name: str, tmp_path: Path) -> None:
    stub = stubs.component(name)(lambda i: PLAIN[i])
    with stubs.record(tmp_path / "t"):
        expected = [stub(i) for i in range(len(PLAIN))]
    (one,) = entries(tmp_path / "t", name)
    assert (one.encoding, one.many, one.run) == (_trace.PLAIN, len(PLAIN), 0)
    with stubs.replay(tmp_path / "t"):
        found = [stub(i) for i in range(len(PLAIN))]
    assert list(map(repr, found)) == list(map(repr, expected))


def test_what_is_no_plain_data_stands_between_it_in_its_place(name: str, tmp_path: Path) -> None:
    results = [one for pair in zip(OTHER, PLAIN, strict=False) for one in pair]

    def give(i: int) -> Any:
        if i == 5:
            raise KeyError(i)
        return results[i]

    stub = stubs.component(name)(give)

    def called() -> list[str]:
        found = []
        for i in range(len(results)):
            try:
                found.append(repr(stub(i)))
            except KeyError as error:
                found.append(repr(error))
        return found

    with stubs.record(tmp_path / "t"):
        expected = called()
    values = entries(tmp_path / "t", name)
    assert [one.run for one in values] == [sum(v.many for v in values[:k]) for k in range(len(values))]
    assert _trace.count(values) == len(results)
    with stubs.replay(tmp_path / "t"):
        assert called() == expected
    lines = list(_trace.as_text(tmp_path / "t"))
    assert sum(f";{name};" in line for line in lines) == len(results)


def test_a_recording_writes_as_it_goes_on(name: str, tmp_path: Path) -> None:
    stub = stubs.component(name)(lambda i: float(i))
    part = tmp_path / "t.part"
    with stubs.record(tmp_path / "t"):
        for i in range(400_000):
            stub(i)
        assert part.stat().st_size > 2_000_000
        hook = _component.components()[name]
        assert len(hook.callable.latlab_take(0, 0)[0]) < 1 << 19
    assert not part.exists()


def test_results_that_nobody_holds_are_let_go(name: str, tmp_path: Path) -> None:
    held: list[Any] = []

    def give(i: int) -> list[int]:
        made = [i]
        if i % 1000 == 0:
            held.append(made)
        return held[0] if i % 1500 == 0 and held else made

    stub = stubs.component(name)(give)
    with stubs.record(tmp_path / "t"):
        for i in range(6000):
            stub(i)
        hook = _component.components()[name]
        assert len(hook.alive) < 2 * 1024
        assert id(held[0]) in hook.alive
    with stubs.replay(tmp_path / "t"):
        found = [stub(i) for i in range(6000)]
    assert found[1500] is found[0]
    assert found[4500] is found[0]


def test_threads_and_calls_within_calls_keep_their_own(name: str, tmp_path: Path) -> None:
    def count(n: int) -> int:
        return n + stub(n - 1) if n else 0

    stub = stubs.component(name)(count)
    found: dict[str, list[int]] = {}

    def run() -> None:
        found[threading.current_thread().name] = [stub(n) for n in range(20)]

    def all_of() -> None:
        threads = [threading.Thread(target=run, name=f"worker {k}") for k in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    with stubs.record(tmp_path / "t"):
        all_of()
    expected, found = found, {}
    assert _trace.count(entries(tmp_path / "t", name)) == 60
    with stubs.replay(tmp_path / "t"):
        all_of()
    assert found == expected


def test_a_child_that_is_forked_leaves_its_parents_recording_alone(name: str, tmp_path: Path) -> None:
    stub = stubs.component(name)(lambda i: i)
    with stubs.record(tmp_path / "t") as session:
        for i in range(10):
            stub(i)
        if os.fork() == 0:
            for i in range(100_000):
                stub(i)
            session.save()
            os._exit(0)
        assert os.wait()[1] == 0
        stub(10)
    assert _trace.count(entries(tmp_path / "t", name)) == 11


def test_an_interrupt_is_no_result(name: str, tmp_path: Path) -> None:
    def give(i: int) -> int:
        if i == 1:
            raise KeyboardInterrupt
        return i

    stub = stubs.component(name)(give)
    with stubs.record(tmp_path / "t"):
        stub(0)
        with pytest.raises(KeyboardInterrupt):
            stub(1)
        stub(2)
    assert _trace.count(entries(tmp_path / "t", name)) == 2


def test_a_full_disk_is_told_and_leaves_the_program_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = stubs.component(name)(lambda i: [i])

    def full(self: Any, *_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_trace.Writer, "value", full)
    with pytest.raises(InputError, match="No space left"), stubs.record(tmp_path / "t"):  # noqa: PT012
        assert stub(1) == [1]
        assert stub(2) == [2]
    assert list(tmp_path.iterdir()) == []


def test_calls_that_can_change_nothing_are_not_looked_at(name: str, tmp_path: Path) -> None:
    stub = stubs.component(name)(lambda i: i)
    hook = _component.components()[name]
    session = Session(str(tmp_path / "t"), replaying=False, keyed=False)
    hook.record(session, watching=True)
    for i in range(1000):
        stub(i)
    assert hook.watcher().looked == 1
    assert hook.callable.latlab_harmless() == 999
    changed: list[int] = []
    stub(changed)
    assert hook.watcher().looked == 2
    session.abandon()


def test_recordings_are_compared_by_what_they_hold(tmp_path: Path) -> None:
    pickled: list[dict[str, Any]] = [
        {"k": "r", "v": v, "fx": {}, "same": -1, "n": 7, "keep": False} for v in (1, 2)
    ]
    blobs = [_values.dumps(one) for one in pickled]
    kept = stubs_kept([1, 2, 3])
    one = [_trace.Definition("a", "python", "", [_trace.Value(0, 0, _trace.PLAIN, kept, 3)])]
    mixed = [_trace.Value(i, 0, _trace.PICKLE, blob) for i, blob in enumerate(blobs)]
    last = _trace.Value(2, 0, _trace.PLAIN, stubs_kept([3]), 1)
    other = [_trace.Definition("a", "python", "", [*mixed, last])]
    assert recordings_differ("a", {"p": one}, {"p": other}) is None
    last = _trace.Value(2, 0, _trace.PLAIN, stubs_kept([4]), 1)
    other = [_trace.Definition("a", "python", "", [*mixed, last])]
    assert recordings_differ("a", {"p": one}, {"p": other}) is not None


def stubs_kept(numbers: list[int]) -> bytes:
    return b"".join(b"\3" + number.to_bytes(8, "little", signed=True) for number in numbers)


@given(st.binary(max_size=64), st.integers(0, 80))
def test_damaged_plain_values_are_refused(data: bytes, count: int) -> None:
    try:
        found = stubs_replay.plain_values(data, count)
    except (ValueError, UnicodeDecodeError):
        return
    assert len(found) == count


def test_more_plain_values_than_bytes_are_refused(tmp_path: Path) -> None:
    values = [_trace.Value(0, 0, _trace.PLAIN, b"\0\0", 3)]
    _trace.write(tmp_path / "t", [_trace.Definition("a", "python", "", values)])
    with pytest.raises(InputError, match="more plain values than bytes"):
        _trace.read(tmp_path / "t")


def test_a_process_that_comes_to_its_end_twice_keeps_what_it_recorded(name: str, tmp_path: Path) -> None:
    stub = stubs.component(name)(lambda i: i)
    with stubs.record(tmp_path / "t") as session:
        for i in range(10):
            stub(i)
        session.save()
        stub(10)
    assert _trace.count(entries(tmp_path / "t", name)) == 10


class Tally:
    """Has members of its own, one that the class has, too, one in a slot, and one that can be changed."""

    __slots__ = ("__dict__", "slot")
    count = 0

    def __init__(self) -> None:
        self.slot, self.last, self.seen = 0.5, (0, "none"), [0]

    def state(self) -> tuple[Any, ...]:
        return self.count, self.slot, self.last, list(self.seen)

    def step(self, x: int) -> int:
        self.count += x
        self.slot += 0.5
        self.last = (x, "some")
        self.seen.append(x)
        return self.count


@pytest.mark.parametrize("members", [("self.count", "self.slot", "self.last"), ("self.count", "self.seen")])
def test_what_a_call_changes_is_kept_whether_data_or_an_object(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: tuple[str, ...]
) -> None:
    monkeypatch.setattr(Tally, "step", stubs.component(name, mutates=members)(Tally.step))
    at = {f"self.{member}": i for i, member in enumerate(("count", "slot", "last", "seen"))}

    def states() -> list[Any]:
        tally = Tally()
        found = []
        for i in range(5):
            found += [tally.step(i), *(tally.state()[at[member]] for member in members)]
        return found

    with stubs.record(tmp_path / "t"):
        expected = states()
    with stubs.replay(tmp_path / "t"):
        assert states() == expected


def test_the_state_of_a_call_that_changes_numbers_is_written_as_it_is(name: str, tmp_path: Path) -> None:
    def change(holder: Tally) -> None:
        holder.count = 7

    stub = stubs.component(name, mutates=("holder.count",))(change)
    with stubs.record(tmp_path / "t"):
        stub(Tally())
    (one,) = entries(tmp_path / "t", name)
    # A pickle within it, which loading calls a function for, costs more than all the rest of a call.
    assert _trace.decode_pickle(one.data or b"")["fx"] == {"holder.count": 7}


def test_an_exception_that_is_false_is_one(name: str, tmp_path: Path) -> None:
    def fail() -> None:
        raise FalseError(3)

    stub = stubs.component(name)(fail)
    with stubs.record(tmp_path / "t"), pytest.raises(FalseError):
        stub()
    with stubs.replay(tmp_path / "t"), pytest.raises(FalseError):
        stub()


class FalseError(Exception):
    """Empty, as a container of errors may be."""

    def __bool__(self) -> bool:
        return False


def test_the_keys_of_a_keyed_recording_are_written_as_it_goes_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_session, "_MOST_KEYS_BYTES", 2000)
    stub = stubs.component(name)(lambda i, text: (i, text))
    with stubs.record(tmp_path / "t", keyed=True) as session:
        for i in range(500):
            stub(i, f"text {i}")
        assert len(session._keys[name]) < 50
    definitions = {one.name: one for one in _trace.read(tmp_path / "t")}
    assert len(definitions[f"{name} keys"].values) > 10
    other = _session.joined(name, definitions, definitions)  # of two processes
    _trace.write(tmp_path / "both", list(other.values()))
    for path in (tmp_path / "t", tmp_path / "both"):
        with stubs.replay(path, keyed=True):
            assert [stub(i, f"text {i}") for i in reversed(range(500))] == [
                (i, f"text {i}") for i in reversed(range(500))
            ]
