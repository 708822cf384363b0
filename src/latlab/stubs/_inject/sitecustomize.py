"""Stands first on the path of a Python program under study: patches components as their modules come in."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

_HERE = Path(__file__).resolve().parent


def _next_sitecustomize() -> None:
    """Run the site's own sitecustomize, which this file hides."""
    paths = [path for path in sys.path if Path(path).resolve() != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


class _Loader(importlib.abc.Loader):
    """Loads as the module's own loader does, and patches what was loaded."""

    def __init__(self, own: importlib.abc.Loader, components: list[str]) -> None:
        self._own = own
        self._components = components

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._own.exec_module(module)
        from latlab.stubs._component import patch

        for component in self._components:
            patch(component)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds a wanted module as always, with a loader that patches it."""

    def __init__(self, wanted: dict[str, list[str]]) -> None:
        self._wanted = wanted

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        components = self._wanted.pop(fullname, None)
        if components is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, components)
        return spec


def _install() -> None:
    path = os.environ.get("LATLAB_STUBS_PLAN")
    if not path:
        return
    wanted: dict[str, list[str]] = {}
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines()[1:]:
            name = line.split(" ", 5)[5]
            module, separator, _ = name.partition(":")
            if separator:
                wanted.setdefault(module, []).append(name)
    if wanted:
        sys.meta_path.insert(0, _Finder(wanted))


_install()
_next_sitecustomize()
