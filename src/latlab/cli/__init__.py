"""The command line: one module per command, and the only place that prints."""

from latlab.cli._main import main

__all__ = ["main"]
