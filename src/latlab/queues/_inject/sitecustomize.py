"""Stands first on the path of a Python program that is observed unchanged, and counts its queues.

Everything here runs in the program's own interpreter, any CPython from 3.8 on, with nothing but its standard
library. The program's own start must hardly change, so hardly anything is imported that it hasn't loaded
already. Whatever fails here must not fail there.
"""

from __future__ import annotations

import os
import sys

_HERE = os.path.dirname(os.path.realpath(__file__))


def _leave_path() -> None:
    """The program sees the path that it would have had."""
    sys.path[:] = [path for path in sys.path if os.path.realpath(path or ".") != _HERE]


def _next_sitecustomize() -> None:
    """Run the site's own sitecustomize, which this file hides."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _install() -> None:
    layout = os.environ.get("LATLAB_INJECT")
    folder = os.environ.get("LATLAB_COUNTERS")
    if not layout or not folder or folder == "off":
        return
    try:
        import latlab_injected  # type: ignore[import-not-found]

        latlab_injected.install(layout, folder)
    except Exception as error:  # noqa: BLE001
        if os.environ.get("LATLAB_INJECT_DEBUG"):
            sys.stderr.write("latlab: this program's queues aren't counted: %r\n" % (error,))


_install()
_leave_path()
_next_sitecustomize()
