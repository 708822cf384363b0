"""Counts a Python program's queues from within, by the standard library alone, for CPython 3.8 and later."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # of typing: importing that takes longer than all of ours
if TYPE_CHECKING:
    from typing import Any

__all__ = ["install"]

#: Modules whose classes are changed once they are loaded, and never loaded for that.
_PATCHES = {
    "queue": ("simple", "patch_queue"),
    "threading": ("semaphores", "patch_semaphores"),
    "asyncio.locks": ("tasks", "patch_locks"),
    "asyncio.queues": ("tasks", "patch_queues"),
    "multiprocessing.queues": ("processes", "patch_queues"),
    "multiprocessing.pool": ("processes", "patch_pool"),
}


class _Loader:
    """Loads as the module's own loader does, and patches what was loaded."""

    def __init__(self, own: Any, patch: Any) -> None:
        self._own = own
        self._patch = patch

    def __getattr__(self, name: Any) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: Any) -> Any:
        return self._own.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._own.exec_module(module)
        module.__loader__ = module.__spec__.loader = self._own
        _apply(self._patch, module)


class _Finder:
    """Finds a wanted module as always, with a loader that patches it."""

    def __init__(self, wanted: Any) -> None:
        self._wanted = wanted

    def find_spec(self, fullname: Any, path: Any = None, target: Any = None) -> Any:
        patch = self._wanted.pop(fullname, None)
        if patch is None:
            return None
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, patch)  # type: ignore[assignment]
                return spec
        return None


def _apply(patch: Any, module: Any) -> None:
    import importlib

    try:
        if patch[0] not in _LATER:
            ready()
        owner = importlib.import_module("." + patch[0], __name__)
        getattr(owner, patch[1])(module)
    except Exception:  # noqa: BLE001, S110
        pass  # an interpreter whose module looks otherwise: its queues stay as they are


_where: list[str] = []
_LATER = (
    "semaphores",
)  # of a module that nearly every program loads: they do so with the first that is made


def ready() -> None:
    """Load what counts."""
    from . import counter_file

    counter_file.set_up(*_where)


def install(layout: Any, folder: Any) -> None:
    """Begin; the rest of this package is loaded with the first module that has queues.

    Args:
        layout: path of the file that says where everything stands in a counter file.
        folder: in which the counter file is made, once there is a queue to publish.
    """
    _where[:] = [layout, folder]
    wanted = {}
    for name, patch in _PATCHES.items():
        if name in sys.modules:
            _apply(patch, sys.modules[name])
        else:
            wanted[name] = patch
    sys.meta_path.insert(0, _Finder(wanted))
