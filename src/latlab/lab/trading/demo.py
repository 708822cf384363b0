"""The demonstration: a trading pipeline on market data, observed from outside and diagnosed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from latlab.errors import InputError, LatlabError
from latlab.lab.trading.feeds import generated_feeds, given_feeds
from latlab.lab.trading.run import PipelineRun, run_pipeline
from latlab.model.diagnosis.layout import Layout
from latlab.system.environment import capture
from latlab.system.scratch import scratch

__all__ = ["DemoOptions", "feeds_for", "in_the_users_words", "run_demo"]


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """One run of the demonstration.

    Attributes:
        layout: of the pipeline.
        seconds: for which the feeds are played.
        output: the folder of the recording; it must not hold anything yet.
        input: an ITCH-5.0 file; None: generated feeds.
        seed: of the generated feeds.
        symbols: of the generated feeds.
        scheduler: record the kernel's scheduler events too.
    """

    layout: Layout
    seconds: float
    output: Path
    input: Path | None = None
    seed: int = 1
    symbols: int = 200
    scheduler: bool = False


def run_demo(options: DemoOptions, tell: Callable[[str], None]) -> PipelineRun:
    """Run, observe, diagnose. Each step's result is saved before the next one begins.

    Args:
        tell: takes a line on each step as it begins.

    Raises:
        InputError: an input that is not an ITCH-5.0 file; an output that can't be written.
        LatlabError: the pipeline could not be started.
    """
    with scratch("demo") as temporary:
        feeds = feeds_for(options, temporary, tell)
        try:
            return run_pipeline(
                options.layout,
                feeds,
                options.output,
                seconds=options.seconds,
                environment=capture(),
                seed=options.seed,
                parameters={"symbols": options.symbols, "input": str(options.input or "")},
                scheduler=options.scheduler,
                tell=tell,
            )
        except LatlabError as error:
            raise in_the_users_words(error, options.input) from None


def feeds_for(options: DemoOptions, folder: Path, tell: Callable[[str], None]) -> list[Path]:
    """The venues' feeds in a folder: the user's file, or generated ones."""
    if options.input is not None:
        tell(f"reading {options.input}")
        return given_feeds(options.input, folder)
    tell(f"generating two venues' feeds (seed {options.seed}, {options.symbols} symbols)")
    return generated_feeds(
        options.layout, folder, seconds=options.seconds, seed=options.seed, symbols=options.symbols
    )


def in_the_users_words(error: LatlabError, source: Path | None) -> LatlabError:
    """The program speaks of the file that it maps; the user gave another, or none."""
    if source is None:
        return error
    text = error.what
    for mapped in (str(source), "input.itch"):
        at = text.find(mapped)
        if at >= 0:
            place, _, what = text[at + len(mapped) :].removeprefix(": ").rpartition(": ")
            remedy = "give an ITCH-5.0 file in BinaryFILE framing, plain or .gz"
            return InputError(source, what, place=place or None, remedy=remedy)
    return error
