"""Messaging results as text, JSON, HTML and gnuplot."""
