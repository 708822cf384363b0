"""Jitter as text and HTML."""
