"""Stands first on the path of a Python program under study: patches components as their modules come in.

The program's own start must not change, so nothing is imported here that the interpreter hasn't loaded
already: no pathlib, and no importlib.abc, which alone takes longer than the rest.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing takes longer to import than all the rest
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

_HERE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120


# As in stub_engine.hpp and plan.py; nothing that knows them is imported yet.
_HEAD = "latlab-stubs-plan 3"
_FILES = "files"


def _refuse(what: str) -> None:
    """End the program with one line: of an exit from here the interpreter would show how it came to it."""
    sys.stderr.write(f"latlab: {what}\n")
    sys.stderr.flush()
    os._exit(1)


def _next_sitecustomize() -> None:
    """Run the site's own sitecustomize, which this file hides."""
    from importlib.machinery import PathFinder

    paths = [path for path in sys.path if os.path.realpath(path) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        spec.loader.exec_module(module_from_spec(spec))


def _patch(components: list[str], module: object = None) -> None:
    try:
        from latlab.stubs.components.registry import patch
    except ImportError as error:
        # A program of another environment finds latlab here, and not what was compiled for another Python.
        version = ".".join(map(str, sys.version_info[:2]))
        _refuse(f"the program runs Python {version}, for which latlab is not built ({error})")
    for component in components:
        patch(component, module)


class _Loader:
    """Loads as the module's own loader does, and patches what was loaded."""

    def __init__(self, own: object, components: list[str]) -> None:
        self._own = own
        self._components = components

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)

    def create_module(self, spec: object) -> object:
        return self._own.create_module(spec)  # type: ignore[attr-defined]

    def exec_module(self, module: object) -> None:
        self._own.exec_module(module)  # type: ignore[attr-defined]
        _patch(self._components)


class _Finder:
    """Finds a wanted module as always, with a loader that patches it."""

    def __init__(self, wanted: dict[str, list[str]]) -> None:
        self._wanted = wanted

    def find_spec(self, fullname: str, path: object, target: object = None) -> object:
        components = self._wanted.pop(fullname, None)
        if components is None:
            return None
        mine: object = self
        for finder in sys.meta_path:
            if finder is mine or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)  # type: ignore[arg-type]
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, components)  # type: ignore[assignment]
                return spec
        return None


# The script in which a component was found: processes that are spawned load it, by another name.
_SCRIPT = "LATLAB_STUBS_SCRIPT"
_MAIN, _SPAWNED = "__main__", "__mp_main__"


def _stem(name: str) -> str:
    """What a script or a module is called in the end: "app" of "tools/app.py" and of "tools.app"."""
    # Not by os.path: its functions may be components, and these calls not the program's.
    return name.rpartition("/")[2].removesuffix(".py").rpartition(".")[2]


class _Script:
    """Patches components in the script itself, which no import brings in: each as soon as it was defined.

    Only the script's own lines are followed, until all are found; its calls run as always.
    """

    def __init__(self, wanted: dict[str, list[str]]) -> None:
        words = sys.orig_argv[1:]
        spawned = "--multiprocessing-fork" in words
        known = (
            {os.environ.get(_SCRIPT, "")} if spawned else {_stem(word) for word in words if word[:1] != "-"}
        )
        self._name = _SPAWNED if spawned else _MAIN
        mine = [one for one in wanted if (known if one == _MAIN else _stem(one) in known)]
        self._left = [name for one in mine for name in wanted[one]]
        if self._left:
            sys.settrace(self.called)

    def called(self, frame: FrameType, event: str, given: Any) -> Any:
        """Wait for the script to begin."""
        if frame.f_code.co_name != "<module>" or frame.f_globals.get("__name__") != self._name:
            return None
        stem = _stem(frame.f_code.co_filename)
        self._left = [
            name
            for name in self._left
            if _stem(name.partition(":")[0]) in (_MAIN, stem) and _first(name) in frame.f_code.co_names
        ]
        if not self._left:
            sys.settrace(None)
            return None
        os.environ[_SCRIPT] = stem
        return self.ran

    def ran(self, frame: FrameType, event: str, given: Any) -> Any:
        """Look after each line for what it defined."""
        found = [name for name in self._left if _first(name) in frame.f_globals]
        if found:
            self._left = [name for name in self._left if name not in found]
            if not self._left:
                sys.settrace(None)
            try:
                _patch(found, sys.modules.get(self._name))
            except Exception as error:  # noqa: BLE001  # the program would go on, and say nothing of it
                _refuse(f"{error}")
        return self.ran if self._left else None


def _first(name: str) -> str:
    """The function of a component, or the class."""
    return name.partition(":")[2].partition(".")[0]


def _note_files(state: str) -> None:
    """Note what this process and its children open to write: what they leave there is compared."""
    seen: set[str] = set()

    def note(path: object) -> None:
        if isinstance(path, int):
            return
        name = os.path.abspath(os.fsdecode(path))  # type: ignore[arg-type]  # noqa: PTH100
        if name in seen or name.startswith(("/dev/", "/proc/", "/sys/", state)) or "__pycache__" in name:
            return
        seen.add(name)
        kept = os.open(f"{state}/{_FILES}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        os.write(kept, os.fsencode(name) + b"\0")
        os.close(kept)

    def heard(event: str, given: tuple[object, ...]) -> None:
        if event == "open":
            if isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                note(given[0])
        elif event == "os.rename":
            note(given[1])

    sys.addaudithook(heard)


def _install() -> None:
    path = os.environ.get("LATLAB_STUBS_PLAN")
    if not path:
        return
    wanted: dict[str, list[str]] = {}
    with open(path, encoding="utf-8") as file:
        head, *lines = file.read().splitlines()
        if head != _HEAD:
            _refuse(f"{path}: is a plan of another version ({head!r}, and {_HEAD!r} is read)")
        for line in lines:
            *_, flags, state, name = line.split("\t", 5)
            if {"watch", "told"} & set(flags.split(",")):
                _note_files(state)
            module, separator, _ = name.partition(":")
            if separator:
                wanted.setdefault(module, []).append(name)
    if any(name.partition(".")[0] in sys.stdlib_module_names for name in wanted.keys() - sys.modules.keys()):
        # What patches may need that module itself: it can't come in while the module does.
        import latlab.stubs.components.registry  # noqa: F401
    for name in wanted.keys() & sys.modules.keys() - {"__main__"}:
        try:
            _patch(wanted.pop(name))
        except Exception as error:  # noqa: BLE001  # the interpreter would go on, and say nothing of it
            _refuse(f"{error}")
    _Script(wanted)
    if wanted:
        sys.meta_path.insert(0, _Finder(wanted))  # type: ignore[arg-type]


_install()
_next_sitecustomize()
