"""`latlab bench ab` and `latlab bench aa`."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latlab.cli.bench.options import (
    check_outputs,
    for_ci,
    measuring,
    parameters_of,
    recorder_of,
    reporting,
    settings_of,
    write_for_ci,
    write_reports,
)
from latlab.cli.kit.options import EFFECT, Seconds, Words, together
from latlab.cli.kit.progress import is_watched
from latlab.errors import ExitCode, SkippedError, UsageError
from latlab.reports.json import document as json_of
from latlab.words import seconds, share

if TYPE_CHECKING:
    from latlab.bench import Asked, Raw, Target


def exit_code(verdicts: Sequence[str]) -> int:
    """4 where one is slower (by any measure), else 3 where one is inconclusive or refused, else 0."""
    if {"slower", "mixed"} & set(verdicts):
        return ExitCode.REGRESSION
    undecided = {"inconclusive", "refused"} & set(verdicts)
    return ExitCode.NOT_TRUSTWORTHY if undecided else ExitCode.OK


def judging(function: Any) -> Any:
    """What a verdict is over, and at what level."""
    options = together(
        click.option("--effect", type=EFFECT, help="Smallest effect that matters, as 1% or 0.01."),
        click.option("--alpha", type=click.FloatRange(1e-9, 0.5), default=0.05, help="Significance level."),
        click.option(
            "--measures",
            default="typical,mean",
            type=Words(("typical", "mean", "tail"), "measure"),
            help="Measures that must agree to be equivalent: typical, mean, tail. A change of any is found.",
        ),
    )
    return measuring(options(function))


def budget(seconds: float, of_time: str, of_pairs: str) -> Callable[[Any], Any]:
    """What a comparison may take: `--seconds` and `--pairs`, with the default and the help of each."""

    def decorate(function: Any) -> Any:
        function = click.option("--pairs", type=click.IntRange(min=2), help=of_pairs)(function)
        kind = Seconds(0.01)
        return click.option("--seconds", type=kind, default=seconds, help=of_time)(function)

    return decorate


PADDING = "Move functions by a distance drawn for each build (CFLAGS and CXXFLAGS of GCC and Clang)."


@click.command()
@click.argument("a")
@click.argument("b", required=False)
@judging
@budget(10.0, "Time budget of a comparison; unused time goes to the others.", "Budget in process pairs.")
@click.option(
    "--power",
    type=click.FloatRange(0.5, 0.999),
    default=0.9,
    help="Probability of finding the smallest effect; the plan shows the pairs that it takes.",
)
@click.option(
    "--build", metavar="CMD", help="Shell command that rebuilds both sides before each block of pairs."
)
@click.option("--padding", is_flag=True, help=PADDING)
@click.option(
    "--resume", type=click.Path(path_type=Path, exists=True), help="Recording of a killed run to continue."
)
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="PYTHON",
    help="Interpreter, once for each side; B may be left out. latlab need not be installed there.",
)
@click.option(
    "--wheel",
    "wheels",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Wheel that a side imports its modules from, once for each side; B may be left out.",
)
@reporting
@for_ci
@click.option(
    "--keep-going",
    is_flag=True,
    help="Spend the whole budget even when the verdict is settled, for narrower intervals.",
)
@click.option("--no-control", is_flag=True, help="Give a verdict even if this host failed `latlab bench aa`.")
def ab(a: str, b: str | None, **options: Any) -> int:
    """Compare A with B in interleaved process pairs: fixtures in files, shared objects, or commands."""
    from latlab import bench

    resumed = options["resume"]
    earlier = bench.read_any(resumed) if resumed else None
    if earlier is not None:
        before = earlier.meta.get("asked", {}).get("seed")
        if options["seed"] not in (None, before):
            raise UsageError(f"{resumed} has another seed", remedy="leave --seed out")
        options["seed"] = before
    if options["padding"] and not options["build"]:
        raise UsageError("--padding takes --build CMD")
    check_outputs(options)
    parameters = parameters_of(options)
    for name in ("pythons", "wheels"):
        if len(options[name]) not in (0, 2):
            raise UsageError(f"--{name[:-1]} comes twice: for A and for B")
    if b is None:
        if not (options["pythons"] or options["wheels"]):
            raise UsageError("nothing to compare with", remedy="name B, or --python or --wheel for each side")
        b = a
    sides = [bench.parse(text, parameters) for text in (a, b)]
    with bench.installed(options["wheels"]) as sites:
        if options["pythons"] or sites:
            if {side.kind for side in sides} != {"python"}:
                raise UsageError("--python and --wheel are for fixtures in Python files")
            sides = [
                dataclasses.replace(
                    side,
                    interpreter=_interpreter(options["pythons"][i]) if options["pythons"] else None,
                    search=(sites[i],) if sites else (),
                )
                for i, side in enumerate(sides)
            ]
        couples, report = bench.couples_of(sides[0], sides[1], timeout_s=options["timeout"])
        what = {"a": a, "b": b, "parameters": parameters, "pythons": options["pythons"]}
        what["wheels"] = [str(wheel) for wheel in options["wheels"]]
        return compare_couples(couples, options, what, report, earlier)


def _interpreter(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise UsageError(f"--python {name}: there is no such program", remedy="name an interpreter's path")
    return str(Path(found).absolute())


def asked_of(options: dict[str, Any]) -> Asked:
    """What the options ask of each comparison."""
    from latlab.bench import Asked

    return Asked(
        smallest_effect=options["effect"],
        alpha=options["alpha"],
        seconds=options["seconds"],
        seed=options["seed"],
        iterations=options["iterations"],
        max_pairs=options["pairs"] or 100_000,
        power=options.get("power", 0.9),
        early=not options.get("keep_going", False),
        build=options.get("build"),
        over=options["measures"],
        padding=options.get("padding", False),
    )


def compare_couples(
    couples: Mapping[str, tuple[Target, Target]],
    options: dict[str, Any],
    what: Mapping[str, Any],
    report: Mapping[str, str],
    earlier: Raw | None = None,
) -> int:
    """Measure a suite, write what was asked for, and say the verdicts; the exit code."""
    from latlab import bench
    from latlab.reports.bench import text as bench_text
    from latlab.system.environment import capture

    settings = settings_of(options)
    asked = asked_of(options)
    environment = capture()
    meta: dict[str, Any] = {"kind": "bench-ab", "report": report}
    meta["asked"] = {**vars(asked), **what}
    meta["settings"] = vars(settings)
    plans: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        recorder = recorder_of(stack, options["output"], meta, environment, asked.seed)

        def planned(name: str, found: Any) -> None:
            plans[name] = found
            if recorder.writer is not None:
                recorder.writer.put("plans", {"schema": 1, "plans": plans})

        comparisons = {
            name: bench.Comparison(one, other, bench.carry_over(earlier, name, recorder))
            for name, (one, other) in couples.items()
        }
        suite = bench.run_suite(
            comparisons,
            settings,
            asked,
            recorder,
            control=not options.get("no_control", False),
            planned=planned,
            told=progress(len(couples)),
        )
        if not suite.judged:
            errors = list(suite.failed.values())
            raise next((e for e in errors if not isinstance(e, SkippedError)), errors[0])
        judged = bench.with_discovery_rate(suite.judged)
        documents = [bench_text.judgement_json(j, plans[n]["plan"], name=n) for n, j in judged.items()]
        skipped = {n: e for n, e in suite.failed.items() if isinstance(e, SkippedError)}
        failed = [{"name": n, "error": str(e)} for n, e in suite.failed.items() if n not in skipped]
        result: dict[str, Any] = {"schema": 1}
        result |= (
            documents[0]
            if len(couples) == 1
            else {"comparisons": documents, "failed": failed, "skipped": [*skipped]}
        )
        if recorder.writer is not None:
            recorder.writer.put("result", result)
    facts = {**meta, "plans": plans, "environment": environment.to_json()}
    with contextlib.ExitStack() as last:  # what can't be written takes nothing else with it
        last.callback(write_for_ci, options, documents, failed)
        last.callback(write_reports, options, documents, bench.Raw(facts, recorder.rows))
        if options["raw"]:
            last.callback(bench.write_raw, options["raw"], facts, recorder.rows)
        show(documents, result, as_json=options["as_json"])
        sys.stdout.flush()
    for skip in skipped.values():
        click.echo(f"latlab: {skip}", err=True)
    for one in failed:
        click.echo(f"latlab: {one['error']}", err=True)
    code = exit_code([d["verdict"] for d in documents])
    return ExitCode.FAILED if failed and code != ExitCode.REGRESSION else code


def progress(comparisons: int) -> Callable[[str, float, float], None] | None:
    """Says on a terminal what is measured, what is known and how long it may take yet; None elsewhere."""
    if not is_watched():
        return None
    blocks: dict[str, int] = {}

    def told(name: str, left: float, effect: float) -> None:
        blocks[name] = blocks.get(name, 0) + 1
        of = f"{len(blocks)} of {comparisons}, " if comparisons > 1 else ""
        known = f"{blocks[name]} blocks, so far {share(effect, signed=True)}"
        line = f"latlab: {of}{name}: {known}, at most {seconds(round(max(0.0, left)))} left"
        click.echo(f"\r\x1b[K{line[:100]}", err=True, nl=False)
        if left <= 0:
            click.echo("\r\x1b[K", err=True, nl=False)

    return told


def show(documents: Sequence[dict[str, Any]], result: dict[str, Any], *, as_json: bool) -> None:
    """Verdicts on standard output, warnings on standard error."""
    from latlab.reports.bench import text as bench_text

    if as_json:
        click.echo(json_of(result))
    else:
        click.echo("\n".join(map(bench_text.judgement_text, documents)))
    for document in documents:
        for warning in document["warnings"]:
            click.echo(f"latlab: {document['name']}: {warning}", err=True)


@click.command()
@click.argument("fixture")
@click.option(
    "--comparisons",
    type=click.IntRange(min=1),
    default=20,
    help="Number of comparisons of each fixture with itself.",
)
@judging
@budget(1.0, "Time budget of a comparison.", "Budget of a comparison in process pairs.")
def aa(fixture: str, comparisons: int, **options: Any) -> int:
    """Compare identical code on this host; where it is called different too often, verdicts are refused."""
    from latlab import bench
    from latlab.reports.bench import text as bench_text

    target = bench.settle(bench.parse(fixture, parameters_of(options)), timeout_s=options["timeout"])
    check_outputs(options)
    asked = asked_of(options)
    control = bench.run_aa(target, settings_of(options), asked, comparisons=comparisons)
    document = bench_text.control_json(control)
    if options["as_json"]:
        click.echo(json_of(document))
    else:
        click.echo(
            f"{target.name}: called different {control.called_different} of {control.comparisons} times "
            f"({share(control.rate, digits=2)}, at most {share(control.upper95, digits=2)} at 95 "
            f"%; level {share(control.alpha, digits=0)})"
        )
    bench.remember(control, target.name)  # after the result, which a home that can't be written must not lose
    if control.failed:
        click.echo("latlab: this host fails the null control; bench ab will refuse verdicts here", err=True)
        return ExitCode.NOT_TRUSTWORTHY
    return ExitCode.OK
