"""Work that a thread of its own does while a context lasts."""

from __future__ import annotations

import threading
from typing import Any, Self

__all__ = ["Beside"]


class Beside:
    """Runs `_run` in a thread between entering and leaving; it returns once `_ended` is set."""

    def __init__(self, name: str | None = None) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError
