"""The options of a messaging run on the command line, made from their table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from latlab.cli.kit.offered import TRANSPORTS, offered
from latlab.cli.kit.options import Seconds
from latlab.errors import UsageError
from latlab.model.messaging.options import OPTIONS, Option, number_of, settings_of, swept
from latlab.model.messaging.results import Settings

__all__ = ["axis_of", "number_of", "run_options", "settings_from"]


_OFFERED = {
    "transport": TRANSPORTS,
    "counters": offered(["interrupts", "net-bytes:", "file:"]),
    "faults": offered(["drop=", "repeat=", "swap=", "damage="]),
}
_FILES = {"load_file", "tls_ca", "tls_cert", "tls_key"}


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Every option that shapes a run."""
    for option in reversed(OPTIONS):
        if option.help:  # without a help text it is of workload files and sweeps alone
            command = _click(option)(command)
    return click.option(
        "--workload", type=click.Path(), help="TOML file with options; the command line overrides it."
    )(command)


def _click(option: Option) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    names = [f"--{option.name}", *([option.short] if option.short else []), option.key]
    if option.flag:
        return click.option(*names, is_flag=True, help=option.help)
    more: dict[str, Any] = {"help": option.help, "multiple": option.multiple}
    if option.default is not None:
        more.update(default=option.default, show_default="[default" not in option.help)
    if option.choices:
        more["type"] = click.Choice(option.choices)
    if option.setting in _OFFERED:
        more["shell_complete"] = _OFFERED[option.setting]
    if option.setting in _FILES:
        more["type"] = click.Path()
    if option.setting in ("timeout_s", "duration_s"):
        more["type"] = Seconds()
    return click.option(*names, **more)


def settings_from(options: dict[str, Any]) -> Settings:
    """The settings that the options ask for, over those of a workload file where one is given.

    Raises:
        InputError: for a file that can't be read.
        UsageError: for values that mean nothing.
    """
    given = dict(options)
    workload = given.pop("workload", None)
    if workload is None:
        return settings_of(given)
    from latlab.messaging import load_workload

    context = click.get_current_context()
    said = {
        name: value
        for name, value in given.items()
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    return load_workload(workload, **said)


def axis_of(text: str) -> tuple[str, list[Any]]:
    """An axis of a sweep: "size=1,100,1k", or "size=1,6,100,1k,…,1M", which goes on by the same factor.

    Raises:
        UsageError: for anything else, a value that is missing or given twice among them.
    """
    name, equals, values = text.partition("=")
    words = [word.strip() for word in values.split(",")]
    if not equals or not all(words):
        raise UsageError(f"'{text}' is not a sweep", remedy="write size=1,100,1k")
    read = swept(name)
    found: list[Any] = []
    for i, word in enumerate(words):
        if word in _ELLIPSES:
            found += _between(text, found, [read(next_word) for next_word in words[i + 1 : i + 2]])
        else:
            found.append(read(word))
    if len(set(found)) < len(found):
        raise UsageError(f"'{text}' has a value twice", remedy="leave one of them out")
    return name, found


_ELLIPSES = ("…", "...")
_MOST_BETWEEN = 1000


def _between(text: str, before: list[Any], after: list[Any]) -> list[Any]:
    """What an ellipsis stands for: values that grow by the same factor as the two before it."""
    numbers = [*before[-2:], *after]
    if len(numbers) < 3 or not all(isinstance(n, int | float) for n in numbers):
        raise UsageError(f"'{text}': … stands between numbers", remedy="write size=1,10,…,1M")
    first, last, end = numbers
    if not 0 < first < last < end:
        raise UsageError(f"'{text}': … stands for larger and larger numbers", remedy="write size=1,10,…,1M")
    factor, found = last / first, []
    while (value := last * factor) < end * (1 - 1e-9):
        last = value
        found.append(round(value) if isinstance(end, int) else value)
        if len(found) > _MOST_BETWEEN:
            raise UsageError(
                f"'{text}' has more than {_MOST_BETWEEN} values", remedy="write numbers further apart"
            )
    return found
