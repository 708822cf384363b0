"""What queues are called by the code that makes them."""

from __future__ import annotations

import contextvars
import functools
import sys
from concurrent.futures.process import _process_chunk
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.files.started import module_of

import latlab.queues

FILE = Path(latlab.queues.__file__).parent / "_inject" / "latlab_injected" / "names.py"


@pytest.fixture(scope="module")
def names() -> ModuleType:
    return module_of(FILE)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="columns of calls are known since 3.11")
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("a, b = make(1), make(2)", ["a", "b"]),
        ("(a, b) = (make(1), make(max(2, 3)))", ["a", "b"]),
        ("self.a, self.b, c = make(0), make(1), make(2)", ["a", "b", "c"]),
        ("orders = make(5)", ["orders"]),
        ("both = [make(1), make(2)]", ["both", "both #2"]),
        ("n = max(1, 2); a, b = make(n), make(n)", ["a", "b"]),
        ("shards = {'eu': make(1), 'us': make(2)}", ["eu", "us"]),
    ],
)
def test_each_of_several_queues_on_one_line_has_the_name_that_it_is_assigned_to(
    names: ModuleType, tmp_path: Path, line: str, told: list[str]
) -> None:
    file = tmp_path / "feed.py"
    file.write_text(line)
    # As the class of a queue does: from a module that is not the program's own.
    module: dict[str, Any] = {"__name__": "queue", "queue_name": names.queue_name, "made": []}
    exec("def make(room):\n    made.append(queue_name('queue'))\n    return room", module)
    space = {"make": module["make"], "self": SimpleNamespace(), "__name__": "feed"}
    exec(compile(line, str(file), "exec"), space)
    assert module["made"] == [f"{name} (feed.py:1)" for name in told]


def test_what_asyncio_runs_in_a_thread_is_called_after_its_function(names: ModuleType) -> None:
    run = contextvars.copy_context().run
    assert names.function_name(functools.partial(run, render)) == "render"
    assert names.function_name(functools.partial(run, functools.partial(render, 1))) == "render"


def render(*_: object) -> None:
    return None


def test_a_part_of_a_map_is_called_after_the_function_that_is_mapped(names: ModuleType) -> None:
    assert names.function_name(functools.partial(_process_chunk, render)) == "render"
    assert names.function_name(functools.partial(render)) == "render"


def test_a_thread_that_gets_the_number_of_an_ended_one_keeps_its_own_name(names: ModuleType) -> None:
    stages = names.Stages()
    renamed: list[tuple[object, str, str]] = []
    stages.renamed = lambda *told: renamed.append(told)
    lane = [names.role_of(f"lane-{number}", "drain") for number in range(3)]
    assert (str(lane[0]), lane[0].whole, names.role_of("Thread-3", "drain").whole) == ("lane", "lane-0", "")
    assert stages.name(1, lane[0], "a", False) == "lane"
    stages.forget(1)
    assert stages.name(1, names.role_of("", "count"), "b", False) == "count"
    assert stages.name(2, lane[1], "c", False) == "lane-1"
    assert (renamed, stages.label(1)) == ([(None, "lane", "lane-0")], "count")
    assert stages.name(3, lane[2], "a", False) == "lane-0"


def test_of_several_at_one_queue_none_gives_its_name(names: ModuleType) -> None:
    stages = names.Stages()
    lane = [names.role_of(f"lane-{number}", "drain") for number in range(3)]
    told = [stages.name(number, one, "ac"[number // 2], False) for number, one in enumerate(lane)]
    assert told == ["lane", "lane", "lane-2"]


def test_who_has_no_number_of_its_own_has_that_of_its_queue_whoever_was_first(names: ModuleType) -> None:
    stages = names.Stages()
    renamed: list[tuple[object, str, str]] = []
    stages.renamed = lambda *told: renamed.append(told)
    queues = ("qs #3 (feed.py:3)", "qs (feed.py:3)", "qs #4 (feed.py:3)", "qs #2 (feed.py:3)")
    role = names.role_of("Thread-1 (shard)", "shard")
    told = [stages.name(at, role, name, False, names.lane_of(name)) for at, name in enumerate(queues)]
    assert told == ["shard", "shard", "shard-4", "shard-2"]
    assert renamed == [(0, "shard", "shard-3")]  # as soon as there was another
    assert [stages.label(at) for at in range(4)] == ["shard-3", "shard", "shard-4", "shard-2"]


def test_of_queues_of_several_lines_who_comes_later_has_the_next_number(names: ModuleType) -> None:
    stages = names.Stages()
    role = names.role_of("Thread-1 (shard)", "shard")
    queues = ("hot (feed.py:3)", "cold (feed.py:4)", "mild (feed.py:5)")
    told = [stages.name(at, role, name, False, names.lane_of(name)) for at, name in enumerate(queues)]
    assert told == ["shard", "shard-2", "shard-3"]
