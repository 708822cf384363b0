"""Whole programs as timelines: captured, edited, played, compared."""
