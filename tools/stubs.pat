# Signatures of types that are written against the C API, for tools/stubs.py.
^latlab\._core\.stubs_replay\.Component$:
    \from collections.abc import Callable
    \from typing import Any
    class Component:
        """Stands in for a component: calls the original, or hands out what was recorded."""

        def __init__(self, function: Callable[..., Any], hook: object) -> None: ...

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

        def set_mode(self, mode: int, factor: float, delay_ns: int, idle: bool, released: bool, simulate: bool, /) -> None: ...

        def set_sequences(self, sequences: list[tuple[list[Any], bytes]], /) -> None:
            """Recorded values, one (list, kinds) a thread."""

        def set_times(self, times: list[tuple[int, int]], /) -> None:
            """(busy_ns, blocked_ns) of each call, to be simulated."""

        def times(self) -> list[tuple[int, int]]:
            """(busy_ns, blocked_ns) of each measured call."""

        def calls(self) -> int:
            """Calls since the mode was set."""

        def left(self) -> int:
            """Recorded values that were not handed out."""
