from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.errors import InputError, UnavailableError, UsageError
from latlab.system.cpus import parse_cpu_list
from latlab.system.kernel.samples import decode
from latlab.system.kernel.tracefs import EventFormat, Field, event_format, known_events, parse_format

FORMAT = """name: sched_process_exec
ID: 381
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:__data_loc char[] filename;	offset:8;	size:4;	signed:0;
	field:pid_t pid;	offset:12;	size:4;	signed:1;
	field:char comm[16];	offset:16;	size:16;	signed:0;
	field:cpumask_t mask;	offset:32;	size:12;	signed:0;

print fmt: "filename=%s pid=%d old_pid=%d"
"""


def part(raw: bytes, count: int = 1) -> dict[str, object]:
    rows = np.frombuffer(raw, np.uint8)
    return {
        "stride": len(raw) // count,
        "time_ns": np.arange(count, 0, -1, dtype=np.uint64),
        "cpu": np.zeros(count, np.int32),
        "pid": np.full(count, 4, np.int32),
        "tid": np.full(count, 5, np.int32),
        "raw": rows,
    }


def test_a_format_file_gives_the_id_and_the_kind_of_every_field_but_the_common_ones() -> None:
    form = parse_format(FORMAT, "sched:sched_process_exec")
    assert form.id == 381
    assert [(one.name, one.kind) for one in form.fields] == [
        ("filename", "dynamic_text"),
        ("pid", "integer"),
        ("comm", "text"),
        ("mask", "bytes"),
    ]


def test_text_is_cut_at_its_first_nul_and_dynamic_text_is_found_by_its_place() -> None:
    form = parse_format(FORMAT, "sched:sched_process_exec")
    place = (48 | 8 << 16).to_bytes(4, "little")
    raw = (
        bytes(8)
        + place
        + (77).to_bytes(4, "little")
        + b"python\0old\0".ljust(16, b"\0")
        + bytes(16)
        + b"/bin/ls\0"
    )
    table = decode(form, [part(raw)])
    assert table["filename"].tolist() == [b"/bin/ls"]
    assert table["comm"].tolist() == [b"python"]
    assert (table["pid"].tolist(), table["event_pid"].tolist()) == ([4], [77])


def test_samples_come_out_in_the_order_of_time() -> None:
    form = EventFormat("a:b", 1, (Field("value", 0, 4, True, "integer"),))
    table = decode(form, [part(np.array([1, 2, -3], np.int32).tobytes(), 3)])
    assert table["time_ns"].tolist() == [1, 2, 3]
    assert table["value"].tolist() == [-3, 2, 1]


def test_parts_of_unlike_width_are_joined() -> None:
    form = EventFormat("a:b", 1, (Field("value", 0, 4, True, "integer"),))
    table = decode(form, [part(bytes(4)), part((1).to_bytes(4, "little") + bytes(8))])
    assert sorted(table["value"].tolist()) == [0, 1]


def test_no_samples_give_empty_columns() -> None:
    table = decode(parse_format(FORMAT, "x:y"), [])
    assert len(table) == 0
    assert table["comm"].tolist() == []


def test_a_file_that_is_no_format_is_refused() -> None:
    with pytest.raises(InputError, match="not a tracepoint's format"):
        parse_format("nothing", "x:y")


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        assert parse_format("ID: 1\n" + text, "x:y").id == 1
    except InputError:
        pass


def test_events_are_found_below_a_root(tmp_path: Path) -> None:
    folder = tmp_path / "events" / "sched" / "sched_process_exec"
    folder.mkdir(parents=True)
    (folder / "format").write_text(FORMAT)
    assert known_events("sched:*", tmp_path) == ["sched:sched_process_exec"]
    assert event_format("sched:sched_process_exec", tmp_path).id == 381
    with pytest.raises(UnavailableError, match="no tracepoint sched:nothing"):
        event_format("sched:nothing", tmp_path)


def test_cpu_lists_are_read_as_the_kernel_writes_them() -> None:
    assert parse_cpu_list("0-3,7\n") == [0, 1, 2, 3, 7]
    assert parse_cpu_list("0-6:2") == [0, 2, 4, 6]
    assert parse_cpu_list("") == []


@pytest.mark.parametrize("text", ["a", "3-1", "-1", "1-", "0-6:0", "0-99999999"])
def test_other_cpu_lists_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a CPU list"):
        parse_cpu_list(text)
