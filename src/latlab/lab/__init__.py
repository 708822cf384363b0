"""Composes the domains: the demo pipeline and the diagnosis."""
