"""Writes a man page for every command: python tools/man.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from click_man.core import write_man_pages

from latlab import __version__
from latlab.cli._main import latlab


def loaded(group: click.Group) -> click.Group:
    """The group with all of its commands in it: click-man looks there, and ours are imported when called."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            loaded(command)
        if command is not None:
            group.commands[name] = command
    return group


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    write_man_pages("latlab", loaded(latlab), version=__version__, target_dir=str(folder))
    print(f"{len(list(folder.glob('*.1')))} man pages in {folder}")
