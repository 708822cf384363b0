# Signatures of types that are written against the C API, for tools/stubs.py: mend them here, not in the .pyi.
^latlab\._core\.stubs_replay\.Component$:
    \from collections.abc import Callable
    \from typing import Any
    class Component:
        """Stands in for a component: calls the original, or hands out what was recorded."""

        def __init__(self, function: Callable[..., Any], hook: object) -> None: ...

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

        def latlab_set_mode(self, mode: int, factor: float, delay_ns: int, idle: bool, released: bool, simulate: bool, /) -> None: ...

        def latlab_set_study(self, work_per_ns: float, wait: float, marking: bool, opening: bool, timing: bool, period: int, /) -> None:
            """Stubs of so much work a ns (0: until a deadline) and such a part of the waits, what is kept, the factor's working period."""

        def latlab_marks(self) -> bytes:
            """Begin and end of each call, or the begin of the first one, ns on CLOCK_MONOTONIC as int64."""

        def latlab_set_sequences(self, sequences: list[tuple[list[Any], bytes]], /) -> None:
            """Recorded values, one (list, kinds) a thread."""

        def latlab_set_times(self, times: list[bytes], /) -> None:
            """Times to simulate: for each sequence (busy_ns, blocked_ns) as int64."""

        def latlab_times(self) -> list[bytes]:
            """Measured times: for each sequence (busy_ns, blocked_ns) as int64."""

        def latlab_spent(self) -> list[bytes]:
            """What stubs took, where that was measured: as times()."""

        def latlab_call_spans(self) -> bytes:
            """Of each measured call: sequence, thread id, begin and end in ns on CLOCK_MONOTONIC, as int64."""

        def latlab_spans(self) -> list[tuple[int, int, int]]:
            """For each sequence the begin of its first and the end of its last call, and what was lost, ns."""

        def latlab_mark(self) -> int:
            """The counter at a call's entry, for spend()."""

        def latlab_spend(self, mark: int, /) -> None:
            """Simulate the time of a call that began at a mark."""

        def latlab_set_looks(self, quiet: int, reaches: bool, /) -> None:
            """A recording looks at calls after the first `quiet`, where `reaches`."""

        def latlab_take(self, thread: int, reserved: int, /) -> tuple[bytes, int, int, int]:
            """What a thread kept and is not written: its bytes, values, the first one's number, the next number."""

        def latlab_harmless(self) -> int:
            """Recorded calls that could change nothing."""

        def latlab_inside(self) -> int:
            """Ns spent within the stub where it simulated no time."""

        def latlab_calls(self) -> int:
            """Calls since the mode was set."""

        def latlab_left(self) -> int:
            """Recorded values that were not handed out."""
