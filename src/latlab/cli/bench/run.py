"""`latlab bench run` and `latlab bench -- CMD`."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latlab import words
from latlab.cli.bench.ab import exit_code, show
from latlab.cli.bench.options import (
    check_outputs,
    for_ci,
    measuring,
    parameters_of,
    recorder_of,
    settings_of,
    write_for_ci,
)
from latlab.cli.kit.options import EFFECT, Seconds, together
from latlab.cli.kit.progress import is_watched, say
from latlab.errors import ExitCode, LatlabError, SkippedError, UsageError
from latlab.reports.json import document as json_of

if TYPE_CHECKING:
    from latlab.bench import Results


LEAST_S = (
    0.25  # that each benchmark of a suite has, or a folder of hundreds would be measured by single calls
)


def _measure(
    targets: list[Any], options: dict[str, Any], report: dict[str, str], *, given: Any = None
) -> int:
    from latlab import bench
    from latlab.reports.bench import sweep
    from latlab.reports.bench import text as bench_text
    from latlab.system.environment import capture

    check_outputs(options)
    asked_for = targets if given is None else [given]
    if options["baseline"] is None and (options["junit"] or options["summary"]):
        raise UsageError(
            "--junit and --summary are of verdicts", remedy="name what is judged by --baseline FILE"
        )
    if options["cold"] and any(target.apart for target in targets):
        raise UsageError("--cold is for fixtures", remedy="name FILE:FIXTURE")
    if (options["sizes"] or options["threads"]) and any(target.apart for target in targets):
        raise UsageError("--sizes and --threads are parameters of fixtures", remedy="name FILE:FIXTURE")
    before = bench.load(options["baseline"]) if options["baseline"] else None
    settings = settings_of(options)
    if options["threads"] and not options["cpus"]:  # or one thread would be measured otherwise than two
        every = tuple(sorted(os.sched_getaffinity(0)))
        settings = dataclasses.replace(settings, cpu=None, cpus=every, priority=0, nice=True, fitting=False)
        if max(options["threads"]) > len(every):
            click.echo(
                f"latlab: {words.plural(len(every), 'CPU')} for {max(options['threads'])} threads", err=True
            )
    environment = capture()
    asked = {"targets": [t.text for t in targets], "seed": options["seed"], "seconds": options["seconds"]}
    meta = {"kind": "bench-run", "asked": asked, "report": report}
    with contextlib.ExitStack() as stack:
        recorder = recorder_of(stack, options["output"], meta, environment, options["seed"])
        tests: dict[str, Any] = {}
        documents: list[dict[str, Any]] = []
        points: list[sweep.Point] = []
        failed: list[tuple[str, LatlabError]] = []
        skipped: list[tuple[str, LatlabError]] = []
        pairs = [(target, settings) for target in targets]
        if options["cold"]:
            pairs = [(t, dataclasses.replace(settings, cold=cold)) for t in targets for cold in (False, True)]
        each_s = max(min(options["seconds"], LEAST_S), options["seconds"] / len(pairs))
        stopped = False
        for number, (given, how) in enumerate(pairs, 1):
            target = dataclasses.replace(given, title=f"{given.name} (cold)") if how.cold else given
            _tell(number, len(pairs), target.name)
            try:
                samples = bench.run(
                    target,
                    how,
                    recorder,
                    seconds=each_s,
                    processes=options["processes"],
                    iterations=options["iterations"],
                )
            except KeyboardInterrupt:
                if not documents:
                    raise
                stopped = True  # what was measured is told
                break
            except SkippedError as error:
                skipped.append((target.name, error))
                continue
            except LatlabError as error:
                failed.append((target.name, error))  # loses nothing of the others
                continue
            tests[target.name] = samples
            costs, uncounted = bench.costs_of(target, how, samples)
            documents.append(
                bench_text.summary_json(
                    target.name, samples, mean=options["mean"], costs=costs, uncounted=uncounted
                )
            )
            swept_as = f"{target.called} (cold)" if how.cold else target.called
            points.append((swept_as, target.parameters, documents[-1]["summary"]["p50"]))
        _tell(len(pairs) + 1, len(pairs), "")
        if not tests and failed:
            raise failed[0][1]
        if recorder.writer is not None:
            recorder.writer.put("result", {"schema": 1, "benchmarks": documents})
    swept = {"growth": sweep.growth_json(points), "threads": sweep.threads_json(points)}
    with contextlib.ExitStack() as last:  # what can't be written takes nothing else with it
        if options["raw"]:
            facts = {**meta, "environment": environment.to_json()}
            last.callback(bench.write_raw, options["raw"], facts, recorder.rows)
        if options["as_csv"]:
            click.echo(bench_text.csv_lines(environment, asked, tests), nl=False)
        elif options["as_json"]:
            lost: dict[str, Any] = {"failed": [{"name": name, "error": str(error)} for name, error in failed]}
            lost["skipped"] = [name for name, _ in skipped]
            click.echo(
                json_of({"benchmarks": documents, **lost, **swept, "environment": environment.to_json()})
            )
        else:
            if documents:
                click.echo(bench_text.summary_text(documents))
            if any(swept.values()):
                click.echo(sweep.sweep_text(swept["growth"], swept["threads"]))
        sys.stdout.flush()
    for document in documents:
        for warning in document["warnings"]:
            click.echo(f"latlab: {document['name']}: {warning}", err=True)
    for _, one in [*skipped, *failed]:
        click.echo(f"latlab: {one}", err=True)
    if any(d["costs"] for d in documents) and not any("instructions" in d["costs"] for d in documents):
        click.echo(
            "latlab: instructions, branches and cache misses: this machine has no hardware counters", err=True
        )
    if settings.priority and not settings.fitting and documents and "fifo" not in documents[0]["context"]:
        click.echo("latlab: SCHED_FIFO isn't allowed here; measured without it", err=True)
    code: int = ExitCode.OK
    facts = environment.to_json()["facts"]
    now = bench.Results(
        "latlab",
        {name: [s.times_ns for s in samples] for name, samples in tests.items()},
        {k: str(v["value"]) for k, v in facts.items() if "value" in v},
    )
    if before is not None:
        code = _against(before, now, asked_for, options, failed)
    if options["save_baseline"]:
        runs = bench.baseline.add(options["save_baseline"], now.tests, now.environment)
        say(f"latlab: {options['save_baseline']}: {words.plural(runs, 'run')} kept")
    sys.stdout.flush()
    if stopped:
        click.echo(f"latlab: interrupted after {len(documents)} of {len(pairs)} benchmarks", err=True)
        raise KeyboardInterrupt
    return ExitCode.FAILED if failed and code != ExitCode.REGRESSION else code


def _tell(number: int, count: int, name: str) -> None:
    """Say on a terminal which benchmark of a suite is measured; nothing where it is over."""
    if is_watched() and count > 1:
        line = f"latlab: {number} of {count}: {name}"[:100] if number <= count else ""
        click.echo(f"\r\x1b[K{line}", err=True, nl=False)


def _against(
    before: Results,
    now: Results,
    targets: list[Any],
    options: dict[str, Any],
    failed: list[tuple[str, LatlabError]],
) -> int:
    """Say what is slower than a baseline; the exit code."""
    from latlab import bench
    from latlab.reports.bench import text as bench_text

    judged = bench.compare_results(
        before,
        now,
        smallest_effect=options["effect"],
        alpha=0.05,
        runs=before.runs,
        advice=bench.of_baseline(before, now, targets, options["baseline"], Path.cwd()),
    )
    if not judged:
        raise UsageError(
            f"{options['baseline']} has none of these benchmarks",
            remedy=f"it holds {', '.join(list(before.tests)[:6])}",
        )
    documents = [bench_text.judgement_json(j, name=n) for n, j in bench.with_discovery_rate(judged).items()]
    with contextlib.ExitStack() as last:
        last.callback(
            write_for_ci, options, documents, [{"name": name, "error": str(error)} for name, error in failed]
        )
        if not options["as_json"] and not options["as_csv"]:
            show(documents, {}, as_json=False)
    for name in sorted(set(now.tests) - set(before.tests)):
        click.echo(f"latlab: {name}: not in the baseline", err=True)
    return exit_code([d["verdict"] for d in documents])


def _counts(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
    try:
        counts = tuple(words.count_of(part) for part in value.split(",")) if value else ()
    except ValueError as error:
        raise UsageError(f"--{parameter.name}: {error}") from None
    if counts and min(counts) < 1:
        raise UsageError(f"--{parameter.name}: a count is 1 or more")
    return counts


def _running(function: Any) -> Any:
    options = together(
        click.option(
            "--seconds",
            type=Seconds(0.01),
            default=2.0,
            help="Time budget; of several, each has 0.25 s of it or more.",
        ),
        click.option("--processes", type=click.IntRange(min=1), help="Number of processes [default: 5]."),
        click.option("--csv", "as_csv", is_flag=True, help="Print lines of testcase,nanoseconds."),
        click.option("--mean", is_flag=True, help="Show the mean in the summary, too."),
        click.option(
            "--baseline",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            help="Judge against this file; exit code 4 if slower, 3 if undecided.",
        ),
        click.option(
            "--save-baseline",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Add this run to a baseline file; commit it.",
        ),
        click.option("--effect", type=EFFECT, help="Smallest effect that matters; 1% by default."),
        for_ci,
        click.option(
            "--sizes",
            callback=_counts,
            metavar="N,N,…",
            help="Values of `size` to measure; reports how the time grows.",
        ),
        click.option(
            "--threads",
            callback=_counts,
            metavar="N,N,…",
            help="Values of `threads` to measure, on all CPUs without a priority.",
        ),
    )
    return measuring(options(function))


@click.command()
@click.argument("target")
@_running
def run(target: str, **options: Any) -> int:
    """Measure FILE.py[:Fixture], FILE.so[:Fixture or symbol] or PROGRAM[:Fixture]."""
    from latlab import bench

    given = bench.parse(target, parameters_of(options))
    if given.kind == "command":
        return _measure([given], options, {})
    axes = {name: options[name + "s"] for name in ("size", "thread") if options[name + "s"]}
    if "thread" in axes:
        axes["threads"] = axes.pop("thread")
    targets: list[Any] = []
    report: dict[str, str] = {}
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        one = dataclasses.replace(given, parameters={**given.parameters, **point})
        found, report = bench.expand(one, timeout_s=options["timeout"])
        targets += found
    return _measure(targets, options, report, given=given)


@click.command(context_settings={"ignore_unknown_options": False})
@_running
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def command(words: tuple[str, ...], **options: Any) -> int:
    """Measure a whole command: `latlab bench -- CMD ARGS...`."""
    from latlab import bench

    if not words:
        raise UsageError("no command was given", remedy="write it after --")
    return _measure([bench.of_command(words, parameters_of(options))], options, {})
