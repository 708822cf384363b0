"""`latlab bench rev`: one revision against another, built and measured beside each other."""

from __future__ import annotations

import signal
from typing import Any

import click

from latlab.cli.bench.ab import PADDING, budget, compare_couples, judging
from latlab.cli.bench.options import check_outputs, for_ci, parameters_of, reporting
from latlab.errors import UsageError


@click.command()
@click.argument("base")
@click.argument("head", default="HEAD")
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="FILE[:FIXTURE]",
    help="File of fixtures in both revisions; repeatable.",
)
@click.option(
    "--command",
    "commands",
    multiple=True,
    metavar="CMD",
    help="Command to run in both revisions; repeatable.",
)
@click.option("--build", metavar="CMD", help="Shell command that builds a revision, in its worktree.")
@click.option("--rebuild", is_flag=True, help="Rebuild both before each block of pairs, for other layouts.")
@click.option("--padding", is_flag=True, help=PADDING)
@click.option(
    "--flags",
    multiple=True,
    metavar="FLAGS",
    help="CFLAGS and CXXFLAGS of the build: once for each revision.",
)
@judging
@budget(
    10.0,
    "Time budget of a comparison, without the builds; unused time goes to the others.",
    "Budget in process pairs.",
)
@reporting
@for_ci
@click.option("--no-control", is_flag=True, help="Give a verdict even if this host failed `latlab bench aa`.")
def rev(base: str, head: str, **options: Any) -> int:
    """Compare two revisions, interleaved. Each gets a worktree and a build.

    In Python a worktree's src/ and its root come first in the search path, and before them $LATLAB_SITE, into
    which a build may install: --build 'pip install --no-deps --target $LATLAB_SITE .'
    """
    from latlab import bench

    if not options["targets"] and not options["commands"]:
        raise UsageError("nothing to measure", remedy="name it by --target FILE or --command CMD")
    if len(options["flags"]) not in (0, 2) or (options["flags"] and not options["build"]):
        raise UsageError("--flags comes twice, for BASE and for HEAD, and takes --build")
    if options["rebuild"] and not options["build"]:
        raise UsageError("--rebuild takes --build CMD")
    if options["padding"] and not options["rebuild"]:
        raise UsageError("--padding takes --rebuild")
    check_outputs(options)
    parameters, flags = parameters_of(options), options["flags"] or ("", "")
    if head == "HEAD" and bench.uncommitted():
        click.echo("latlab: uncommitted changes are not measured: HEAD is the last commit", err=True)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the worktrees would stay
    try:
        with bench.revisions([base, head], build=options["build"], flags=flags) as both:
            couples: dict[str, Any] = {}
            report: dict[str, str] = {}
            for text in options["targets"]:
                one, other = (r.target(text, parameters) for r in both)
                found, report = bench.couples_of(one, other, timeout_s=options["timeout"])
                couples |= found
            for text in options["commands"]:
                couples[text] = (both[0].command(text), both[1].command(text))
            build = bench.rebuilding(both, options["build"]) if options["rebuild"] else None
            what = {"a": base, "b": head, "commits": [r.commit for r in both], "flags": flags}
            return compare_couples(couples, {**options, "build": build}, what, report)
    finally:
        signal.signal(signal.SIGTERM, before)
