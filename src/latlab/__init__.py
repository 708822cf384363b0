"""latlab: a latency laboratory."""

from __future__ import annotations

from pathlib import Path

__all__ = ["__version__", "get_cmake_dir", "get_include"]

__version__ = "0.1.0"


def get_include() -> str:
    """The folder that holds the C++ headers, for a compiler's ``-I``."""
    return str(Path(__file__).parent / "include")


def get_cmake_dir() -> str:
    """The folder that holds latlab's CMake package, for ``-Dlatlab_DIR=``."""
    return str(Path(__file__).parent / "lib" / "cmake" / "latlab")
