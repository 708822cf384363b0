"""What the declarations of products' clients in native/plugins are held against: the installed headers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_PLUGINS = Path(__file__).parents[2] / "native" / "plugins"


def compiles(program: str, header: str, package: str, folder: Path) -> None:
    """That a compiler takes a program of the plug-ins' headers and a product's own, where both are here."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None or not Path("/usr/include", header).is_file():
        pytest.skip(f"no C++ compiler or no {header} here: apt install g++ {package}")
    source = folder / "same.cpp"
    source.write_text(program)
    folders = [f"-I{_PLUGINS}", f"-I{_PLUGINS.parents[1] / 'include'}"]
    done = subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", *folders, str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
