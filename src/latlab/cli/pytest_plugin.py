"""`pytest --latlab`: a fixture `benchmark` that tests written for pytest-benchmark run under unchanged.

Nothing is registered without the option, so that the plug-in disturbs nobody, least of all pytest-benchmark,
whose fixture stays its own then. With it, pytest-benchmark's plug-in is set aside for the run. What is heavy
is imported by the first benchmark.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from latlab.bench import Results
    from latlab.model.bench import Sample

__all__ = ["Benchmark"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, which all begin with --latlab."""
    group = parser.getgroup("latlab", "latlab benchmarks")
    group.addoption("--latlab", action="store_true", help="Measure the tests that use the benchmark fixture.")
    group.addoption(
        "--latlab-seconds", type=float, default=1.0, metavar="S", help="Budget a benchmark. Default: 1."
    )
    group.addoption(
        "--latlab-baseline", type=Path, metavar="FILE", help="Judge against this file; fails if slower."
    )
    group.addoption(
        "--latlab-save-baseline", type=Path, metavar="FILE", help="Add this run to a baseline file."
    )
    group.addoption("--latlab-effect", metavar="PERCENT", help="Smallest effect that matters. Default: 1%%.")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Offer the fixture where --latlab is given."""
    if not config.getoption("--latlab"):
        return
    if config.getoption("numprocesses", None):
        raise pytest.UsageError("--latlab measures one test at a time: leave -n out")
    if config.getoption("--latlab-seconds") <= 0:
        raise pytest.UsageError("--latlab-seconds takes a time above 0")
    for plugin in list(config.pluginmanager.get_plugins()):
        if getattr(plugin, "__name__", "") == "pytest_benchmark.plugin":
            config.pluginmanager.unregister(plugin)
    config.addinivalue_line("markers", "benchmark(group): a benchmark's group and options")
    config.pluginmanager.register(_Session(config), "latlab-benchmarks")


# What of pytest-benchmark's options is honoured; the rest is said to be set aside with its plug-in.
_HONOURED = {"only", "skip", "disable", "enable"}


def _asked_of_other(config: pytest.Config) -> list[str]:
    """The options of pytest-benchmark that were given, wherever, without their values."""
    words = [*config.getini("addopts"), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    words += map(str, config.invocation_params.args)
    return list(dict.fromkeys(w.split("=")[0] for w in words if w.startswith("--benchmark-")))


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
        enabled: whether it measures.
        disabled: whether it calls the function once and measures nothing.
    """

    def __init__(self, request: pytest.FixtureRequest, seconds: float, *, disabled: bool = False) -> None:
        self.name: str = request.node.name
        self.fullname: str = request.node.nodeid
        marker = request.node.get_closest_marker("benchmark")
        self.group: str | None = marker.kwargs.get("group") if marker is not None else None
        call = getattr(request.node, "callspec", None)
        self.param: str | None = None if call is None else call.id
        self.params: dict[str, Any] | None = None if call is None else dict(call.params)
        self.extra_info: dict[str, Any] = {}
        self.enabled, self.disabled = not disabled, disabled
        self.unheeded = [] if marker is None else sorted({*marker.kwargs} - {"group"})
        self.sample: Sample | None = None
        self.stats: _Stats | None = None
        self._seconds = seconds

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Measure calls of a function; what it returned last."""
        from latlab.bench import measure_call

        if self.disabled:
            return function(*args, **kwargs)
        self._once()
        call = functools.partial(function, *args, **kwargs) if args or kwargs else function
        result, sample = measure_call(call, seconds=self._seconds)
        self._keep(sample)
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
        """Measure just so many rounds of so many calls; what the last returned."""
        from latlab.bench import measure_rounds

        if rounds < 1 or iterations < 1 or warmup_rounds < 0:
            raise ValueError("rounds and iterations must be 1 or more, and warmup_rounds 0 or more")
        if setup is not None and (iterations != 1 or args or kwargs):
            raise ValueError("with a setup there is one iteration, and it makes the arguments")
        if self.disabled:
            made = None if setup is None else setup()
            args, kwargs = (args, kwargs) if made is None else made
            result = target(*args, **(kwargs or {}))
            if teardown is not None:
                teardown(*args, **(kwargs or {}))
            return result
        self._once()
        result, sample = measure_rounds(
            target,
            args,
            kwargs or {},
            rounds=rounds,
            iterations=iterations,
            warmup=warmup_rounds,
            set_up=setup,
            tear_down=teardown,
        )
        self._keep(sample)
        return result

    def _once(self) -> None:
        if self.sample is not None:
            raise RuntimeError("the benchmark fixture is used once a test")

    def _keep(self, sample: Sample) -> None:
        self.sample, self.stats = sample, _Stats(sample, self)


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


def _effect(text: str | None) -> float | None:
    """1% or 0.01 as 0.01, before anything is measured."""
    if text is None:
        return None
    import click

    from latlab.cli.kit.options import EFFECT

    try:
        return EFFECT.convert(text, None, None)
    except click.UsageError as error:
        raise pytest.UsageError(f"--latlab-effect: {error.message}") from None


class _Session:
    """The fixture, and what it measured over the session."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.measured: list[Benchmark] = []
        self.lines: list[str] = []
        self.unheeded: list[str] = []  # options of pytest-benchmark
        asked = _asked_of_other(config)
        self.only, self.skip, self.disable = (
            f"--benchmark-{w}" in asked for w in ("only", "skip", "disable")
        )
        self.unheeded += [word for word in asked if word.removeprefix("--benchmark-") not in _HONOURED]
        self.before: Results | None = None
        self.effect = _effect(config.getoption("--latlab-effect"))
        path = config.getoption("--latlab-baseline")
        if path is not None:  # read before anything is measured
            from latlab import bench
            from latlab.errors import LatlabError

            try:
                self.before = bench.load(path)
            except (LatlabError, OSError) as error:
                raise pytest.UsageError(f"--latlab-baseline: {error}") from None
        saved = config.getoption("--latlab-save-baseline")
        if saved is not None and not os.access(saved.absolute().parent, os.W_OK):
            raise pytest.UsageError(f"--latlab-save-baseline {saved}: can't be written")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Skip what --benchmark-only or --benchmark-skip leaves out."""
        for item in items:
            measured = "benchmark" in getattr(item, "fixturenames", ())
            if self.only and not measured:
                item.add_marker(pytest.mark.skip(reason="no benchmark (--benchmark-only)"))
            if self.skip and measured:
                item.add_marker(pytest.mark.skip(reason="a benchmark (--benchmark-skip)"))

    @pytest.fixture
    def benchmark(self, request: pytest.FixtureRequest) -> Iterator[Benchmark]:
        """Measures a function: benchmark(function, *args, **kwargs)."""
        one = Benchmark(request, self.config.getoption("--latlab-seconds"), disabled=self.disable)
        self.unheeded += (f"benchmark({name}=…)" for name in one.unheeded)
        yield one
        if one.sample is not None:
            self.measured.append(one)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Judge, keep, and fail the session where something is slower."""
        if not self.measured:
            return
        from latlab import bench
        from latlab.errors import LatlabError
        from latlab.reports.bench import ci, text

        tests = {one.fullname: [one.sample.times_ns] for one in self.measured if one.sample is not None}
        now = bench.Results("pytest", tests, _environment())
        if self.before is not None:
            judged = bench.compare_results(
                self.before,
                now,
                smallest_effect=self.effect,
                alpha=0.05,
                runs=self.before.runs,
            )
            documents = [text.judgement_json(j, name=n) for n, j in bench.with_discovery_rate(judged).items()]
            self.lines += [f"{d['name']}: {d['verdict']}: {d['why']}" for d in documents]
            self.lines += [f"{name}: not in the baseline" for name in tests if name not in judged]
            if step := os.environ.get("GITHUB_STEP_SUMMARY"):
                with contextlib.suppress(OSError), open(step, "a") as file:
                    file.write(ci.markdown_summary(documents, title="pytest --latlab"))
            if not judged:  # or a baseline of other names would let everything pass
                held = ", ".join(list(self.before.tests)[:3])
                self.lines.append(f"the baseline has none of these benchmarks; it holds {held}")
                session.exitstatus = session.exitstatus or pytest.ExitCode.USAGE_ERROR
            if any(d["verdict"] in ("slower", "mixed") for d in documents) and session.exitstatus == 0:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        saved = self.config.getoption("--latlab-save-baseline")
        if saved is not None:
            try:
                runs = bench.baseline.add(saved, tests, now.environment)
                self.lines.append(f"{saved}: {runs} runs kept" if runs > 1 else f"{saved}: 1 run kept")
            except (LatlabError, OSError) as error:
                self.lines.append(f"{saved}: not written: {error}")
                session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The table, by group."""
        if self.unheeded:
            unheeded = ", ".join(dict.fromkeys(self.unheeded))
            terminalreporter.write_line(
                f"latlab: {unheeded} not honoured: pytest-benchmark is set aside with --latlab; "
                "see pytest --help for --latlab-seconds, --latlab-baseline and --latlab-save-baseline"
            )
        if not self.measured:
            return
        from latlab import words

        groups: dict[str, list[Benchmark]] = {}
        for one in self.measured:
            groups.setdefault(one.group or "benchmarks", []).append(one)
        terminalreporter.section("latlab")
        for name, members in groups.items():
            rows = [
                [
                    one.name,
                    *(
                        words.duration(1e9 * seconds)
                        for seconds in (one.stats.median, one.stats.mean, one.stats.min, one.stats.max)
                    ),
                    words.count(one.stats.rounds),
                ]
                for one in members
                if one.stats is not None
            ]
            columns = ["benchmark", "median", "mean", "least", "most", "rounds"]
            terminalreporter.write_line(words.table(columns, rows, title=name))
        for line in self.lines:
            terminalreporter.write_line(line)


def _environment() -> dict[str, str]:
    from latlab.system.environment import capture

    facts = capture().to_json()["facts"]
    return {name: str(fact["value"]) for name, fact in facts.items() if "value" in fact}
