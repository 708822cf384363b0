"""Messaging products by their own clients."""
