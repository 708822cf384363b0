"""Queues as text, HTML and other formats."""
