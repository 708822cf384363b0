from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import latlab

ROOT = Path(__file__).parents[2]


def test_the_committed_type_stubs_are_those_of_the_compiled_modules() -> None:
    command = [sys.executable, "tools/stubs.py", "--check", "src/latlab/_core"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_tests_run_against_the_installed_package_and_not_the_source_tree() -> None:
    assert ROOT / "src" not in Path(latlab.__file__).parents


def test_a_separate_cmake_project_builds_and_runs_against_the_installed_headers(tmp_path: Path) -> None:
    cmake = str(Path(sys.executable).parent / "cmake")
    ninja = str(Path(sys.executable).parent / "ninja")
    configure = [cmake, "-S", str(ROOT / "native/consumer"), "-B", str(tmp_path), "-G", "Ninja"]
    configure += [f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-Dlatlab_DIR={latlab.get_cmake_dir()}"]
    for command in (configure, [cmake, "--build", str(tmp_path)], [str(tmp_path / "consumer")]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "put in 1000, taken out 1000, sum 499500\n"


def test_the_version_names_its_commit_and_its_build() -> None:
    command = [sys.executable, "-m", "latlab", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    pattern = r"latlab \S+ \(commit (\w+\+?|unknown); built by \w+ [\d.]+, \w+, \w+; CPython [\d.]+\)\n"
    assert re.fullmatch(pattern, said)
    assert said.startswith(f"latlab {latlab.__version__} ")


def test_the_package_carries_the_licences_and_the_bill_of_what_is_bundled() -> None:
    files = {str(path) for path in distribution("latlab").files or ()}
    for name in ("LICENSE", "nanobind.txt", "robin-map.txt", "plotly.js.txt"):
        assert [one for one in files if one.endswith(f"/{name}")], name
    bill = next(path for path in distribution("latlab").files or () if path.name == "latlab.cdx.json")
    document = json.loads(bill.read_text())
    assert document["metadata"]["component"]["version"] == latlab.__version__
    assert {"nanobind", "plotly.js", "numpy"} <= {one["name"] for one in document["components"]}


def test_the_version_stands_the_same_in_the_citation() -> None:
    assert f"\nversion: {latlab.__version__}\n" in (ROOT / "CITATION.cff").read_text()
