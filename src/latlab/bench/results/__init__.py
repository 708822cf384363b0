"""Targets, raw results, and results of other tools."""
