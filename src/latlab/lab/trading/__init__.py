"""The trading pipeline: planned, fed, run and observed."""
