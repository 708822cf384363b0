"""Threads that wait in a loop: the time that is spun or slept in it, and for whom."""

from latlab.threads.spins.sleeps import with_looks
from latlab.threads.spins.waits import with_spins

__all__ = ["with_looks", "with_spins"]
