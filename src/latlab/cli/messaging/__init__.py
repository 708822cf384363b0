"""`latlab messaging`: how fast do messages travel."""

from latlab.cli.messaging.command import messaging

__all__ = ["messaging"]
