from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latlab.errors import InputError, UsageError
from latlab.formats.recording import RecordingWriter, open_recording
from latlab.model.machine.environment import Environment, Fact

ENVIRONMENT = Environment({"cpu.model": Fact("Z80"), "cpu.governor": Fact(unavailable="no cpufreq")})
FIXTURES = Path(__file__).parents[1] / "data" / "recordings"

WRITER = """
import sys
import numpy as np
from latlab.formats.recording import RecordingWriter
from latlab.model.machine.environment import Environment, Fact

with RecordingWriter(sys.argv[1], "test", parameters={}, environment=Environment({"a": Fact(1)})) as out:
    for chunk in range(10**9):
        rows = 1 + chunk % 5000
        out.append("fills", {"chunk": np.full(rows, chunk), "row": np.arange(rows)})
        out.append("names", {"name": [f"queue {chunk}"]})
        if chunk % 10 == 0:
            out.put("state", {"chunk": chunk})
        print(chunk, flush=True)
"""


def writer(path: Path, **options: object) -> RecordingWriter:
    return RecordingWriter(path, "test", parameters={"n": 3}, environment=ENVIRONMENT, seed=7, **options)  # type: ignore[arg-type]


def recorded(path: Path, chunks: int = 3) -> Path:
    with writer(path, command=["latlab", "demo", "--slow", "book=30 µs"]) as out:
        for chunk in range(chunks):
            out.append("fills", {"t_ns": np.arange(4) + 4 * chunk, "fill": np.ones(4, dtype=np.uint32)})
        out.put("result", {"p50_ns": 3.5})
    return path


def test_a_recording_comes_back_as_it_was_written(tmp_path: Path) -> None:
    found = open_recording(recorded(tmp_path / "r"))
    assert (found.kind, found.parameters, found.seed, found.complete) == ("test", {"n": 3}, 7, True)
    assert found.environment == ENVIRONMENT
    assert found.command == "latlab demo --slow 'book=30 µs'"
    assert (found.names(), found.documents()) == (["fills"], ["result"])
    assert found.series("fills").to_pydict() == {"t_ns": list(range(12)), "fill": [1] * 12}
    assert found.document("result") == {"p50_ns": 3.5}
    assert found.unfinished_bytes("fills") == 0


def test_a_batch_of_another_arrow_library_is_appended_as_it_is(tmp_path: Path) -> None:
    with writer(tmp_path / "r") as out:
        for names in (["a", "b"], ["b", None]):
            out.append("s", pa.record_batch({"name": pa.array(names)}))
    assert open_recording(tmp_path / "r").series("s")["name"].tolist() == ["a", "b", "b", None]


def test_a_recording_is_readable_while_it_is_written(tmp_path: Path) -> None:
    with writer(tmp_path / "r") as out:
        assert open_recording(tmp_path / "r").names() == []
        out.append("s", {"x": [1, 2]})
        live = open_recording(tmp_path / "r")
        assert (live.complete, live.series("s").num_rows) == (False, 2)
        out.append("s", {"x": [3]})
        assert live.series("s").num_rows == 3


def test_an_exception_in_the_run_leaves_an_incomplete_recording_with_its_chunks(tmp_path: Path) -> None:
    out = writer(tmp_path / "r")
    with contextlib.suppress(ZeroDivisionError), out:
        out.append("s", {"x": [1]})
        raise ZeroDivisionError
    found = open_recording(tmp_path / "r")
    assert (found.complete, found.series("s").num_rows) == (False, 1)


def test_a_folder_that_holds_something_is_not_overwritten(tmp_path: Path) -> None:
    recorded(tmp_path / "r")
    with pytest.raises(UsageError, match="is not empty"):
        writer(tmp_path / "r")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a\0b"])
def test_a_series_or_document_that_would_leave_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with writer(tmp_path / "r") as out:
        with pytest.raises(ValueError):
            out.append(name, {"x": [1]})
        with pytest.raises(ValueError):
            out.put(name, {})
    with pytest.raises(InputError):
        open_recording(tmp_path / "r").series(name)


def test_a_chunk_unlike_the_first_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    with writer(tmp_path / "r") as out:
        out.append("s", {"x": [1]})
        with pytest.raises(ValueError, match=r"columns y \(int64\) in a series of x \(int64\)"):
            out.append("s", {"y": [1]})
    assert open_recording(tmp_path / "r").series("s").num_rows == 1


def test_words_as_numbers_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    words = pa.RecordBatch.from_pydict({"name": pa.array(["a", "b"]).dictionary_encode()})
    with (
        writer(tmp_path / "r") as out,
        pytest.raises(ValueError, match="column 'name' is dictionary-encoded"),
    ):
        out.append("s", words)
    assert open_recording(tmp_path / "r").names() == []


@pytest.mark.long
def test_a_writer_killed_at_any_moment_leaves_every_finished_chunk(tmp_path: Path) -> None:
    dice = random.Random(1)
    for attempt in range(12):
        path = tmp_path / f"r{attempt}"
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(dice.random() * 0.03)
            process.send_signal(signal.SIGKILL)
            rest = process.stdout.read().split("\n")
        # A line that the kill cut short is not a promise.
        promised = max((int(line) for line in rest[:-1] if line), default=0)
        found = open_recording(path)
        fills = found.series("fills")
        assert not found.complete
        chunks = fills["chunk"]
        last = int(chunks[-1])
        assert last >= promised
        expected = np.concatenate([np.full(1 + c % 5000, c) for c in range(last + 1)])
        np.testing.assert_array_equal(chunks, expected)
        assert found.series("names").num_rows >= promised + 1
        assert found.document("state")["chunk"] <= last + 1


def test_a_series_cut_at_every_byte_keeps_its_finished_chunks(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r")
    (path / "complete.json").unlink()
    whole = (path / "fills.arrows").read_bytes()
    seen = set()
    for length in range(len(whole) + 1):
        (path / "fills.arrows").write_bytes(whole[:length])
        found = open_recording(path)
        rows = found.series("fills").num_rows if found.names() else 0
        seen.add(rows)
        assert rows % 4 == 0
    assert seen == {0, 4, 8, 12}


def test_a_complete_recording_with_a_series_cut_short_says_so_with_the_offset(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r")
    data = (path / "fills.arrows").read_bytes()
    (path / "fills.arrows").write_bytes(data[:-40])
    with pytest.raises(InputError, match=r"fills\.arrows: offset \d+: \d+ bytes where .* copy the recording"):
        open_recording(path).series("fills")


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("recording.json", b"", "offset 0: not JSON"),
        ("recording.json", b"{}", "format: is not a latlab recording"),
        ("recording.json", b'{"format":"latlab recording","version":99}', "update latlab"),
        ("recording.json", b'{"format":"latlab recording","version":1}', "kind: is missing"),
        ("recording.json", b'{"format":"latlab recording","version":true}', "version: a bool"),
        ("environment.json", b'{"schema":1,"facts":[]}', "environment.facts: not an object"),
        ("complete.json", b'{"schema":1,"series":{"fills":3},"finished_at":""}', "series.fills"),
        ("fills.arrows", b"ARROW1\0\0 a file and not a stream", "offset 0: no Arrow message"),
        ("fills.arrows", b"\xff\xff\xff\xff\x08\0\0\0" + b"\xff" * 64, "metadata point outside"),
    ],
)
def test_a_damaged_recording_names_file_place_and_remedy(
    tmp_path: Path, file: str, content: bytes, said: str
) -> None:
    path = recorded(tmp_path / "r")
    (path / file).write_bytes(content)
    with pytest.raises(InputError) as caught:
        open_recording(path).series("fills")
    assert str(path / file) in str(caught.value)
    assert said in str(caught.value)


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a recording"):
        open_recording(tmp_path)
    with pytest.raises(InputError, match="no such recording"):
        open_recording(tmp_path / "none")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_series_with_any_bytes_changed_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "r"
    if not path.exists():
        with writer(path) as out:
            out.append("x", {"s": ["a", "bcd"], "n": [1, 2]})
        whole = pa.table(
            {
                "s": pa.chunked_array([["a", "bcd"], ["e", None]]),
                "d": pa.chunked_array([["a", "bcd"], ["e", None]]).dictionary_encode(),
                "n": pa.chunked_array([[1, 2], [3, 4]]),
            }
        )
        with pa.ipc.new_stream(path / "x.arrows", whole.schema) as stream:
            stream.write_table(whole)
        (path / "complete.json").unlink()
        shutil.copy(path / "x.arrows", tmp_path / "whole")
    raw = bytearray((tmp_path / "whole").read_bytes())
    for at, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), min_size=1, max_size=8)
    ):
        raw[at] = value
    (path / "x.arrows").write_bytes(raw)
    with contextlib.suppress(InputError):
        open_recording(path).series("x").to_pydict()


columns = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["i8", "u4", "f8"]), min_size=1)


@settings(max_examples=40, deadline=None)
@given(types=columns, lengths=st.lists(st.integers(0, 50), min_size=1, max_size=5))
def test_any_chunks_of_any_columns_come_back(
    tmp_path_factory: pytest.TempPathFactory, types: dict[str, str], lengths: list[int]
) -> None:
    path = tmp_path_factory.mktemp("recordings") / "r"
    chunks = [{name: np.arange(n).astype(kind) for name, kind in types.items()} for n in lengths]
    with writer(path) as out:
        for chunk in chunks:
            out.append("s", chunk)
    table = open_recording(path).series("s")
    for name in types:
        assert str(table[name].dtype) == np.dtype(types[name]).name
        np.testing.assert_array_equal(table[name], np.concatenate([c[name] for c in chunks]))


@pytest.mark.parametrize("version", [1])
def test_recordings_of_every_version_open(version: int) -> None:
    found = open_recording(FIXTURES / f"v{version}")
    assert (found.version, found.kind, found.complete) == (version, "fixture", True)
    assert found.series("fills").to_pydict() == {
        "t_ns": [0, 1000, 2000],
        "queue": ["a", "b", "a"],
        "fill": [0, 3, 1],
    }
    assert found.document("result") == json.loads('{"p50_ns": 1250.5, "undefined": null}')
    assert found.environment.get("kernel.release") == "6.1.0"
