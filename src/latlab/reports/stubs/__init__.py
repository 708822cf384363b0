"""Stubs as text and HTML."""
