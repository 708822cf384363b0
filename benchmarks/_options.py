"""The options that several benchmarks share."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

__all__ = ["add_day", "add_series", "parser_of", "systems_parser"]


def parser_of(text: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the benchmark's own comment, line by line."""
    return argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)


def systems_parser(text: str | None, *, rounds: int) -> argparse.ArgumentParser:
    """Of a benchmark that runs systems of `schedule_programs`, in turn with their changed ones."""
    parser = parser_of(text)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--only", nargs="*", default=[])
    return parser


def add_day(parser: argparse.ArgumentParser, of: str) -> None:
    """A generated day of market data: how large it is, and where it is."""
    parser.add_argument("messages", nargs="?", type=int, default=20_000_000)
    parser.add_argument("symbols", nargs="?", type=int, default=8_000)
    parser.add_argument("--day", type=Path, help=of)


def add_series(parser: argparse.ArgumentParser, one: str, wrong: str) -> None:
    """A long series that may be stopped and gone on with.

    Args:
        one: what it is a series of.
        wrong: what is kept in a folder.
    """
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop in time")
    parser.add_argument(
        "--results", type=Path, help="JSON lines, appended to; what is in it is not done again"
    )
    parser.add_argument("--keep", type=Path, help=f"folder for the recordings of {wrong}")
    parser.add_argument("--only", default="", metavar="TEXT", help=f"{one} with this in their title")
