"""Loads of known size: spins, sleeps, memory, input and output."""
