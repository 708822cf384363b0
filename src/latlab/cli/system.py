"""`latlab system`: the measuring environment, what disturbs it, and settings that help."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import click

from latlab.cli.kit.lazy import SuggestingGroup
from latlab.cli.kit.options import CPUS, JSON
from latlab.cli.kit.progress import say
from latlab.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from latlab.system.settings.tuning import Change


def _show(document: dict[str, Any] | None, text: str) -> ExitCode:
    """Print the document, or the text where there is none."""
    from latlab.formats.documents import dumps

    click.echo(text if document is None else f"{dumps(document)}\n", nl=False)
    return ExitCode.OK


@click.group(cls=SuggestingGroup)
def system() -> None:
    """Show, check, tune and restore the settings that disturb measurements."""


@system.command()
@JSON
def show(as_json: bool) -> int:
    """Show the measuring environment: all that is needed to reproduce or doubt a number."""
    from latlab.reports.system_text import environment
    from latlab.system.environment import capture

    seen = capture()
    return _show(seen.to_json() if as_json else None, environment(seen))


@system.command()
@click.option("--cpus", type=CPUS, help="The cores that measure, as 0-3,7; the last one by default.")
@JSON
def check(cpus: tuple[int, ...] | None, as_json: bool) -> int:
    """List the settings that add noise: value, cost, and the command that fixes each."""
    from latlab.reports.system_text import findings
    from latlab.system.settings import catalogue as settings

    found = settings.check(cpus=_default_cpus() if cpus is None else list(cpus))
    document = {"schema": 1, "settings": [one.to_json() for one in found]}
    return _show(document if as_json else None, findings(found))


@system.command()
@JSON
def clocks(as_json: bool) -> int:
    """List every clock: cost, resolution, kind, and what to use it for."""
    from latlab.reports.system_text import clock_table
    from latlab.system import clocks as measured

    found = measured.clocks()
    use = measured.recommend(found)
    document = {"schema": 1, "clocks": [one.to_json() for one in found], "use": use}
    return _show(document if as_json else None, clock_table(found, use))


@system.command()
@click.option("--apply", "really", is_flag=True, help="Write the settings; without it nothing is changed.")
@click.option(
    "--for",
    "profile",
    type=click.Choice(["bench", "jitter", "messaging"]),
    help="Kind of measurement to tune for.",
    default="bench",
)
@click.option("--cpus", type=CPUS, help="The cores that measure, as 0-3,7.")
@click.option("--measure", is_flag=True, help="Keep only what is seen to help; takes a minute or more.")
@JSON
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def tune(
    really: bool,
    profile: str,
    cpus: tuple[int, ...] | None,
    measure: bool,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Make the machine fit for measuring; a dry run unless --apply is given.

    With --measure each group of settings is written and taken back in turns while the measuring cores are
    watched. A group that does not make them quieter is taken back.

    With a COMMAND after `--` the settings hold while it runs; without one they hold until `latlab system
    restore`.
    """
    from latlab.reports.system_text import changes
    from latlab.system.settings import tuning

    chosen = list(cpus or ())
    if command and not really:
        raise UsageError("a dry run runs no command", remedy="add --apply")
    if measure and not really:
        raise UsageError("a dry run measures nothing", remedy="add --apply")
    write = _measured if measure else tuning.apply
    if command:
        with tuning.tuned(profile, cpus=chosen, write=write) as done:
            click.echo(changes(done), nl=False, err=True)
            try:
                return subprocess.run(command, check=False).returncode
            except OSError as error:
                raise UsageError(f"{command[0]} can't be run ({error.strerror})") from None
    with tuning.signals_unwind():
        done = write(profile, cpus=chosen) if really else tuning.plan(profile, cpus=chosen)
    document = {"schema": 1, "applied": really, "changes": [one.to_json() for one in done]}
    _show(document if as_json else None, changes(done))
    if not really:
        click.echo("latlab system tune: nothing was written; add --apply to write", err=True)
    elif any(one.outcome == "applied" for one in done):
        click.echo("latlab system tune: run `latlab system restore` to go back", err=True)
    return ExitCode.FAILED if any(one.outcome == "refused" for one in done) else ExitCode.OK


@system.command()
@click.option(
    "--overwrite", is_flag=True, help="Overwrite also settings that were changed after `tune` wrote them."
)
@JSON
def restore(overwrite: bool, as_json: bool) -> int:
    """Restore the settings from before `tune --apply`, also after a crash.

    Settings that were changed since are reported and left. After a reboot nothing is written, since
    all of these settings end with it.
    """
    from latlab.reports.system_text import changes
    from latlab.system.settings import tuning

    done = tuning.restore(overwrite=overwrite)
    document = {"schema": 1, "changes": [one.to_json() for one in done]}
    _show(document if as_json else None, changes(done) or "nothing to restore\n")
    return (
        ExitCode.FAILED if any(one.outcome in ("refused", "changed since") for one in done) else ExitCode.OK
    )


def _measured(*arguments: Any, **options: Any) -> list[Change]:
    from latlab.system.settings.measured import apply_measured

    def told(group: str) -> None:
        say(f"latlab system tune: measuring with and without {group}")

    return apply_measured(*arguments, **options, told=told)


def _default_cpus() -> list[int]:
    """The last core, where another one is left for everything else."""
    from latlab.system.cpus import online_cpus

    online = online_cpus()
    return online[-1:] if len(online) > 1 else []
