"""`latlab bench compare`, `history` and `accept`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import click

from latlab import words
from latlab.cli.bench.ab import exit_code, show
from latlab.cli.bench.options import for_ci, reporting, write_for_ci, write_reports
from latlab.cli.kit.options import EFFECT, JSON
from latlab.errors import ExitCode, UsageError
from latlab.reports.json import document as json_of

FILE = click.Path(path_type=Path, exists=True)


@click.command()
@click.argument("a", type=FILE)
@click.argument("b", type=FILE, required=False)
@click.option("--effect", type=EFFECT, help="Smallest effect that matters; 1% by default.")
@click.option("--alpha", type=click.FloatRange(1e-9, 0.5), help="Significance level [default: 0.05].")
@JSON
@reporting
@for_ci
def compare(
    a: Path, b: Path | None, effect: float | None, alpha: float | None, as_json: bool, **options: Any
) -> int:
    """Judge the results B against A, or those of one `bench ab` once more (only A).

    Of a file of two commands (hyperfine's) the second is judged against the first.

    Recordings, raw CSV, baseline files, and JSON of pyperf, Google Benchmark, hyperfine and pytest-benchmark.
    """
    from latlab import bench
    from latlab.reports.bench import text as bench_text

    pages = options["html"] or options["markdown"]
    if b is not None and pages:
        raise UsageError("a report needs the results of one `bench ab`", remedy="leave B out")
    results = bench.load(a) if b is None else None
    two = results is not None and results.tool != "latlab" and len(results.tests) == 2
    if results is not None and two and pages:
        raise UsageError("a report needs the results of one `bench ab`", remedy="leave --html out")
    if results is not None and results.tool != "latlab" and not two:
        count = words.plural(len(results.tests), "benchmark")
        raise UsageError(f"{a} holds {count} and nothing to compare with", remedy="name B")
    raw = bench.read_any(a) if b is None and not two else None
    if raw is not None:
        judged, plans = bench.judge_again(raw, source=a, smallest_effect=effect, alpha=alpha)
    else:
        one = results if results is not None else bench.load(a)
        other = one if b is None else bench.load(b)
        judged = bench.compare_results(one, other, smallest_effect=effect, alpha=alpha or 0.05, runs=one.runs)
        plans = {}
        if not judged:
            raise UsageError(
                f"{a} and {b} have no benchmark in common",
                remedy=f"they hold {', '.join([*one.tests, *other.tests][:6])}",
            )
    judged = bench.with_discovery_rate(judged)
    documents = [bench_text.judgement_json(j, plans.get(n), name=n) for n, j in judged.items()]
    result = {"schema": 1, **(documents[0] if len(documents) == 1 else {"comparisons": documents})}
    with contextlib.ExitStack() as last:  # what can't be written takes nothing else with it
        last.callback(write_for_ci, options, documents)
        if raw is not None:
            last.callback(write_reports, options, documents, raw)
        show(documents, result, as_json=as_json)
        sys.stdout.flush()
    return exit_code([d["verdict"] for d in documents])


ACCEPTED = click.option(
    "--accepted",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("latlab-accepted.json"),
    help="File of accepted levels; commit it.",
)


@click.command()
@click.argument("files", type=FILE, nargs=-1, required=True)
@click.option("--effect", type=EFFECT, default="1%", help="Smallest change that counts.")
@click.option(
    "--false-alarms",
    type=click.FloatRange(1e-6, 100),
    default=0.1,
    help="False alarms a year, of all benchmarks together.",
)
@click.option("--results-per-year", type=click.FloatRange(1), default=365.0, help="Number of results a year.")
@ACCEPTED
@JSON
def history(
    files: tuple[Path, ...],
    effect: float,
    false_alarms: float,
    results_per_year: float,
    accepted: Path,
    as_json: bool,
) -> int:
    """Find the changes of level in results, the oldest first; exit code 4 if the last is a slowdown.

    A change is found by the two results that follow it, and stays a finding until it is undone or accepted
    (latlab bench accept).
    """
    from latlab import bench

    found: list[dict[str, Any]] = bench.history(
        [(str(path), bench.load(path)) for path in files],
        smallest_effect=effect,
        false_alarms=false_alarms,
        results_per_year=results_per_year,
        accepted=bench.accepted(accepted),
    )
    if as_json:
        click.echo(json_of({"benchmarks": found}))
    else:
        for one in found:
            click.echo(f"{one['name']}: {one['verdict']}: {one['why']}")
    verdicts = [one["verdict"] for one in found]
    if "slower" in verdicts:
        return ExitCode.REGRESSION
    return ExitCode.NOT_TRUSTWORTHY if "inconclusive" in verdicts else ExitCode.OK


@click.command()
@click.argument("result")
@click.option("--benchmark", default="*", show_default=False, help="Name of the benchmark [default: all].")
@ACCEPTED
@JSON
def accept(result: str, benchmark: str, accepted: Path, as_json: bool) -> None:
    """Accept the level that RESULT is on: `bench history` no longer calls it slower."""
    from latlab import bench

    bench.accept(accepted, result, benchmark)
    if not Path(result).exists():
        click.echo(f"latlab: {result}: no such file: `history` matches results by this name", err=True)
    if as_json:
        click.echo(json_of({"output": accepted, "benchmark": benchmark, "level": result}))
        return
    which = "all benchmarks" if benchmark == "*" else benchmark
    click.echo(f"{accepted}: the level of {which} at {result} is accepted")
