"""Frozen results and their units; schema versions."""
