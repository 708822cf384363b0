from __future__ import annotations

import subprocess
import sys
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
