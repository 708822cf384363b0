"""Who imports whom, beyond what import-linter says: no private module of another package, and no circles."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import latlab

ROOT = Path(latlab.__file__).parent
_COMPILED = {"_core", "_build"}  # of the whole house: the layers of import-linter say who may


def modules() -> dict[str, Path]:
    """Every module of the house by its name; a package by its own."""
    found = {}
    for path in ROOT.rglob("*.py"):
        if "_inject" in path.parts:  # runs in other people's interpreters, as a package of its own
            continue
        parts = [ROOT.name, *path.relative_to(ROOT).with_suffix("").parts]
        found[".".join(parts[:-1] if path.stem == "__init__" else parts)] = path
    return found


def imported(tree: ast.AST) -> Iterator[str]:
    """What a module imports when it runs, within functions too; not what is for its types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            yield from (name for other in node.orelse for name in imported(other))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are written out"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from imported(node)


@cache
def arrows() -> dict[str, set[str]]:
    """Which modules of the house each one imports."""
    known = modules()
    found = {}
    for name, path in known.items():
        named = {
            one for one in imported(ast.parse(path.read_text(encoding="utf-8"))) if one.startswith("latlab")
        }
        found[name] = {one if one in known else one.rpartition(".")[0] for one in named} - {name}
    return found


def test_a_private_module_is_imported_inside_its_own_package_only() -> None:
    strangers = []
    for name, others in arrows().items():
        for other in others:
            parts = other.split(".")
            for depth, part in enumerate(parts[1:], 1):
                owner = ".".join(parts[:depth])
                if part.startswith("_") and part not in _COMPILED and not f"{name}.".startswith(f"{owner}."):
                    strangers.append(f"{name} imports {other}")
    assert strangers == []


def test_imports_go_in_no_circle() -> None:
    known = modules()
    graph = {name: {one for one in others if one in known} for name, others in arrows().items()}
    assert len(graph) > 500
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" → ".join(error.args[1])) from None


def test_a_circle_within_functions_is_found_and_one_of_types_is_none() -> None:
    source = "if TYPE_CHECKING:\n    import a\ndef f():\n    from b import c\n"
    assert list(imported(ast.parse(source))) == ["b.c"]


def test_a_program_is_diagnosed_without_the_market_and_the_demonstration() -> None:
    program = "import sys, latlab.cli.diagnose, latlab.lab.diagnosis.diagnose; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "latlab.lab.diagnosis.applications.program" in loaded
    assert [name for name in loaded if name.startswith(("latlab.market", "latlab.lab.trading"))] == []
