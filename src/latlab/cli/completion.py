"""`latlab completion`: what a shell needs to complete latlab's commands and options."""

from __future__ import annotations

import click

_LINES = {
    "bash": ('eval "$(_LATLAB_COMPLETE=bash_source latlab)"', "~/.bashrc"),
    "zsh": ('eval "$(_LATLAB_COMPLETE=zsh_source latlab)"', "~/.zshrc"),
    "fish": ("_LATLAB_COMPLETE=fish_source latlab | source", "~/.config/fish/completions/latlab.fish"),
}


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(sorted(_LINES)))
def completion(shell: str) -> None:
    """Print the line that completes latlab in SHELL (bash, zsh or fish), for its start-up file."""
    line, file = _LINES[shell]
    click.echo(line)
    click.echo(f"latlab completion: put this line into {file}", err=True)
