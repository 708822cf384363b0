"""Threads that wait in a loop: the time that is spun, and for whom."""

from latlab.threads.spins.waits import with_spins

__all__ = ["with_spins"]
