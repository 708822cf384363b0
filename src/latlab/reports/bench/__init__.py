"""Benchmarks as text, JSON and HTML."""
