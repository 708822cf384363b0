"""Options that the subcommands of `latlab bench` share, and what they make of them."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latlab.cli.kit.options import CPUS, JSON, Seconds, together
from latlab.errors import UsageError
from latlab.model.bench import Settings

if TYPE_CHECKING:
    from latlab.bench import Raw, Recorder
    from latlab.model.machine.environment import Environment

Function = Callable[..., Any]
TRIED_BYTES = 64 << 10  # that have to fit where a file is to be written


def recorder_of(
    stack: contextlib.ExitStack,
    output: Path | None,
    meta: dict[str, Any],
    environment: Environment,
    seed: int | None,
) -> Recorder:
    """Keeps what is measured, with what `meta` says of it, in the folder `output` where one is given."""
    from latlab import bench
    from latlab.formats.recording import RecordingWriter

    recorder = bench.Recorder()
    if output:
        recorder.writer = stack.enter_context(
            RecordingWriter(output, meta["kind"], parameters=meta, environment=environment, seed=seed)
        )
    return recorder


def measuring(function: Function) -> Function:
    """How a process measures."""
    options = together(
        click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="A fixture's parameter."),
        click.option("--size", type=int, help="The parameter `size`."),
        click.option("--iterations", type=click.IntRange(min=1), help="Measured iterations a process."),
        click.option(
            "--warmup",
            type=click.IntRange(min=0),
            help="Unmeasured iterations before the measured ones [default: 10, fewer of what takes longer "
            "than 3 ms].",
        ),
        click.option(
            "--batch",
            type=click.IntRange(min=1),
            help="Runs in one iteration [default: what the clock's resolution needs].",
        ),
        click.option(
            "--cpus",
            type=CPUS,
            help="CPUs to measure on, as 3 or 0-3. By default the last one; all for commands and "
            "for fixtures that start threads.",
        ),
        click.option(
            "--scheduling",
            type=click.Choice(["fifo", "other"]),
            help="Scheduling class [default: fifo on one CPU, other on several, where threads may spin].",
        ),
        click.option(
            "--priority", type=click.IntRange(1, 99), help="Priority of SCHED_FIFO [default: the highest]."
        ),
        click.option("--no-lock-memory", is_flag=True, help="Don't lock memory."),
        click.option(
            "--memory",
            type=click.IntRange(min=1),
            metavar="BYTES",
            help="Memory limit of a process [default: none].",
        ),
        click.option(
            "--timeout", type=Seconds(0.01), default=60.0, help="Time limit of a process, in seconds."
        ),
        click.option(
            "--cold", is_flag=True, help="Empty the caches before each call; `run` measures both ways."
        ),
        click.option("--seed", type=int, help="Seed of the order of the sides [default: random]."),
        JSON,
        click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for the recording."),
        click.option(
            "--raw", type=click.Path(path_type=Path, dir_okay=False), help="Write raw results as CSV."
        ),
    )
    return options(function)


def reporting(function: Function) -> Function:
    """Where the report of a comparison goes."""
    file = click.Path(path_type=Path, dir_okay=False)
    for option in (
        click.option(
            "--markdown", type=file, help="Write the report as Markdown, with its pictures beside it."
        ),
        click.option("--html", type=file, help="Write the report as a page."),
    ):
        function = option(function)
    return function


def for_ci(function: Function) -> Function:
    """What continuous integration reads."""
    file = click.Path(path_type=Path, dir_okay=False)
    for option in (
        click.option(
            "--summary",
            type=file,
            help="Write the verdicts as a Markdown table; $GITHUB_STEP_SUMMARY gets it too where it is set.",
        ),
        click.option("--junit", type=file, help="Write the verdicts as JUnit XML; slower is a failure."),
    ):
        function = option(function)
    return function


def write_for_ci(
    options: dict[str, Any], documents: Sequence[dict[str, Any]], failed: Sequence[dict[str, str]] = ()
) -> None:
    """The verdicts where continuous integration looks for them."""
    from latlab.formats.documents import naming, write_text
    from latlab.reports.bench import ci

    table = ci.markdown_summary(documents, failed, title="latlab bench")
    if options["summary"]:
        write_text(options["summary"], table)
    if options["junit"]:
        write_text(options["junit"], ci.junit_xml(documents, failed, suite="latlab bench"))
    if step := os.environ.get("GITHUB_STEP_SUMMARY"):
        with naming(step), open(step, "a") as file:
            file.write(table)


def write_reports(options: dict[str, Any], documents: Sequence[dict[str, Any]], raw: Raw) -> None:
    """The reports that the options ask for, of the verdicts and the raw results that they come from."""
    from latlab.reports.bench.html import comparison_page
    from latlab.reports.html import Page
    from latlab.reports.markdown import MarkdownPage

    pairs = {name: raw.pairs(name) for name in raw.tests()}
    if options["html"]:
        comparison_page(documents, pairs, raw.meta, Page).write(options["html"])
    if options["markdown"]:
        comparison_page(documents, pairs, raw.meta, MarkdownPage).write(options["markdown"])


def settings_of(options: dict[str, Any]) -> Settings:
    """The settings that the options ask for."""
    from latlab.bench import default_settings
    from latlab.system.cpus import cpu_list, refused_cpus

    base = default_settings()
    cpus: tuple[int, ...] = options["cpus"] or ()
    if absent := refused_cpus(cpus):
        raise UsageError(
            f"--cpus: this machine offers no CPU {cpu_list(absent)} to this process",
            remedy=f"it offers {cpu_list(os.sched_getaffinity(0))}",
        )
    several = len(cpus) > 1
    fifo = options["scheduling"] == "fifo" or (options["scheduling"] is None and not several)
    return dataclasses.replace(
        base,
        warmup=base.warmup if options["warmup"] is None else options["warmup"],
        warm_s=base.warm_s if options["warmup"] is None else math.inf,
        batch=options["batch"] or 0,
        cpu=None if several else cpus[0] if cpus else base.cpu,
        cpus=cpus if several else (),
        fitting=not cpus and options["scheduling"] is None,
        priority=(options["priority"] or base.priority) if fifo else 0,
        nice=not fifo and options["scheduling"] is None,
        lock_memory=not options["no_lock_memory"],
        memory_limit_bytes=options["memory"] or 0,
        timeout_s=options["timeout"],
        cold=options["cold"],
    )


def check_outputs(options: dict[str, Any]) -> None:
    """Try what is to be written before anything is measured, and draw the seed where none is given.

    Raises:
        UsageError: a file can't be written.
        OSError: there is no space for it.
    """
    from latlab.formats.documents import naming

    if options.get("seed") is None:
        options["seed"] = random.SystemRandom().randrange(1 << 31)
    for name in (
        "raw",
        "html",
        "markdown",
        "junit",
        "summary",
        "save_baseline",
    ):  # -o makes its folder at once
        path = options.get(name)
        if path is None:
            continue
        folder = path.absolute().parent
        if not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
            option = name.replace("_", "-")
            raise UsageError(
                f"--{option} {path}: can't be written", remedy="name a file in a folder that you may write to"
            )
        if not path.exists() or path.is_file():  # a pipe or a device is what it is
            with naming(path):
                _try_writing(folder)


def _try_writing(folder: Path) -> None:
    """Write something there and remove it again.

    Raises:
        OSError: it can't be, as where the disk is full.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(TRIED_BYTES))
        file.flush()
        os.fsync(file.fileno())


def parameters_of(options: dict[str, Any]) -> dict[str, Any]:
    """The fixture's parameters; numbers become numbers.

    Raises:
        UsageError: one has no value.
    """
    out: dict[str, Any] = {}
    for text in options["params"]:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--param {text}: not NAME=VALUE")
        out[name] = _value(value)
    if options["size"] is not None:
        out["size"] = options["size"]
    return out


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
