"""Requests as text."""
