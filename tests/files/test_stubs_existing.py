"""A component that is named but isn't there, told before anything runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from latlab.cli import main
from latlab.errors import InputError
from latlab.stubs import require_component
from latlab.stubs.studies.existing import component_at

WORK = "class Book:\n    def add(self):\n        return 1\n\ndef price():\n    raise SystemExit('it ran')\n"


@pytest.fixture
def app(tmp_path: Path) -> list[str]:
    package = tmp_path / "firm" / "pricing"
    package.mkdir(parents=True)
    for init in (package, package.parent):
        (init / "__init__.py").write_text("raise SystemExit('it ran')\n")
    (package / "work.py").write_text(WORK)
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "app.py").write_text("import work\nwork.price()\n")
    return [sys.executable, "-u", str(tmp_path / "app.py")]


@pytest.mark.parametrize(
    ("component", "said"),
    [
        ("nomodule:nofunc", "there is no module 'nomodule'"),
        ("firm.nothing:f", "there is no module 'firm.nothing'"),
        ("firm.pricing.work:cost", "there is no 'cost' in "),
        ("work:Boook.add", "there is no 'Boook' in "),
    ],
)
def test_what_is_not_there_is_named_by_file_and_key(app: list[str], component: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        require_component(component, app, "q.toml", "diagnose.components.store")

    assert str(refused.value).startswith(f"q.toml: diagnose.components.store: {said}")
    assert "name what the stage calls as module:function" in str(refused.value)


@pytest.mark.parametrize(
    "component",
    [
        *("work:price", "work:Book.add", "firm.pricing.work:price", "os.path:join", "math:sqrt"),
        *("json:dumps", "__main__:run", "a name of its own", "book-1"),
    ],
)
def test_what_is_there_or_cannot_be_known_is_let_pass_and_nothing_of_it_runs(
    app: list[str], component: str
) -> None:
    require_component(component, app, "q.toml", "component")


@pytest.mark.parametrize(
    "program", ["import sys\nsys.path.insert(0, 'lib')\n", "@component('no.module:f')\ndef f(): pass\n"]
)
def test_a_program_that_finds_or_names_its_components_itself_is_believed(
    tmp_path: Path, program: str
) -> None:
    (tmp_path / "app.py").write_text(program)

    require_component("no.module:f", [sys.executable, str(tmp_path / "app.py")], "q.toml", "component")


@pytest.mark.parametrize("command", [["sh", "-c", "true"], ["no-such-program"], [], [sys.executable]])
def test_of_other_commands_nothing_is_known(command: list[str]) -> None:
    require_component("no.module:f", command, "q.toml", "component")


def test_a_module_is_looked_for_as_python_m_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work.py").write_text(WORK)
    command = [sys.executable, "-X", "dev", "-m", "app"]
    monkeypatch.chdir(tmp_path)
    require_component("work:price", command, "q.toml", "component")

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="there is no module 'work'"):
        require_component("work:price", command, "q.toml", "component")


def test_a_study_of_nothing_ends_before_its_first_run(
    app: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "study.toml"
    plan.write_text('component = "nomodule:nofunc"\n')
    with pytest.raises(SystemExit) as left:
        main(["stubs", "study", str(plan), "--", *app])

    assert left.value.code == 1
    assert f"{plan}: component: there is no module 'nomodule'" in capsys.readouterr().err


PLACES = """\
import functools


def main():
    def inner():
        return 1
    return inner()


class Book:
    @functools.cache
    def add(self):
        return [n for n in range(9)]

    class Level:
        def take(self):
            return 2


def feed():
    yield 1


async def served():
    return 3


print(main())
"""


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (7, "main"), (13, "Book.add"), (11, ""), (17, "Book.Level.take"),
        (6, ""), (21, ""), (25, ""), (28, ""), (99, ""),
    ],
)  # fmt: skip
def test_a_place_in_the_code_is_a_component_where_a_stub_can_stand_for_it(
    line: int, named: str, tmp_path: Path
) -> None:
    file = tmp_path / "app.py"
    file.write_text(PLACES)
    assert component_at(str(file), line) == (f"app:{named}" if named else "")


def test_a_place_in_a_package_is_named_as_it_is_imported(tmp_path: Path) -> None:
    package = tmp_path / "firm" / "pricing"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text(WORK)
    for name in ("work", "__main__"):
        (package / f"{name}.py").write_text(WORK)
    assert component_at(str(package / "work.py"), 3) == "firm.pricing.work:Book.add"
    assert component_at(str(package / "__init__.py"), 6) == "firm.pricing:price"
    assert component_at(str(package / "__main__.py"), 6) == "__main__:price"


@pytest.mark.parametrize("text", [None, "def broken(:", "\0"])
def test_what_is_no_python_has_no_component(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "app.py").write_text(text)
    assert component_at(str(tmp_path / "app.py"), 1) == ""
    assert component_at("/usr/bin/env", 1) == ""
    assert component_at("", 0) == ""


def test_what_is_named_of_a_script_in_a_package_can_be_studied(tmp_path: Path) -> None:
    """The script's folder is where modules are looked for, so that its package isn't found from there."""
    package = tmp_path / "firm"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "app.py").write_text(WORK)
    command = [sys.executable, str(package / "app.py")]
    named = component_at(str(package / "app.py"), 3)
    assert named == "firm.app:Book.add"
    require_component(named, command, "here", "component")
    with pytest.raises(InputError, match="there is no 'Level'"):
        require_component("firm.app:Level.add", command, "here", "component")
    with pytest.raises(InputError, match=r"there is no module 'firm\.other'"):
        require_component("firm.other:price", command, "here", "component")
