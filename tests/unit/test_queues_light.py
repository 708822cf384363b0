from __future__ import annotations

import json
import subprocess
import sys

import pytest

import latlab.queues


def _loaded(statement: str) -> list[str]:
    """The modules that a statement loads into a new interpreter."""
    program = f"import sys; before = set(sys.modules); {statement}; after = set(sys.modules); import json; "
    program += "print(json.dumps(sorted(after - before)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def test_an_application_that_may_instrument_its_queues_loads_hardly_anything() -> None:
    loaded = _loaded("from latlab.queues import instrument")
    assert len(loaded) <= 10, loaded
    assert not any(name.startswith("latlab._core") for name in loaded)


def test_an_application_that_instruments_its_queues_loads_few_modules() -> None:
    loaded = _loaded("import queue; from latlab.queues import instrument; instrument(queue.Queue())")
    ours = [name for name in loaded if name.partition(".")[0] == "latlab"]
    assert len(ours) <= 10, ours
    heavy = {"numpy", "pyarrow", "asyncio", "multiprocessing", "concurrent", "typing", "re", "pathlib"}
    assert not heavy & {name.partition(".")[0] for name in loaded}


@pytest.mark.parametrize("module", ["asyncio", "concurrent.futures", "multiprocessing"])
def test_what_an_application_has_not_loaded_is_not_loaded_for_it(module: str) -> None:
    loaded = _loaded("import queue; from latlab.queues import instrument; instrument(queue.Queue())")
    assert module not in loaded


@pytest.mark.parametrize("name", latlab.queues.__all__)
def test_each_public_name_is_found_where_it_stands(name: str) -> None:
    found = getattr(latlab.queues, name)
    assert getattr(found, "__name__", name) == name


def test_a_name_that_there_is_not_is_refused_as_python_does() -> None:
    with pytest.raises(AttributeError, match=r"latlab\.queues.*instrumnet"):
        latlab.queues.instrumnet  # noqa: B018


def test_a_phase_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="'begun' is not a phase"):
        latlab.queues.set_phase("begun")
