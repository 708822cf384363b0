"""`pytest --latlab`: a fixture `benchmark` that tests written for pytest-benchmark run under unchanged.

Nothing is registered without the option, so that the plug-in disturbs nobody, least of all pytest-benchmark,
whose fixture stays its own then. With it, pytest-benchmark's plug-in is set aside for the run. What is heavy
is imported by the first benchmark.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from latlab.bench import Results
    from latlab.cli.pytest_fixture import Benchmark


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, which all begin with --latlab."""
    group = parser.getgroup("latlab", "latlab benchmarks")
    group.addoption("--latlab", action="store_true", help="Measure the tests that use the benchmark fixture.")
    group.addoption(
        "--latlab-seconds", type=float, metavar="S", help="Budget a benchmark. Default: its max_time, or 1."
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
    given = config.getoption("--latlab-seconds")
    if given is not None and given <= 0:
        raise pytest.UsageError("--latlab-seconds takes a time above 0")
    for plugin in list(config.pluginmanager.get_plugins()):
        if getattr(plugin, "__name__", "") == "pytest_benchmark.plugin":
            config.pluginmanager.unregister(plugin)
    _offer_hooks(config.pluginmanager)
    config.addinivalue_line("markers", "benchmark(group): a benchmark's group and options")
    config.pluginmanager.register(_Session(config), "latlab-benchmarks")


# Hooks of pytest-benchmark: a conftest.py that has one would be refused where that is not installed.
_HOOKS = {
    "pytest_benchmark_scale_unit": "config, unit, benchmarks, best, worst, sort",
    "pytest_benchmark_generate_machine_info": "config",
    "pytest_benchmark_update_machine_info": "config, machine_info",
    "pytest_benchmark_generate_commit_info": "config",
    "pytest_benchmark_update_commit_info": "config, commit_info",
    "pytest_benchmark_group_stats": "config, benchmarks, group_by",
    "pytest_benchmark_generate_json": "config, benchmarks, include_data, machine_info, commit_info",
    "pytest_benchmark_update_json": "config, benchmarks, output_json",
    "pytest_benchmark_compare_machine_info": "config, benchmarksession, machine_info, compared_benchmark",
}


def _offer_hooks(manager: pytest.PytestPluginManager) -> None:
    """Know the hooks that nobody knows yet; none is called."""
    specs = types.ModuleType("pytest_benchmark_hooks")
    for name, arguments in _HOOKS.items():
        known = getattr(manager.hook, name, None)
        if known is None or not known.has_spec():
            exec(f"def {name}({arguments}): pass", specs.__dict__)
            pytest.hookspec()(specs.__dict__[name])
    if any(name in specs.__dict__ for name in _HOOKS):
        manager.add_hookspecs(specs)


# What of pytest-benchmark's options is honoured; the rest is said to be set aside with its plug-in.
_HONOURED = {"only", "skip", "disable", "enable"}


def _asked_of_other(config: pytest.Config) -> list[str]:
    """The options of pytest-benchmark that were given, wherever, without their values."""
    words = [*config.getini("addopts"), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    words += map(str, config.invocation_params.args)
    return list(dict.fromkeys(w.split("=")[0] for w in words if w.startswith("--benchmark-")))


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
        self.baseline = path = config.getoption("--latlab-baseline")
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
        from latlab.cli.pytest_fixture import Benchmark

        one = Benchmark(request, self.config.getoption("--latlab-seconds"), disabled=self.disable)
        self.unheeded += (f"benchmark({name}=…)" for name in one.unheeded)
        try:
            yield one
        finally:
            one.unweave()
        if one.sample is not None:
            self.measured.append(one)

    @pytest.fixture
    def benchmark_weave(self, benchmark: Benchmark) -> Callable[..., None]:
        """Measures the first call of a function that something else makes: benchmark_weave("module.name")."""
        return benchmark.weave

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
                advice=bench.of_more_runs(f"pytest --latlab --latlab-save-baseline {self.baseline}"),
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
