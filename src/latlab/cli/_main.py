"""The `latlab` command: finds its subcommands lazily, and turns errors into one line and an exit code."""

from __future__ import annotations

import re
import sys
from typing import Any

import click

from latlab import __version__
from latlab.cli.kit.lazy import LazyGroup
from latlab.cli.kit.output_failures import (
    flush_output,
    is_closed_pipe,
    leave_closed_pipe,
    open_streams,
    say_failure,
)
from latlab.errors import ExitCode, LatlabError, MissingExtraError
from latlab.words import nearest, printable

# One line a command: its module in latlab.cli (which holds a click command of the same name) and its help.
# The help stands here too, so that `latlab --help` imports no command.
COMMANDS: dict[str, str] = {
    "bench": "Measure code, and tell whether a change made it faster.",
    "clean": "Remove what killed runs left behind.",
    "completion": "Print the line that enables completion in bash, zsh or fish.",
    "dashboard": "Show a running application in a browser: topology, fills, rates, bottleneck.",
    "demo": "Run a trading pipeline, observe it from outside, name its bottleneck.",
    "diagnose": "Find where a program's latency comes from, and what fixing it would gain.",
    "jitter": "Measure how quiet this machine is, and what disturbs it.",
    "market": "Market data: ITCH and PITCH to the inside, statistics, delays.",
    "messaging": "Measure how fast messages travel, from a ring to a broker.",
    "queues": "Find where events wait inside a running application, and the bottleneck.",
    "requests": "Find where a server's slow requests spend their time.",
    "runs": "List, show, compare, export and remove recordings.",
    "show": "Say what is in a file: a recording, or another format that latlab reads.",
    "stubs": "Forecast what a faster part would gain, with performance stubs.",
    "system": "Show, check, tune and restore the settings that disturb measurements.",
}

_PAGES = frozenset(("-h", "--help", "--version"))
_NONE_OF = re.compile(r"'([^']*)' is not one of ")
_OWN_LINE = re.compile(r"\n(?!  \| )")
# What a core install does without, and the extra that brings it.
EXTRAS = {"pyarrow": "market", "scipy": "market"}


def _usage(command: str, message: str, near: str = "") -> str:
    """The line of an error of usage: what is wrong, and a remedy, or where to find one."""
    if message.endswith("?"):
        return f"{command}: {message}"
    remedy = near or f"see '{command} --help'"
    return f"{command}: {message.rstrip('.')}; {remedy}"


def _nearest_choice(error: click.UsageError, said: str) -> str:
    """The remedy for a value that is none of an option's words."""
    kind = error.param.type if isinstance(error, click.BadParameter) and error.param else None
    given = _NONE_OF.search(said)
    return nearest(given[1], map(str, kind.choices)) if isinstance(kind, click.Choice) and given else ""


def _plain(message: str) -> str:
    """Click's names of types in words: "is not a valid integer range" tells nobody what to write."""
    message = re.sub(r" is not a valid integer( range)?\b", " is not a whole number", message)
    return re.sub(r" is not a valid float( range)?\b", " is not a number", message)


def _tell_version(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    """Prints the version, the commit that it was built from, and what built it."""
    if not asked or context.resilient_parsing:
        return
    from latlab import _build as build

    made = f"{build.COMPILER}, {build.KIND}, {build.MACHINE}"
    python = f"CPython {sys.version.split()[0]}"
    click.echo(f"latlab {__version__} (commit {build.COMMIT}; built by {made}; {python})")
    context.exit()


@click.group(
    cls=LazyGroup,
    subcommands={name: (name, text) for name, text in COMMANDS.items()},  # each in a module of its name
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_tell_version,
              help="Show the version, its commit and its build.")  # fmt: skip
def latlab() -> None:
    """Find out where a program's latency comes from, and how much a fix would gain."""


def _command_of(arguments: list[str] | None) -> str:
    """The command that the arguments begin with: click's error of an option without its value names none."""
    command: click.Command | None = latlab
    path = "latlab"
    for word in sys.argv[1:] if arguments is None else arguments:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word)
        if command is None:
            break
        path += f" {word}"
    return path


def _flushed(code: Any, keep: bool) -> Any:
    """A command's own exit code, or that of an output which could not take the rest."""
    try:
        flush_output()
    except BrokenPipeError:
        return leave_closed_pipe()
    except OSError as error:
        return say_failure(error, keep=keep)
    return code


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code.

    Args:
        arguments: what to run instead of ``sys.argv[1:]``, for tests.
    """
    open_streams()
    # A help page is had again.
    keep = _PAGES.isdisjoint(sys.argv[1:] if arguments is None else arguments)
    try:
        status: Any = latlab.main(arguments, prog_name="latlab", standalone_mode=False)
        flush_output()  # here, where a failure can still be told
    except LatlabError as error:
        # The name of somebody else's file makes no line of its own; what a program said stands behind bars.
        click.echo(f"latlab: {_OWN_LINE.sub(' ', printable(str(error)))}", err=True)
        sys.exit(_flushed(error.exit_code, keep) or error.exit_code)
    except click.NoSuchOption as error:
        command = error.ctx.command_path if error.ctx else "latlab"
        known = [] if error.ctx is None else [
            spelling for one in error.ctx.command.get_params(error.ctx)
            if not getattr(one, "hidden", False) for spelling in one.opts
        ]  # fmt: skip
        said = f"unknown option '{printable(error.option_name)}'"
        click.echo(_usage(command, said, nearest(error.option_name, known)), err=True)
        sys.exit(ExitCode.USAGE)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(ExitCode.USAGE)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else _command_of(arguments)
        said = printable(_plain(error.format_message()))
        click.echo(_usage(command, said, _nearest_choice(error, said)), err=True)
        sys.exit(ExitCode.USAGE)
    except click.ClickException as error:
        click.echo(f"latlab: {printable(error.format_message())}", err=True)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("latlab: interrupted", err=True)
        sys.exit(_flushed(130, keep) or 130)
    except SystemExit as error:
        sys.exit(leave_closed_pipe() if is_closed_pipe(error) else _flushed(error.code, keep))
    except BrokenPipeError:
        sys.exit(leave_closed_pipe())
    except (OSError, MemoryError) as error:
        sys.exit(say_failure(error, keep=keep))
    except ImportError as error:
        if (extra := EXTRAS.get((error.name or "").partition(".")[0])) is not None:
            click.echo(f"latlab: {MissingExtraError(str(error.name), extra)}", err=True)
            sys.exit(ExitCode.FAILED)
        if "failed to map segment" not in str(error):  # the loader's words for a limit on memory
            raise
        sys.exit(say_failure(MemoryError()))
    sys.exit(status if isinstance(status, int) else ExitCode.OK)
