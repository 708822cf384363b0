"""`latlab bench compare` and `latlab bench history`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from latlab.cli._options import JSON
from latlab.cli.bench._options import fraction, reporting, write_reports
from latlab.cli.bench.ab import exit_code, show
from latlab.errors import ExitCode, UsageError

FILE = click.Path(path_type=Path, exists=True)


@click.command()
@click.argument("a", type=FILE)
@click.argument("b", type=FILE, required=False)
@click.option("--effect", metavar="PERCENT", help="Smallest effect that matters; 1% by default.")
@click.option("--alpha", type=click.FloatRange(1e-9, 0.5), help="Level; 0.05 by default.")
@JSON
@reporting
def compare(
    a: Path, b: Path | None, effect: str | None, alpha: float | None, as_json: bool, **options: Any
) -> int:
    """Judge the results B against A, or those of one `bench ab` once more (only A).

    Recordings, raw CSV, and JSON of pyperf, Google Benchmark, hyperfine and pytest-benchmark.
    """
    from latlab import bench
    from latlab.reports.bench import text as bench_text

    smallest = fraction(effect)
    if b is not None and any(options.values()):
        raise UsageError("a report is made of the results of one `bench ab`", remedy="leave B out")
    raw = bench.read_any(a) if b is None else None
    if raw is not None:
        judged, plans = bench.judge_again(raw, source=a, smallest_effect=smallest, alpha=alpha)
    elif b is not None:
        one, other = bench.load(a), bench.load(b)
        judged, plans = bench.compare_results(one, other, smallest_effect=smallest, alpha=alpha or 0.05), {}
        if not judged:
            raise UsageError(
                f"{a} and {b} have no benchmark in common",
                remedy=f"they hold {', '.join([*one.tests, *other.tests][:6])}",
            )
    judged = bench.with_discovery_rate(judged)
    documents = [bench_text.judgement_json(j, plans.get(n), name=n) for n, j in judged.items()]
    result = {"schema": 1, **(documents[0] if len(documents) == 1 else {"comparisons": documents})}
    if raw is not None:
        write_reports(options, documents, raw)
    show(documents, result, as_json=as_json)
    return exit_code([d["verdict"] for d in documents])


@click.command()
@click.argument("files", type=FILE, nargs=-1, required=True)
@click.option(
    "--effect", metavar="PERCENT", default="1%", show_default=True, help="Smallest change that counts."
)
@click.option("--alpha", type=click.FloatRange(0.005, 0.5), default=0.02, show_default=True)
@JSON
def history(files: tuple[Path, ...], effect: str, alpha: float, as_json: bool) -> int:
    """Find the changes of level in results, the oldest first; exit code 4 if the last is a slowdown."""
    from latlab import bench

    found: list[dict[str, Any]] = bench.history(
        [(str(path), bench.load(path)) for path in files],
        smallest_effect=fraction(effect) or 0.0,
        alpha=alpha,
    )
    if as_json:
        click.echo(json.dumps({"schema": 1, "benchmarks": found}, indent=2))
    else:
        for one in found:
            click.echo(f"{one['name']}: {one['verdict']}: {one['why']}")
    verdicts = [one["verdict"] for one in found]
    if "slower" in verdicts:
        return ExitCode.REGRESSION
    return ExitCode.NOT_TRUSTWORTHY if "inconclusive" in verdicts else ExitCode.OK
