"""Diagnoses as text and HTML."""
