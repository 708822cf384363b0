"""What a test of `pytest --latlab` calls: the API of pytest-benchmark's fixture."""

from __future__ import annotations

import functools
import importlib
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from latlab.model.bench import Sample

__all__ = ["Benchmark", "FixtureAlreadyUsed"]

# Options of a test's marker that would change the result; latlab settles itself how often and how long.
_UNHEEDED = {"timer", "cprofile_loops", "cprofile_dump"}
_SECONDS = 1.0


class FixtureAlreadyUsed(RuntimeError):
    """A test measured twice."""


class Benchmark:
    """What a test calls: benchmark(function, *args, **kwargs), or benchmark.pedantic(...).

    Attributes:
        name: of the test.
        fullname: its path and name.
        group: of benchmarks that are shown together.
        extra_info: whatever the test wants to keep with its result.
        param: the parameters' text of the test's name.
        params: the parameters.
        unheeded: options of the test's marker that are pytest-benchmark's alone.
        stats: what was measured, once it was.
        disabled: whether it calls the function once and measures nothing.
        has_error: whether what was measured raised.
        cprofile: whether it profiles one more call.
        cprofile_stats: that profile.
    """

    cprofile_stats: Any = None

    def __init__(
        self, request: pytest.FixtureRequest, seconds: float | None, *, disabled: bool = False
    ) -> None:
        self.name: str = request.node.name
        self.fullname: str = request.node.nodeid
        marker = request.node.get_closest_marker("benchmark")
        options: Mapping[str, Any] = {} if marker is None else marker.kwargs
        self.group: str | None = options.get("group")
        call = getattr(request.node, "callspec", None)
        self.param: str | None = None if call is None else call.id
        self.params: dict[str, Any] | None = None if call is None else dict(call.params)
        self.extra_info: dict[str, Any] = {}
        self.disabled, self.has_error, self.skipped = disabled, False, False
        self.unheeded = sorted({*options} & _UNHEEDED)
        self.sample: Sample | None = None
        self.stats: _Stats | None = None
        self._seconds = seconds or float(options.get("max_time") or _SECONDS)
        self._fewest = int(options.get("min_rounds") or 0)
        self.cprofile = bool(options.get("cprofile"))
        self._mode = ""
        self._woven: list[Callable[[], None]] = []

    @property
    def enabled(self) -> bool:
        """Whether it measures."""
        return not self.disabled

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Measure calls of a function; what it returned last."""
        return self._used("benchmark(...)", lambda: self._measured(function, args, kwargs))

    def _used(self, mode: str, measure: Callable[[], Any]) -> Any:
        """What a measurement returns, which is the test's only one."""
        try:
            if self._mode:
                raise FixtureAlreadyUsed(
                    f"the benchmark fixture is used once a test; this one used {self._mode}"
                )
            self._mode = mode
            return measure()
        except Exception:
            self.has_error = True
            raise

    def _measured(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        from latlab.bench import measure_call

        if self.disabled:
            return function(*args, **kwargs)
        call = functools.partial(function, *args, **kwargs) if args or kwargs else function
        result, sample = measure_call(call, seconds=self._seconds, fewest=self._fewest)
        self._keep(sample)
        return self._profiled(call) if self.cprofile else result

    def _profiled(self, call: Callable[[], Any]) -> Any:
        """What one more call returns."""
        import cProfile
        import pstats

        profile = cProfile.Profile()
        result = profile.runcall(call)
        self.cprofile_stats = pstats.Stats(profile)
        return result

    def pedantic(
        self,
        target: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        setup: Callable[[], Any] | None = None,
        teardown: Callable[..., Any] | None = None,
        rounds: int = 1,
        warmup_rounds: int = 0,
        iterations: int = 1,
    ) -> Any:
        """Measure the given number of rounds and of calls in each; what the last call returned."""
        keywords = dict(kwargs or {})
        for name, number, least in (
            ("rounds", rounds, 1), ("iterations", iterations, 1), ("warmup_rounds", warmup_rounds, 0),
        ):  # fmt: skip
            if not isinstance(number, int) or number < least:
                raise ValueError(f"{name} is a whole number of {least} or more, not {number!r}")
        if setup is not None and iterations != 1:
            raise ValueError("with a setup there is one iteration")

        def made() -> Any:
            given = None if setup is None else setup()
            if given and (args or keywords):
                raise TypeError("the arguments come from the setup or by args and kwargs, not from both")
            return given or None

        def once() -> Any:
            positional, named = made() or (args, keywords)
            result = target(*positional, **named)
            if teardown is not None:
                teardown(*positional, **named)
            return result

        def measure() -> Any:
            from latlab.bench import measure_rounds

            if self.disabled:
                return once()
            result, sample = measure_rounds(
                target, args, keywords, rounds=rounds, iterations=iterations, warmup=warmup_rounds,
                set_up=None if setup is None else made, tear_down=teardown,
            )  # fmt: skip
            self._keep(sample)
            # The result is that of a call of its own, as it is there: tests count calls.
            if self.cprofile:
                return self._profiled(once)
            return once() if iterations > 1 else result

        return self._used("benchmark.pedantic(...)", measure)

    def weave(self, target: Any, **options: Any) -> None:
        """Measure the first call of a function that something else makes, until the test ends.

        Args:
            target: a function, or the dotted name of one; with aspectlib installed, all that it weaves.
            options: of aspectlib.
        """
        found = None if options else _place_of(target)
        if found is None:
            try:
                aspectlib = importlib.import_module("aspectlib")
            except ImportError:
                raise TypeError(
                    f"weave takes a function or its dotted name, not {target!r}; "
                    "pip install aspectlib for others"
                ) from None
            self._woven.append(aspectlib.weave(target, self._around, **options).rollback)
            return
        owner, name = found
        before = vars(owner).get(name, getattr(owner, name))
        own = name in vars(owner)
        function = before.__func__ if isinstance(before, (staticmethod, classmethod)) else before
        woven = self._around(function)
        setattr(owner, name, type(before)(woven) if function is not before else woven)
        self._woven.append(lambda: setattr(owner, name, before) if own else delattr(owner, name))

    patch = weave

    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            return self(function, *args, **kwargs)

        return measured

    def unweave(self) -> None:
        """Put back what was woven."""
        while self._woven:
            self._woven.pop()()

    def _keep(self, sample: Sample) -> None:
        self.sample, self.stats = sample, _Stats(sample, self)


def _place_of(target: Any) -> tuple[Any, str] | None:
    """(module or class, name in it) of a function or of its dotted name; None of anything else."""
    if isinstance(target, types.FunctionType | types.BuiltinFunctionType) and target.__module__:
        target = f"{target.__module__}.{target.__qualname__}"
        if "<locals>" in target:
            return None
    if not isinstance(target, str):
        return None
    parts = target.split(".")
    for length in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[:length])
        try:
            owner: Any = sys.modules.get(name) or importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        for part in parts[length:-1]:
            owner = getattr(owner, part)
        return (owner, parts[-1]) if callable(getattr(owner, parts[-1])) else None
    raise ModuleNotFoundError(f"no module of {target!r} can be imported")


class _Stats:
    """What was measured, in seconds and by the names that pytest-benchmark gives it."""

    def __init__(self, sample: Sample, of: Benchmark) -> None:
        import numpy as np

        self.name, self.fullname, self.group = of.name, of.fullname, of.group
        self.param, self.params, self.extra_info = of.param, of.params, of.extra_info

        data = sample.times_ns * 1e-9
        self.data: list[float] = data.tolist()
        self.min, self.max = float(data.min()), float(data.max())
        self.mean, self.median = float(data.mean()), float(np.median(data))
        self.stddev = float(data.std(ddof=1)) if len(data) > 1 else 0.0
        self.q1, self.q3 = (float(q) for q in np.quantile(data, (0.25, 0.75)))
        self.iqr = self.q3 - self.q1
        low, high = self.q1 - 1.5 * self.iqr, self.q3 + 1.5 * self.iqr
        self.ld15iqr, self.hd15iqr = float(data[data >= low].min()), float(data[data <= high].max())
        self.iqr_outliers = int(((data < low) | (data > high)).sum())
        self.stddev_outliers = int((np.abs(data - self.mean) > self.stddev).sum())
        self.outliers = f"{self.stddev_outliers};{self.iqr_outliers}"
        self.rounds, self.iterations = len(data), sample.batch
        self.total, self.ops = float(data.sum()), 1 / self.mean

    @property
    def stats(self) -> _Stats:
        """Itself: pytest-benchmark has one object within another."""
        return self

    def as_dict(self) -> dict[str, Any]:
        """What was measured by its names, without the single times."""
        return {name: value for name, value in vars(self).items() if isinstance(value, (int, float, str))}

    def __getitem__(self, name: str) -> Any:
        """stats["mean"], as pytest-benchmark has it."""
        if name.startswith("_") or not hasattr(self, name):
            raise KeyError(name)
        return getattr(self, name)
