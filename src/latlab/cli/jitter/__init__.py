"""`latlab jitter`: how quiet is this machine, and who disturbs it."""

from latlab.cli.jitter.command import jitter

__all__ = ["jitter"]
