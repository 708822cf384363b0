"""latlab: find out where a program's latency comes from, and how much a fix would gain."""

from __future__ import annotations

import os

__all__ = ["__version__", "diagnose", "get_cmake_dir", "get_include"]

__version__ = "1.0.0rc1"

# No pathlib: this is imported by programs under study, whose start must hardly change.
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120


_DOMAINS = ("bench", "jitter", "market", "messaging", "queues", "requests", "stubs")


def get_include() -> str:
    """The folder that holds the C++ headers, for a compiler's ``-I``."""
    return os.path.join(_HERE, "include")  # noqa: PTH118


def get_cmake_dir() -> str:
    """The folder that holds latlab's CMake package, for ``-Dlatlab_DIR=``."""
    return os.path.join(_HERE, "lib", "cmake", "latlab")  # noqa: PTH118


def __getattr__(name: str) -> object:  # types: __init__.pyi
    """The functions of `latlab.api`, imported when they are first asked for; the domains likewise."""
    from importlib import import_module

    if name == "diagnose":
        return import_module("latlab.api").diagnose
    if name in _DOMAINS:
        return import_module(f"latlab.{name}")
    raise AttributeError(f"module 'latlab' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What completion offers: also what isn't imported yet."""
    return sorted({*__all__, *_DOMAINS})
